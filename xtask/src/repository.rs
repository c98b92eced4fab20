//! The files of the repository: what is tracked or could be, read as the checks want them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::source::Source;

/// Where the repository begins: the folder above this package.
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// A file with its path from the root.
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl File {
    /// The file as text, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok().filter(|text| !text.contains('\0'))
    }
}

/// Every file that is tracked, or would be if it were added.
pub fn files() -> Result<Vec<File>, String> {
    let root = root();
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .map_err(|error| format!("git cannot be run: {error}; install git"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr)));
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    let mut paths: Vec<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    // A file that was removed and not yet committed is still listed.
    let read = |path: &&str| Some(File { path: (*path).to_owned(), bytes: fs::read(root.join(path)).ok()? });
    Ok(paths.iter().filter_map(read).collect())
}

/// The Rust files among `files`; those that are only compiled for tests are marked.
pub fn sources(files: &[File]) -> Vec<Source> {
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut sources: Vec<Source> = rust.filter_map(|file| Some(Source::new(&file.path, file.text()?))).collect();
    let test_files: Vec<String> = sources.iter().flat_map(Source::test_files).collect();
    for source in &mut sources {
        let is_named = |test: &String| source.path == *test || test.ends_with('/') && source.path.starts_with(test);
        source.is_test |= test_files.iter().any(is_named);
    }
    sources
}

/// Text of one file below the root.
pub fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path} cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_for_tests_mark_their_files() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), bytes: text.as_bytes().to_vec() };
        let files = [
            file("crates/x/src/lib.rs", "#[cfg(test)]\nmod tests;\nmod a;"),
            file("crates/x/src/tests.rs", ""),
            file("crates/x/src/tests_of_old.rs", ""),
            file("crates/x/src/a.rs", "#[cfg(test)]\nmod more;"),
            file("crates/x/src/a/more/deep.rs", ""),
            file("docs/x.md", ""),
        ];
        let sources = sources(&files);
        let tests: Vec<_> = sources.iter().filter(|source| source.is_test).map(|source| source.path.as_str()).collect();
        assert_eq!(tests, ["crates/x/src/tests.rs", "crates/x/src/a/more/deep.rs"]);
    }

    #[test]
    fn text_is_told_from_other_bytes() {
        let file = |bytes: &[u8]| File { path: String::new(), bytes: bytes.to_vec() };
        assert_eq!(file(b"a").text(), Some("a"));
        assert_eq!(file(b"a\0").text(), None);
        assert_eq!(file(b"\xFF").text(), None);
    }
}
