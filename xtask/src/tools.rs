//! Programs for developers that cargo installs: each of the version that is named, into `target/tools`, where it is not there.

use std::path::PathBuf;
use std::process::Command;

use crate::repository::root;

/// Where the program `name` is, of exactly that version and with the dependencies that its authors tried it with.
pub fn installed(name: &str, version: &str) -> Result<PathBuf, String> {
    let folder = root().join("target/tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    let exactly = format!("={version}");
    let mut install = Command::new("cargo");
    install.args(["install", "--quiet", "--locked", name, "--version", &exactly, "--root"]).arg(&folder);
    succeed(&mut install)?;
    Ok(program)
}

/// Runs a program, in the root of the repository unless it names another folder; an error if it does not end well.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    let told = format!("{command:?}");
    match placed(command).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{told}: {status}")),
        Err(error) => Err(format!("{told}: {error}")),
    }
}

/// The same, and what it printed.
pub fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let told = format!("{command:?}");
    let output = placed(command).output().map_err(|error| format!("{told}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{told}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

fn placed(command: &mut Command) -> &mut Command {
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    command
}
