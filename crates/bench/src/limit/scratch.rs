//! Files to be written to by a measurement: reserved in full like a segment of a log, and without a name, so that nothing
//! stays however the run ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::error::BenchError;
use crate::machine::clock::{Clock, thread_cpu_ns};

/// Bytes of one file, as of a log's segment.
pub const FILE_SIZE: u64 = 1 << 30;

/// One file after the other. Each byte is written once, so that every write has to find a new page, as an append has; and
/// a full file is dropped before the kernel begins to write it to the disk by itself.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    file: File,
    size: u64,
    position: u64,
    paused_ns: u64,
    paused_cpu_ns: u64,
}

impl Scratch {
    /// Reserves the first file of `size` bytes in `directory`.
    pub fn new(directory: &Path, size: u64) -> io::Result<Self> {
        let file = reserve(directory, size)?;
        Ok(Self { directory: directory.to_owned(), file, size, position: 0, paused_ns: 0, paused_cpu_ns: 0 })
    }

    /// Where `count` bytes that were never written have room; begins a new file if need be.
    pub fn room(&mut self, count: u64, clock: &Clock) -> io::Result<(&File, u64)> {
        if self.position + count > self.size {
            let (began_ns, cpu_before_ns) = (clock.now_ns(), thread_cpu_ns());
            // The old one first: there may not be room for two.
            self.file.set_len(0)?;
            self.file = reserve(&self.directory, self.size)?;
            self.position = 0;
            self.paused_ns += clock.now_ns() - began_ns;
            self.paused_cpu_ns += thread_cpu_ns() - cpu_before_ns;
        }
        Ok((&self.file, self.position))
    }

    /// So many bytes of it were written.
    pub fn advance(&mut self, count: u64) {
        self.position += count;
    }

    /// Time spent on making files, which is not what is measured.
    pub fn paused_ns(&self) -> u64 {
        self.paused_ns
    }

    /// CPU time spent on that.
    pub fn paused_cpu_ns(&self) -> u64 {
        self.paused_cpu_ns
    }
}

fn reserve(directory: &Path, size: u64) -> io::Result<File> {
    let file = tempfile::tempfile_in(directory)?;
    fallocate(&file, FallocateFlags::empty(), 0, size)?;
    Ok(file)
}

/// An error with the directory it is about.
pub fn in_directory(directory: &Path) -> impl Fn(io::Error) -> BenchError {
    move |source| BenchError::Disk { directory: directory.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_full_file_makes_room_for_the_next_and_nothing_has_a_name() {
        let directory = std::env::temp_dir().join(format!("sluice-scratch-test-{}", std::process::id()));
        fs::create_dir(&directory).expect("makes");
        let clock = Clock::start();
        let mut scratch = Scratch::new(&directory, 10_000).expect("reserves");
        let mut positions = Vec::new();
        for _ in 0..4 {
            let (file, position) = scratch.room(4_096, &clock).expect("room");
            assert_eq!(file.metadata().expect("metadata").len(), 10_000);
            positions.push(position);
            scratch.advance(4_096);
        }
        assert_eq!(positions, [0, 4_096, 0, 4_096]);
        assert!(scratch.paused_ns() > 0);
        assert_eq!(fs::read_dir(&directory).expect("lists").count(), 0);
        fs::remove_dir(&directory).expect("removes");
    }
}
