//! The layout of the source is rustfmt's.

use std::process::Command;

use super::Finding;
use crate::repository::root;

/// The workspaces; each is asked about on its own.
const MANIFESTS: &[&str] = &["Cargo.toml", "fuzz/Cargo.toml", "conformance/amqp/lapin/Cargo.toml"];

/// Asks rustfmt which files it would change.
pub fn check() -> Result<Vec<Finding>, String> {
    let mut listed = String::new();
    for manifest in MANIFESTS {
        let asked = Command::new("cargo")
            .args(["fmt", "--all", "--check", "--manifest-path", manifest, "--", "-l"])
            .current_dir(root())
            .output()
            .map_err(|error| {
                format!("cargo fmt cannot be run: {error}; install rustfmt (rustup component add rustfmt)")
            })?;
        let files = String::from_utf8_lossy(&asked.stdout);
        if !asked.status.success() && files.trim().is_empty() {
            return Err(format!("cargo fmt failed: {}", String::from_utf8_lossy(&asked.stderr)));
        }
        listed.push_str(&files);
    }
    Ok(findings(&listed, &root().to_string_lossy()))
}

/// One finding for each file in rustfmt's list.
fn findings(listed: &str, root: &str) -> Vec<Finding> {
    let paths = listed.lines().filter(|line| line.ends_with(".rs"));
    let relative = |path: &str| path.strip_prefix(root).map_or(path, |path| path.trim_start_matches('/')).to_owned();
    let mut found: Vec<_> = paths
        .map(|path| Finding::new(&relative(path), 0, "is not laid out as rustfmt would", "run cargo fmt"))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_named_once() {
        let found = findings("/r/a/x.rs\n/r/a/x.rs\n\nother\n/r/b.rs\n", "/r");
        assert_eq!(found.iter().map(|finding| finding.path.as_str()).collect::<Vec<_>>(), ["a/x.rs", "b.rs"]);
    }
}
