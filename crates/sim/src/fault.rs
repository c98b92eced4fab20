//! Sectors of the disk that cannot be read back.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use storage::disk::{Disk, Failure, FaultyDisk};

use crate::node::DIRECTORY;

/// Bytes a disk loses at once.
const SECTOR_SIZE: u64 = 512;

/// Bytes that Sluice asks the disk for where it cannot read a record.
const BLOCK_SIZE: u64 = 4096;

/// What a program gets that reads there.
const EIO: i32 = 5;

/// What lies in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Records of the log.
    Records,
    /// Entries of a queue.
    Entries,
    /// The key index.
    Keys,
}

/// A sector that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct Sector {
    pub(crate) contents: Contents,
    path: String,
    range: Range<u64>,
    /// Where it lies in the log.
    pub(crate) in_log: Option<Range<u64>>,
}

impl Sector {
    /// One that `pick` says, of those there are.
    pub(crate) fn pick(
        disk: &FaultyDisk,
        contents: Contents,
        pick: u64,
        log: Range<u64>,
        segment_size: u64,
    ) -> Option<Self> {
        let root = Path::new(DIRECTORY);
        let files = match contents {
            Contents::Records => {
                let sectors = log.start / SECTOR_SIZE..log.end.div_ceil(SECTOR_SIZE);
                let count = (sectors.end - sectors.start).max(1);
                let at = (sectors.start + pick % count) * SECTOR_SIZE;
                let base = at / segment_size * segment_size;
                let path = format!("commitlog/{base:020}");
                let in_log = Some(at..at + SECTOR_SIZE);
                return (!log.is_empty()).then(|| Self {
                    contents,
                    path,
                    range: at - base..at - base + SECTOR_SIZE,
                    in_log,
                });
            }
            Contents::Entries => files_below(disk, &root.join("consumequeue")),
            Contents::Keys => files_below(disk, &root.join("index")),
        };
        let disk = Disk::new(disk.clone());
        let file = files.get(usize::try_from(pick).unwrap_or_default() % files.len().max(1))?;
        let sectors = disk.size(file).ok()?.div_ceil(SECTOR_SIZE).max(1);
        let at = pick / 7 % sectors * SECTOR_SIZE;
        Some(Self { contents, path: file.to_string_lossy().into_owned(), range: at..at + SECTOR_SIZE, in_log: None })
    }

    /// Whether the disk still reads most other blocks of its segment beside each that it does not read, of a log that is on it up to `durable`:
    /// a store looks at a few of them to tell such a record from a disk that is gone.
    pub(crate) fn leaves_most(&self, lost: &[Self], durable: u64, segment_size: u64) -> bool {
        let Some(in_log) = &self.in_log else { return true };
        let size = (durable + self.range.start).saturating_sub(in_log.start).min(segment_size);
        let count = size.div_ceil(BLOCK_SIZE);
        let of_segment = lost.iter().filter(|other| other.path == self.path).chain([self]);
        let gone: BTreeSet<_> = of_segment.map(|sector| sector.range.start / BLOCK_SIZE).collect();
        let others_gone = gone.len() as u64 - 1;
        others_gone == 0 || 2 * others_gone < count.saturating_sub(1)
    }

    /// From now on it cannot be read.
    pub(crate) fn lose(&self, disk: &FaultyDisk) {
        disk.fail(Failure::unreadable(&self.path, self.range.clone(), EIO));
    }
}

/// Files below a folder, by their paths.
fn files_below(disk: &FaultyDisk, folder: &Path) -> Vec<PathBuf> {
    let whole = Disk::new(disk.clone());
    let mut files = Vec::new();
    for name in whole.list(folder).unwrap_or_default() {
        let path = folder.join(name);
        match files_below(disk, &path) {
            below if !below.is_empty() => files.extend(below),
            _ if whole.open_read_only(&path).is_ok() => files.push(path),
            _ => {}
        }
    }
    files
}
