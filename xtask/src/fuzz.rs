//! Runs fuzz targets with cargo-fuzz, one after the other, from their seeds and the inputs kept of them; what is new and reaches
//! more is kept too.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::repository::root;
use crate::steps::{self, Action, Step};

/// How long each target runs unless told otherwise.
const SECONDS_DEFAULT: u32 = 60;

/// What to run.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    target: Option<String>,
    seconds: u32,
}

/// Runs what the arguments ask for.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let wish = parse(arguments)?;
    let targets = targets()?;
    let chosen: Vec<&String> =
        targets.iter().filter(|name| wish.target.as_ref().is_none_or(|only| only == *name)).collect();
    if chosen.is_empty() {
        return Err(format!("there is no such target; there are {}", targets.join(", ")));
    }
    let toolchain = toolchain()?;
    let mut steps = Vec::new();
    for target in chosen {
        let folder = root().join("fuzz/target/inputs").join(target);
        match inputs("unpack", target, &folder).status() {
            Ok(status) if status.success() => {}
            _ => return Err(format!("the inputs of {target} cannot be unpacked")),
        }
        let (corpus, seeds) = (folder.join("corpus"), folder.join("seeds"));
        let name: &'static str = String::leak(target.clone());
        steps.push(Step { name, action: Action::Run(toolchain.fuzz(target, &[&corpus, &seeds], wish.seconds)) });
        steps.push(Step { name: "  minimise", action: Action::Run(toolchain.minimise(target, &corpus)) });
        steps.push(Step { name: "  keep", action: Action::Run(inputs("pack", target, &folder)) });
    }
    steps::run(steps)
}

fn parse(arguments: &[&str]) -> Result<Wish, String> {
    let mut wish = Wish { target: None, seconds: SECONDS_DEFAULT };
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--seconds" => {
                let number = rest.next().and_then(|number| number.parse().ok()).filter(|&number| number > 0);
                wish.seconds = number.ok_or("--seconds needs a number, such as --seconds 60")?;
            }
            name if !name.starts_with('-') && wish.target.is_none() => wish.target = Some(name.to_owned()),
            other => return Err(format!("`{other}` is not understood; cargo xtask fuzz [TARGET] [--seconds N]")),
        }
    }
    Ok(wish)
}

/// Names of all targets: their entry points.
fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    let name_of = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| name_of(&entry.path())).collect();
    names.sort_unstable();
    Ok(names)
}

/// A compiler that can instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Toolchain {
    /// The one in use is a nightly one, or is told to behave as one.
    InUse,
    /// The nightly one beside it.
    Nightly,
}

impl Toolchain {
    fn fuzz(self, target: &str, folders: &[&Path], seconds: u32) -> Command {
        let mut command = self.command("run", target, folders);
        command.args(["--", &format!("-max_total_time={seconds}"), "-timeout=20", "-rss_limit_mb=4096"]);
        command
    }

    /// Leaves the inputs that reach what no other does.
    fn minimise(self, target: &str, corpus: &Path) -> Command {
        self.command("cmin", target, &[corpus])
    }

    fn command(self, task: &str, target: &str, folders: &[&Path]) -> Command {
        let mut command = match self {
            Self::InUse => Command::new("cargo"),
            Self::Nightly => {
                // `cargo` itself was put into the environment by the `cargo` that runs this; rustup's is wanted.
                let mut command = Command::new("rustup");
                command.args(["run", "nightly", "cargo"]);
                command
            }
        };
        command.args(["fuzz", task, target]).args(folders).current_dir(root());
        command
    }
}

/// Finds what is needed; installs nothing.
fn toolchain() -> Result<Toolchain, String> {
    let succeeds = |program: &str, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if !succeeds("cargo", &["fuzz", "--version"]) {
        return Err("cargo-fuzz is not installed; install it with: cargo install cargo-fuzz".to_owned());
    }
    let in_use = Command::new("rustc").arg("--version").output();
    let is_nightly = in_use.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("nightly"));
    if is_nightly || std::env::var_os("RUSTC_BOOTSTRAP").is_some() {
        return Ok(Toolchain::InUse);
    }
    if succeeds("rustup", &["run", "nightly", "rustc", "--version"]) {
        return Ok(Toolchain::Nightly);
    }
    Err("fuzzing needs a nightly compiler; install it with: rustup toolchain install nightly\n\
         (or set RUSTC_BOOTSTRAP=1 to use the compiler at hand)"
        .to_owned())
}

/// Brings the inputs of a target into a folder, or those of the folder into the archive that is kept.
fn inputs(task: &str, target: &str, folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "fuzz-targets"]);
    command.args(["--example", "inputs", task, target]).arg(folder).current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        let wish = |target: Option<&str>, seconds| Ok(Wish { target: target.map(str::to_owned), seconds });
        assert_eq!(parse(&[]), wish(None, 60));
        assert_eq!(parse(&["record"]), wish(Some("record"), 60));
        assert_eq!(parse(&["--seconds", "5", "record"]), wish(Some("record"), 5));
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--seconds", "x"], &["a", "b"], &["--fast"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_entry_point_is_a_target() {
        let targets = targets().expect("targets");
        assert!(targets.contains(&"record".to_owned()), "{targets:?}");
    }
}
