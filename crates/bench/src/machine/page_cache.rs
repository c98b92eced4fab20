//! How much of a directory's files the kernel has in memory, whoever read or wrote them: a broker that maps its store has these
//! pages counted as its own resident memory, one that reads and writes has them counted nowhere.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::param::page_size;

/// `cachestat`, the same number on every architecture; in Linux since 6.5.
const CACHESTAT: libc::c_long = 451;
const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;

/// A part of a file; no length means to its end.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// What the kernel tells of it, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    written_back: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// MiB of the files below `directories` that are in the page cache; unknown where the kernel does not tell (before Linux 6.5), and
/// where there is no directory to look at.
pub fn cached_mib(directories: &[impl AsRef<Path>]) -> Option<f64> {
    let mut pages = 0;
    for directory in directories {
        pages += pages_below(directory.as_ref())?;
    }
    (!directories.is_empty()).then_some(pages as f64 * page_size() as f64 / BYTES_PER_MIB)
}

fn pages_below(directory: &Path) -> Option<u64> {
    let mut pages = 0;
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            // A directory may go while it is looked at, as files do.
            pages += pages_below(&entry.path()).unwrap_or(0);
        } else if kind.is_file()
            && let Ok(file) = File::open(entry.path())
        {
            pages += pages_of(&file)?;
        }
    }
    Some(pages)
}

fn pages_of(file: &File) -> Option<u64> {
    let (range, mut pages) = (Range { offset: 0, length: 0 }, Pages::default());
    #[expect(unsafe_code, reason = "a system call that reads one structure and fills another, both on this stack")]
    // SAFETY: both have the layout the kernel expects and outlive the call, and the file is open.
    let outcome = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut pages, 0) };
    (outcome == 0).then_some(pages.cached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_in_the_page_cache_and_what_was_never_written_is_not() {
        let directory = std::env::temp_dir().join(format!("sluice-page-cache-{}", std::process::id()));
        fs::create_dir_all(directory.join("deep")).expect("a directory");
        let written = directory.join("deep/written");
        fs::write(&written, vec![1; 3 << 20]).expect("writes");
        File::create(directory.join("empty")).and_then(|file| file.set_len(5 << 20)).expect("a hole");
        let cached = cached_mib(&[&directory]);
        let is_told = pages_of(&File::open(&written).expect("opens")).is_some();
        fs::remove_dir_all(&directory).expect("removes");
        assert_eq!(cached, is_told.then_some(3.0));
        assert_eq!(cached_mib(&[directory]), None, "a directory that is not there");
        assert_eq!(cached_mib(&[] as &[&Path]), None);
    }
}
