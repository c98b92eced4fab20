//! Data directories as they were at a moment.

#![allow(clippy::disallowed_methods, reason = "of tests alone, which have directories of their own")]

use std::fs;
use std::path::Path;

/// Copies all that is in a directory to another, which need not be there.
///
/// Not by another process: what begins one shares the locks of all other tests' directories for a moment.
pub fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory is made");
    for entry in fs::read_dir(from).expect("a directory is listed") {
        let entry = entry.expect("a directory is listed");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a file has a type").is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file is copied");
        }
    }
}
