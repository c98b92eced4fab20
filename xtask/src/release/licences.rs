//! Licences of what others wrote and the binary has in it: their texts, as most of them ask for.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::output;

const BEGINNING: &str = "\
Sluice is under the Apache License 2.0. Its binary also has in it the packages below, each under its own licence, Rust's standard library (MIT or
Apache 2.0) and the C library musl (MIT).
";

/// Texts of licences are near the top of a package, or of the C library that it brings.
const DEPTH_MAX: usize = 3;

/// One package: its name with its version, and its licence.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    folder: String,
    licence: String,
}

/// All texts, one package after the other.
pub fn texts(target: &str) -> Result<String, String> {
    let mut list = Command::new("cargo");
    list.args(["tree", "--locked", "--package", "cli", "--edges", "normal", "--target", target]);
    let listed = output(list.args(["--prefix", "none", "--format", "{p}|{l}"]))?;
    let registry = registry()?;
    let mut text = BEGINNING.to_owned();
    for package in packages(&String::from_utf8_lossy(&listed)) {
        let _ = write!(text, "\n==== {}: {}\n", package.folder, package.licence);
        let mut files = Vec::new();
        for source in &registry {
            find(&source.join(&package.folder), DEPTH_MAX, &mut files);
        }
        if files.is_empty() {
            text.push_str("\n(the package has no text of it)\n");
        }
        files.sort();
        for file in files {
            let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let _ = write!(text, "\n{}\n", String::from_utf8_lossy(&bytes).trim_end());
        }
    }
    Ok(text)
}

/// Packages in what `cargo tree` lists, without those of this repository, which have their path there.
fn packages(listed: &str) -> BTreeSet<Package> {
    let lines = listed.lines().filter_map(|line| {
        let (package, licence) = line.split_once('|')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        let is_own = words.any(|word| word.starts_with("(/"));
        let licence = licence.trim_end_matches(" (*)").to_owned();
        (!is_own).then(|| Package { folder: format!("{name}-{version}"), licence })
    });
    lines.collect()
}

/// Where cargo keeps sources of packages.
fn registry() -> Result<Vec<PathBuf>, String> {
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
    let folder = PathBuf::from(home.map_err(|error| format!("CARGO_HOME: {error}"))?).join("registry/src");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn find(folder: &Path, depth_max: usize, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().to_uppercase());
        if path.is_dir() && depth_max > 1 {
            find(&path, depth_max - 1, files);
        } else if path.is_file() && is_licence(&name) {
            files.push(path);
        }
    }
}

/// Whether a file of that name, in capitals, is the text of a licence.
fn is_licence(name: &str) -> bool {
    let is_text = !name.contains('.') || name.ends_with(".TXT") || name.ends_with(".MD") || name.starts_with("LICENSE");
    is_text
        && ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"].iter().any(|one| name.starts_with(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_others_are_listed_once() {
        let listed = "\
            cli v0.1.0 (/srv/sluice/crates/cli)|Apache-2.0\n\
            maud_macros v0.27.0 (proc-macro)|MIT OR Apache-2.0\n\
            axum v0.8.9|MIT\n\
            axum v0.8.9|MIT (*)\n";
        let package = |folder: &str, licence: &str| Package { folder: folder.to_owned(), licence: licence.to_owned() };
        let expected = [package("axum-0.8.9", "MIT"), package("maud_macros-0.27.0", "MIT OR Apache-2.0")];
        assert_eq!(packages(listed), BTreeSet::from(expected));
    }

    #[test]
    fn texts_are_told_from_code() {
        for (name, is) in [("LICENSE-MIT", true), ("COPYING", true), ("LICENSE.APACHE2", true), ("NOTICE.RS", false)] {
            assert_eq!(is_licence(name), is, "{name}");
        }
    }
}
