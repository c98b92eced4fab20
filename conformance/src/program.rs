//! Programs of other languages beside this crate: run to their end, or found with the packages that their own files name.
//!
//! Packages are installed once, into a folder whose name follows from what is wanted: another version is another folder.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{repository, skip};

/// Where the programs are that speak AMQP.
pub fn amqp_programs() -> PathBuf {
    repository().join("conformance/amqp")
}

/// Runs a program that is to end well; gives what it said.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program can be started");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{said}\n{errors}");
    said.into_owned()
}

/// A Python that finds what `requirements`, a file in the folder of Python programs, names.
pub fn python(requirements: &str) -> Command {
    let file = amqp_programs().join("python").join(requirements);
    let packages = installed(&named_after(&file), |folder| {
        run(Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--target"])
            .arg(folder)
            .arg("-r")
            .arg(&file));
    });
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(amqp_programs().join("python"));
    command
}

/// A Node.js that finds what the lock file of the folder of AMQP's programs names.
pub fn node() -> Command {
    node_in(&amqp_programs().join("node"))
}

/// The browser: what `CHROMIUM` names, or Debian's package `chromium`, which is installed if that is permitted. `None` without one.
pub fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let browser = PathBuf::from("/usr/bin/chromium");
    if !browser.exists() {
        let apt = "DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300";
        let line = format!("{apt} update && {apt} install -y --no-install-recommends chromium fonts-dejavu-core");
        let _ = Command::new("sh").args(["-c", &line]).stdout(Stdio::null()).status();
    }
    if browser.exists() {
        return Some(browser);
    }
    skip("there is no browser: apt-get install chromium, or name one by CHROMIUM");
    None
}

/// A Node.js that finds what the lock file of a folder of programs names.
pub fn node_in(programs: &Path) -> Command {
    let packages = installed(&named_after(&programs.join("package-lock.json")), |folder| {
        std::fs::create_dir_all(folder).expect("a folder");
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(programs.join(name), folder.join(name)).expect("copied");
        }
        run(Command::new("npm").current_dir(folder).args(["ci", "--silent", "--no-audit", "--no-fund"]));
    });
    let mut command = Command::new("node");
    command.env("NODE_PATH", packages.join("node_modules")).current_dir(programs);
    command
}

/// A program in Rust of the package `name`, which has a lock file of its own, built with what that names.
pub fn rust(name: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--locked", "--target-dir"])
        .arg(amqp_programs().join("target").join(name))
        .arg("--");
    command.current_dir(amqp_programs().join(name));
    command
}

/// A program in Java of the Maven project `name`, compiled into a folder of its own in `scratch`.
pub fn java(name: &str, scratch: &Path, arguments: &str) -> Command {
    let mut command = Command::new("mvn");
    command.current_dir(amqp_programs().join(name)).args(["-q", "compile", "exec:java"]);
    command.arg(format!("-Dexec.args={arguments}"));
    command.arg(format!("-DbuildDirectory={}", scratch.join("target").display()));
    command
}

/// A name for what `file` asks for.
fn named_after(file: &Path) -> String {
    let wanted = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut hasher = DefaultHasher::new();
    wanted.hash(&mut hasher);
    format!("{}-{:016x}", file.file_stem().expect("a file's name").display(), hasher.finish())
}

/// The folder `name` that `install` has filled, now or before.
pub fn installed(name: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let all = amqp_programs().join("target");
    let folder = all.join(name);
    if !folder.exists() {
        std::fs::create_dir_all(&all).expect("a folder");
        let making = tempfile::tempdir_in(&all).expect("a folder beside it");
        let filled = making.path().join("filled");
        install(&filled);
        // Another test may have been faster; what it made is the same.
        if let Err(error) = std::fs::rename(&filled, &folder) {
            assert!(folder.exists(), "{}: {error}", folder.display());
        }
    }
    folder
}
