//! What was done to a disk, step by step, and what of it a power cut may leave.
//!
//! The model is that of a file system that promises what POSIX does and no more, with 512-byte sectors that are written whole:
//! - bytes are sure once their file was synced after they were written, and until then each sector holds what it held at
//!   some moment since the last sync, whatever the others hold;
//! - so is a file's size;
//! - a name (made, linked, renamed, removed) is sure once its directory was synced, and until then may have happened or not,
//!   each by itself;
//! - after a failed sync, what it should have put on the disk stays unsure, even if a later sync succeeds, until its
//!   sector is written again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::memory::{Contents, MemoryDisk, Node};

/// Bytes a disk writes whole.
const SECTOR_SIZE: u64 = 512;

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Change {
    MakeDirectory(PathBuf),
    /// A file gets its first name, or one more.
    Name(PathBuf, u64),
    Rename(PathBuf, PathBuf, u64),
    Remove(PathBuf),
    Write(u64, u64, Vec<u8>),
    Clear(u64, u64, u64),
    Size(u64, u64),
    Sync(u64),
    FailedSync(u64),
    SyncDirectory(PathBuf),
}

/// The disk as it surely was once, and what was done since.
#[derive(Debug)]
pub(super) struct History {
    before: MemoryDisk,
    pub(super) changes: Vec<Change>,
}

impl History {
    pub(super) fn starting_with(before: MemoryDisk) -> Self {
        Self { before, changes: Vec::new() }
    }

    /// The disk after a power cut once `count` changes were made. `survives` is asked about each change that is not sure.
    pub(super) fn image(&self, count: usize, survives: &mut dyn FnMut() -> bool) -> MemoryDisk {
        let changes = self.changes.get(..count).unwrap_or(&self.changes);
        let sure = Sure::of(changes);
        let mut image = Image::of(&self.before);
        for (at, change) in changes.iter().enumerate() {
            image.apply(change, sure.covers(at, change), survives);
        }
        image.into_disk(&self.before)
    }
}

/// Which changes a sync has put on the disk.
struct Sure {
    /// For each file, the stretches of the history that a successful sync covers.
    files: BTreeMap<u64, Vec<(usize, usize)>>,
    /// For each directory, its last sync.
    directories: BTreeMap<PathBuf, usize>,
}

impl Sure {
    fn of(changes: &[Change]) -> Self {
        let mut sure = Self { files: BTreeMap::new(), directories: BTreeMap::new() };
        let mut begins: BTreeMap<u64, usize> = BTreeMap::new();
        for (at, change) in changes.iter().enumerate() {
            match change {
                Change::Sync(file) => {
                    let begin = begins.insert(*file, at).unwrap_or_default();
                    sure.files.entry(*file).or_default().push((begin, at));
                }
                Change::FailedSync(file) => {
                    begins.insert(*file, at);
                }
                Change::SyncDirectory(path) => {
                    sure.directories.insert(path.clone(), at);
                }
                _ => {}
            }
        }
        sure
    }

    fn covers(&self, at: usize, change: &Change) -> bool {
        let file = |file: &u64| {
            self.files.get(file).is_some_and(|synced| synced.iter().any(|(begin, end)| *begin <= at && at < *end))
        };
        let name = |path: &Path| {
            path.parent().and_then(|parent| self.directories.get(parent)).is_some_and(|synced| at < *synced)
        };
        match change {
            Change::MakeDirectory(path) | Change::Name(path, _) | Change::Remove(path) => name(path),
            Change::Rename(from, to, _) => name(from) && name(to),
            Change::Write(number, ..) | Change::Clear(number, ..) | Change::Size(number, _) => file(number),
            Change::Sync(_) | Change::FailedSync(_) | Change::SyncDirectory(_) => true,
        }
    }
}

/// What a file holds on the disk.
#[derive(Debug, Default)]
struct Stored {
    bytes: Vec<u8>,
    size: u64,
    modified_ms: u64,
    /// Sizes after the one on the disk, which only the page cache knows.
    is_size_behind: bool,
    /// For each sector, what only the page cache has: it gets to the disk in this order, or not at all.
    behind: BTreeMap<u64, Vec<(u64, Vec<u8>)>>,
}

impl Stored {
    fn put(&mut self, position: u64, bytes: &[u8]) {
        let (from, to) = (position as usize, position as usize + bytes.len());
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        if let Some(target) = self.bytes.get_mut(from..to) {
            target.copy_from_slice(bytes);
        }
    }

    fn write(&mut self, position: u64, bytes: &[u8], is_sure: bool, survives: &mut dyn FnMut() -> bool) {
        let (mut at, mut rest) = (position, bytes);
        while !rest.is_empty() {
            let sector = at / SECTOR_SIZE;
            let room = ((sector + 1) * SECTOR_SIZE - at) as usize;
            let (piece, after) = rest.split_at(room.min(rest.len()));
            let behind = self.behind.remove(&sector).unwrap_or_default();
            if is_sure || behind.is_empty() && survives() {
                behind.iter().for_each(|(position, bytes)| self.put(*position, bytes));
                self.put(at, piece);
            } else {
                let later = behind.into_iter().chain([(at, piece.to_vec())]).collect();
                self.behind.insert(sector, later);
            }
            at += piece.len() as u64;
            rest = after;
        }
    }

    fn set_size(&mut self, size: u64, is_sure: bool, survives: &mut dyn FnMut() -> bool) {
        if is_sure || !self.is_size_behind && survives() {
            self.is_size_behind = false;
            self.size = size;
            self.bytes.truncate(size as usize);
        } else {
            self.is_size_behind = true;
        }
    }
}

/// A disk being made after a power cut.
#[derive(Debug)]
struct Image {
    /// Names with what they lead to; `None` is a directory.
    names: BTreeMap<PathBuf, Option<u64>>,
    files: BTreeMap<u64, Stored>,
}

impl Image {
    fn of(disk: &MemoryDisk) -> Self {
        let mut image = Self { names: BTreeMap::new(), files: BTreeMap::new() };
        for (path, node) in disk.names() {
            let number = match node {
                Node::Directory => None,
                Node::File(contents) => {
                    let bytes = contents.bytes.lock().clone();
                    let (size, modified_ms) = (bytes.len() as u64, contents.modified_ms());
                    image.files.insert(contents.number, Stored { bytes, size, modified_ms, ..Stored::default() });
                    Some(contents.number)
                }
            };
            image.names.insert(path, number);
        }
        image
    }

    fn apply(&mut self, change: &Change, is_sure: bool, survives: &mut dyn FnMut() -> bool) {
        match change {
            Change::Write(file, position, bytes) => {
                self.files.entry(*file).or_default().write(*position, bytes, is_sure, survives);
            }
            Change::Clear(file, position, end) => {
                let zeroes = vec![0; (end - position) as usize];
                self.files.entry(*file).or_default().write(*position, &zeroes, is_sure, survives);
            }
            Change::Size(file, size) => self.files.entry(*file).or_default().set_size(*size, is_sure, survives),
            Change::Sync(_) | Change::FailedSync(_) | Change::SyncDirectory(_) => {}
            _ if !is_sure && !survives() => {}
            Change::MakeDirectory(path) => {
                self.names.insert(path.clone(), None);
            }
            Change::Name(path, file) => {
                self.files.entry(*file).or_default();
                self.names.insert(path.clone(), Some(*file));
            }
            Change::Remove(path) => {
                // A directory goes with whatever name in it was still on the disk.
                self.names.retain(|name, _| !name.starts_with(path));
            }
            Change::Rename(from, to, file) => {
                // The file goes by its number: whether its old name ever got to the disk does not matter.
                self.files.entry(*file).or_default();
                self.names.remove(from);
                self.names.insert(to.clone(), Some(*file));
            }
        }
    }

    fn into_disk(mut self, before: &MemoryDisk) -> MemoryDisk {
        let mut made = BTreeMap::new();
        for (number, mut stored) in std::mem::take(&mut self.files) {
            stored.bytes.resize(stored.size as usize, 0);
            made.insert(number, Contents::new(number, stored.bytes, stored.modified_ms));
        }
        let mut names: BTreeMap<PathBuf, Node> = BTreeMap::new();
        // In order of their paths, so that a directory comes before what is in it.
        for (path, number) in self.names {
            let is_reachable = path
                .parent()
                .is_some_and(|parent| parent.parent().is_none() || matches!(names.get(parent), Some(Node::Directory)));
            let node = match number {
                None => Some(Node::Directory),
                Some(number) => made.get(&number).cloned().map(Node::File),
            };
            if let Some(node) = node.filter(|_| is_reachable) {
                names.insert(path, node);
            }
        }
        before.after_power_cut(names)
    }
}
