//! `cargo xtask release`: what is given out, in `target/packages`.
//!
//! A static binary in an archive with what belongs to it (manual pages, completions, what `deploy/` has), the same as a package for
//! Debian, the Helm chart, a list of the parts that are in the binary (CycloneDX), and the checksums of all. Nothing is signed or sent.

mod licences;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repository::root;
use crate::tools::{installed, output, succeed};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Linked with musl, so that the binary needs nothing of the system but its kernel.
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

const CARGO_DEB: &str = "3.8.0";
const CARGO_SBOM: &str = "0.10.0";

/// Below the root of the repository; the manifest of the package for Debian names it too (`crates/cli/Cargo.toml`).
const STAGE: &str = "target/packages/stage";

/// Makes everything.
pub fn run() -> Result<(), String> {
    let binary = build()?;
    let packages = root().join("target/packages");
    let _ = fs::remove_dir_all(&packages);
    stage(&binary)?;
    let files = [archive(&packages)?, debian(&packages)?, chart(&packages)?, parts(&packages)?];
    let sums = output(Command::new("sha256sum").args(files.iter().map(|file| name(file))).current_dir(&packages))?;
    write(&packages.join("SHA256SUMS"), &sums)?;
    fs::remove_dir_all(root().join(STAGE)).map_err(|error| format!("{STAGE}: {error}"))?;
    println!("{}", String::from_utf8_lossy(&sums).trim_end());
    println!("in {}", packages.display());
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

fn folder(path: &str) -> Result<PathBuf, String> {
    let folder = root().join(path);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Builds the binary as it is shipped.
fn build() -> Result<PathBuf, String> {
    // Paths of the machine that builds are nobody's concern.
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
    let mut flags = format!("--remap-path-prefix={}=sluice", root().display());
    if let Ok(home) = home {
        flags.push_str(&format!(" --remap-path-prefix={home}=cargo"));
    }
    let mut build = Command::new("cargo");
    build
        .args(["build", "--locked", "--profile", "dist", "--bin", "sluice", "--target", STATIC_TARGET])
        .args(["--target-dir", "target"])
        .env("RUSTFLAGS", flags);
    succeed(&mut build).map_err(|error| {
        format!("{error}\nneeded: rustup target add {STATIC_TARGET}, and musl-gcc (apt-get install musl-tools)")
    })?;
    let binary = root().join("target").join(STATIC_TARGET).join("dist/sluice");
    let kind = String::from_utf8_lossy(&output(Command::new("file").arg("--brief").arg(&binary))?).into_owned();
    if !(kind.contains("static") && kind.contains(", stripped")) {
        return Err(format!("{} is not as it is to be: {kind}", binary.display()));
    }
    Ok(binary)
}

/// Lays out what is in the archive.
fn stage(binary: &Path) -> Result<(), String> {
    let stage = folder(STAGE)?;
    let sluice = stage.join("sluice");
    fs::copy(binary, &sluice).map_err(|error| format!("{}: {error}", binary.display()))?;
    succeed(Command::new(&sluice).arg("manual").arg(stage.join("manual")))?;
    let completions = folder(&format!("{STAGE}/completions"))?;
    for (shell, file) in [("bash", "sluice.bash"), ("zsh", "_sluice"), ("fish", "sluice.fish")] {
        write(&completions.join(file), &output(Command::new(&sluice).args(["completions", shell]))?)?;
    }
    write(&stage.join("LICENSES-OF-PARTS"), licences::texts(STATIC_TARGET)?.as_bytes())?;
    let mut copy = Command::new("cp");
    copy.args(["--recursive", "LICENSE", "README.md", "CHANGELOG.md", "docs"]);
    copy.args(["deploy/container", "deploy/prometheus", "deploy/grafana", "deploy/helm"]);
    copy.args(["deploy/debian/sluice.service", "deploy/debian/sluice.toml"]);
    succeed(copy.arg(&stage))?;
    // The image's data directory, which is empty.
    folder(&format!("{STAGE}/container/data")).map(|_| ())
}

/// The archive: one folder.
fn archive(packages: &Path) -> Result<PathBuf, String> {
    let folder = format!("sluice-{VERSION}-x86_64-linux");
    let archive = packages.join(format!("{folder}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go-w"]);
    tar.arg("--file").arg(&archive).arg(format!("--transform=s,^\\.,{folder},"));
    succeed(tar.arg("--directory").arg(root().join(STAGE)).arg("."))?;
    Ok(archive)
}

/// The package for Debian, as the manifest of the crate `cli` has it.
fn debian(packages: &Path) -> Result<PathBuf, String> {
    let mut deb = Command::new(installed("cargo-deb", CARGO_DEB)?);
    deb.args(["--package", "cli", "--no-build", "--no-strip", "--no-dbgsym", "--target", STATIC_TARGET]);
    succeed(deb.args(["--profile", "dist", "--quiet", "--output"]).arg(packages))?;
    Ok(packages.join(format!("sluice_{VERSION}-1_amd64.deb")))
}

/// The chart, as `helm install` takes it.
fn chart(packages: &Path) -> Result<PathBuf, String> {
    let chart = packages.join(format!("sluice-chart-{VERSION}.tgz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--file"]);
    succeed(tar.arg(&chart).args(["--directory", "deploy/helm", "sluice"]))?;
    Ok(chart)
}

/// What the binary is made of, with versions and licences.
fn parts(packages: &Path) -> Result<PathBuf, String> {
    let mut list = Command::new(installed("cargo-sbom", CARGO_SBOM)?);
    let text = output(list.args(["--cargo-package", "cli", "--output-format", "cyclone_dx_json_1_6"]))?;
    // The crate is called otherwise than what it makes.
    let text = String::from_utf8_lossy(&text).replace(r#""name": "cli""#, r#""name": "sluice""#);
    let file = packages.join(format!("sluice-{VERSION}.cdx.json"));
    write(&file, text.as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::read;

    #[test]
    fn the_chart_has_the_version_of_the_binary() {
        let chart = read("deploy/helm/sluice/Chart.yaml").expect("a chart");
        for line in [format!("version: {VERSION}"), format!("appVersion: {VERSION}")] {
            assert!(chart.lines().any(|one| one == line), "{line}");
        }
    }

    #[test]
    fn the_package_takes_its_files_from_where_they_are_laid() {
        let manifest = read("crates/cli/Cargo.toml").expect("a manifest");
        assert!(manifest.contains(&format!("\"../../{STAGE}/sluice\"")));
    }
}
