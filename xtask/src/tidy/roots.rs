//! What stands at the root of the repository: nothing that is not in the list.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::File;

/// Files and folders there are.
const ROOT: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "clippy.toml",
    "conformance",
    "crates",
    "deploy",
    "docs",
    "fuzz",
    "peers",
    "rustfmt.toml",
    "testdata",
    "xtask",
];

/// Checks the paths of all files.
pub fn check(files: &[File]) -> Vec<Finding> {
    let names: BTreeSet<&str> = files.iter().filter_map(|file| file.path.split('/').next()).collect();
    let unknown = names.into_iter().filter(|name| !ROOT.contains(name));
    let remedy = "put it where it belongs, or add it to the list in xtask/src/tidy/roots.rs";
    unknown.map(|name| Finding::new(name, 0, "does not belong at the root of the repository", remedy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_file_or_folder_is_named_once() {
        let file = |path: &str| File { path: path.to_owned(), bytes: Vec::new() };
        let found = check(&["notes/a", "notes/b", "docs/notes", "README.md", "core"].map(file));
        assert_eq!(found.iter().map(|finding| finding.path.as_str()).collect::<Vec<_>>(), ["core", "notes"]);
    }
}
