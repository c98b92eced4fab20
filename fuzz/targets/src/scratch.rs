//! Directories of small stores: in memory where the system has such a place, since every input opens a store anew.

use std::path::{Path, PathBuf};

use format::index_rules::IndexRules;
use tempfile::TempDir;

/// Where Linux keeps files that need no disk.
const MEMORY: &str = "/dev/shm";

/// An empty directory that goes when it is dropped.
pub fn directory() -> TempDir {
    let made = if Path::new(MEMORY).is_dir() { TempDir::new_in(MEMORY) } else { TempDir::new() };
    made.expect("a scratch directory")
}

/// Options of a store whose files are a few records long.
pub fn store_options(directory: &Path) -> storage::Options {
    storage::Options {
        segment_size: 4096,
        queue_file_entries: 8,
        key_index_slots: 16,
        key_index_entries: 40,
        recent_size: 1024,
        index_rules: IndexRules::new(vec![1000, 5000]),
        checkpoint_reserve: Some(4096),
        ..storage::Options::new(directory)
    }
}

/// Every file under `root` with its bytes, by path relative to it, in order.
pub fn snapshot(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    walk(root, root, &mut files);
    files.sort();
    files
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(root, &path, files);
        } else {
            let relative = path.strip_prefix(root).expect("below the root").to_owned();
            files.push((relative, std::fs::read(&path).expect("a file")));
        }
    }
}

/// Writes one file and the folders above it.
pub fn write(root: &Path, relative: &Path, bytes: &[u8]) {
    let path = root.join(relative);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
    std::fs::write(path, bytes).expect("writes");
}
