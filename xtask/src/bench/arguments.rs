//! What follows `cargo xtask bench`.

use std::path::PathBuf;

use crate::failure::{Failure, Result};

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Print the help.
    Help,
    /// Run cases: the named ones, or all.
    Run(Selection),
    /// Compile a corpus and say where its objects are.
    Objects { corpus: String },
    /// Write an archive to measure with on another machine.
    Pack { file: PathBuf, dist: Option<PathBuf> },
}

/// Which cases, and how.
#[derive(Debug, Default, PartialEq)]
pub struct Selection {
    /// Empty for all.
    pub cases: Vec<String>,
    pub brief: bool,
    pub peer: Peer,
    /// Pairs of runs, where the case's own number is not wanted.
    pub rounds: Option<usize>,
    /// Programs to measure instead of building them: a folder as `cargo xtask dist` makes it.
    pub dist: Option<PathBuf>,
}

/// Whom fatlink is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Peer {
    /// clang-linker-wrapper of LLVM 22.
    #[default]
    Clang,
    /// nvcc -dlto, on objects that it compiled itself from the same sources.
    Nvcc,
}

/// What `--help` prints before the list of cases.
pub const HELP: &str = "\
Usage: cargo xtask bench [--case NAME]... [--brief] [--peer clang|nvcc]
                         [--rounds N] [--dist DIR]
       cargo xtask bench --objects CORPUS
       cargo xtask bench --pack FILE [--dist DIR]

Without --brief the results go to docs/benchmarks.md; with it each case prints one line.
Exits with 1 when a case misses its goal. --rounds sets how many pairs of runs count; --dist measures the programs of a
folder such as dist/ instead of building them. All cases together take about an hour on two cores.
";

/// Reads the arguments.
pub fn parse(arguments: &[String]) -> Result<Action> {
    let mut words = arguments.iter();
    let mut selection = Selection::default();
    let mut pack = None;
    while let Some(word) = words.next() {
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let mut value = || {
            let value = joined.clone().or_else(|| words.next().cloned());
            value.ok_or_else(|| Failure::new(format!("{name} needs a value: see cargo xtask bench --help")))
        };
        match name {
            "--help" | "-h" => return Ok(Action::Help),
            "--case" => selection.cases.push(value()?),
            "--brief" => selection.brief = true,
            "--peer" => selection.peer = parse_peer(&value()?)?,
            "--rounds" => selection.rounds = Some(parse_rounds(&value()?)?),
            "--dist" => selection.dist = Some(value()?.into()),
            "--objects" => return Ok(Action::Objects { corpus: value()? }),
            "--pack" => pack = Some(value()?.into()),
            _ => return Err(Failure::new(format!("bench knows no {word}: see cargo xtask bench --help"))),
        }
    }
    Ok(match pack {
        Some(file) => Action::Pack { file, dist: selection.dist },
        None => Action::Run(selection),
    })
}

fn parse_rounds(text: &str) -> Result<usize> {
    let rounds = text.parse().ok().filter(|rounds| *rounds > 0);
    rounds.ok_or_else(|| Failure::new(format!("--rounds is a number from 1 on, not {text}")))
}

fn parse_peer(name: &str) -> Result<Peer> {
    match name {
        "clang" => Ok(Peer::Clang),
        "nvcc" => Ok(Peer::Nvcc),
        _ => Err(Failure::new(format!("--peer is clang or nvcc, not {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Action> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn values_may_stand_apart_or_joined() {
        let cases = vec!["small".into(), "large".into()];
        let expected = Selection { cases, brief: true, peer: Peer::Nvcc, rounds: Some(2), dist: Some("d".into()) };
        assert_eq!(
            parsed("--case small --case=large --brief --peer=nvcc --rounds 2 --dist d").unwrap(),
            Action::Run(expected)
        );
        let pack = Action::Pack { file: "a.tar.xz".into(), dist: None };
        assert_eq!(parsed("--pack a.tar.xz").unwrap(), pack);
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        assert!(parsed("--cases small").unwrap_err().message.contains("--cases"));
        assert!(parsed("--case").unwrap_err().message.contains("--case needs a value"));
        assert!(parsed("--rounds 0").unwrap_err().message.contains("not 0"));
        assert!(parsed("--peer gcc").unwrap_err().message.contains("gcc"));
    }
}
