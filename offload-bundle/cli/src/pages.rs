//! `offload-bundle generate-pages`: writes man pages and shell completions for packages.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::error::{Error, Result};
use crate::output::CommandOutput;

#[derive(Args)]
pub struct PagesArguments {
    /// The folder to write to, which is laid out like /usr/share
    folder: PathBuf,
}

/// The path at which each shell looks for completions.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/offload-bundle"),
    (Shell::Zsh, "zsh/site-functions/_offload-bundle"),
    (Shell::Fish, "fish/vendor_completions.d/offload-bundle.fish"),
];

pub fn run(arguments: &PagesArguments, mut command: Command) -> Result<CommandOutput> {
    let man = arguments.folder.join("man/man1");
    create_folder(&man)?;
    for (shell, place) in SHELLS {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "offload-bundle", &mut script);
        let path = arguments.folder.join(place);
        create_folder(path.parent().unwrap_or(Path::new("")))?;
        std::fs::write(&path, script).map_err(|source| Error::Io { path, source })?;
    }
    // After the completions, since it renames the commands to the names of their pages.
    clap_mangen::generate_to(command, &man).map_err(|source| Error::Io { path: man, source })?;
    Ok(CommandOutput::success(String::new()))
}

fn create_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|source| Error::Io { path: folder.to_owned(), source })
}
