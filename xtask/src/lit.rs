//! lit, which runs tests of programs.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::environment::Environment;

/// lit, with values for its configuration.
pub fn lit(environment: &Environment, parameters: &[(&str, &dyn AsRef<OsStr>)]) -> Command {
    let mut lit = Command::new("lit");
    environment.apply(&mut lit);
    for (name, value) in parameters {
        let mut word = OsString::from(format!("{name}="));
        word.push(value);
        lit.arg("--param").arg(word);
    }
    lit
}
