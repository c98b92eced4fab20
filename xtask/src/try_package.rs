//! `cargo xtask try-package [OLDER.deb]`: the package for Debian, installed, used, upgraded and removed in a clean Debian with its own
//! systemd, as `try_package/trial.sh` says.
//!
//! Without an older package the newest one is installed first under a lower version: what is tried then is that an upgrade keeps settings
//! and messages, not that the binary reads what an older one wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::repository::root;
use crate::tools::{output, succeed};

const SUITE: &str = "bookworm";
const TRIAL: &str = include_str!("try_package/trial.sh");

/// Has systemd run the trial once it is up, and end then.
const UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/bin/sh /trial/trial.sh >/trial/log 2>&1; echo $? >/trial/status'
ExecStopPost=/bin/systemctl --no-block poweroff
";

/// Tries the package of the last `cargo xtask release`.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let newest = root().join(format!("target/packages/sluice_{}-1_amd64.deb", env!("CARGO_PKG_VERSION")));
    if !newest.exists() {
        return Err(format!("{} is not there: cargo xtask release makes it", newest.display()));
    }
    let folder = root().join("target/packages/trial");
    let _ = fs::remove_dir_all(&folder);
    let trial = folder.join("trial");
    fs::create_dir_all(&trial).map_err(|error| format!("{}: {error}", trial.display()))?;
    let older = match arguments {
        [] => under_lower_version(&newest, &folder)?,
        [older] => PathBuf::from(older),
        _ => return Err("usage: cargo xtask try-package [OLDER.deb]".to_owned()),
    };
    copy(&newest, &trial.join("newest.deb"))?;
    copy(&older, &trial.join("older.deb"))?;
    write(&trial.join("trial.sh"), TRIAL)?;
    let machine = folder.join("machine");
    succeed(Command::new("cp").arg("--archive").arg(clean_debian()?).arg(&machine))?;
    let ended = boot(&machine, &trial);
    let log = fs::read_to_string(trial.join("log")).unwrap_or_default();
    let status = fs::read_to_string(trial.join("status")).unwrap_or_default();
    succeed(Command::new("rm").args(["--recursive", "--force", "--one-file-system"]).arg(&machine))?;
    ended?;
    print!("{log}");
    if status.trim() == "0" {
        Ok(())
    } else {
        Err(format!("the trial failed; its log: {}", trial.join("log").display()))
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(|_| ()).map_err(|error| format!("{}: {error}", from.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The same package under a version that comes before.
fn under_lower_version(package: &Path, folder: &Path) -> Result<PathBuf, String> {
    let (content, lower) = (folder.join("content"), folder.join("lower.deb"));
    succeed(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(&content))?;
    let control = content.join("DEBIAN/control");
    let text = fs::read_to_string(&control).map_err(|error| format!("{}: {error}", control.display()))?;
    let lines = text.lines().map(|line| if line.starts_with("Version: ") { "Version: 0.0.1-1" } else { line });
    write(&control, &(lines.collect::<Vec<_>>().join("\n") + "\n"))?;
    succeed(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&content).arg(&lower))?;
    fs::remove_dir_all(&content).map_err(|error| format!("{}: {error}", content.display()))?;
    Ok(lower)
}

/// A Debian with systemd and nothing else; made once.
fn clean_debian() -> Result<PathBuf, String> {
    let debian = root().join(format!("target/tools/debian-{SUITE}"));
    if debian.exists() {
        return Ok(debian);
    }
    let unfinished = debian.with_extension("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    let mut make = Command::new("debootstrap");
    make.args(["--variant=minbase", "--include=systemd,dbus", SUITE]).arg(&unfinished);
    succeed(make.stdout(Stdio::null()))
        .map_err(|error| format!("{error}\nneeded: root, and apt-get install debootstrap systemd-container"))?;
    write(&unfinished.join("etc/systemd/system/trial.service"), UNIT)?;
    let wants = unfinished.join("etc/systemd/system/default.target.wants");
    fs::create_dir_all(&wants).map_err(|error| format!("{}: {error}", wants.display()))?;
    let link = wants.join("trial.service");
    std::os::unix::fs::symlink("../trial.service", &link).map_err(|error| format!("{}: {error}", link.display()))?;
    fs::rename(&unfinished, &debian).map_err(|error| format!("{}: {error}", debian.display()))?;
    Ok(debian)
}

/// Starts it, with a network of its own and `trial` at `/trial`, until it ends itself.
fn boot(machine: &Path, trial: &Path) -> Result<(), String> {
    let mut boot = Command::new("timeout");
    boot.args(["600", "systemd-nspawn", "--quiet", "--boot", "--private-network", "--register=no", "--keep-unit"]);
    boot.arg("--directory").arg(machine).arg("--bind").arg(format!("{}:/trial", trial.display()));
    output(boot.stdin(Stdio::null())).map(|_| ())
}
