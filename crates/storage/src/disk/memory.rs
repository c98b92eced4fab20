//! Files in memory: a disk for tests, simulations and fuzz targets.
//!
//! Owns its files until the last copy of the handle is dropped. Everything is as on Linux where a store can tell: a file
//! outlives its name while it is open, two names may lead to one file, a lock goes with the handle that took it. There is no
//! clock: `set_now` says what time it is. Nothing is ever lost; what a crash leaves is the business of `FaultyDisk`.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{FileHandle, FileState, FileSystem, Opening, Reading};

/// A disk in memory. Copies of the value are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Tree>>);

#[derive(Debug)]
struct Tree {
    /// Every name but the root's, which is always there.
    names: BTreeMap<PathBuf, Node>,
    /// Files that lost a name. They take their room until nobody has them open.
    removed: Vec<Weak<Contents>>,
    files_made: u64,
    now_ms: u64,
    capacity: u64,
    /// Power cuts before this run.
    boots: u64,
    /// Bytes read past the page cache.
    read_past: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            names: BTreeMap::new(),
            removed: Vec::new(),
            files_made: 0,
            now_ms: 0,
            capacity: 1 << 40,
            boots: 0,
            read_past: 0,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Directory,
    File(Arc<Contents>),
}

/// A file, whatever its names.
#[derive(Debug)]
pub(super) struct Contents {
    /// Tells files apart.
    pub(super) number: u64,
    pub(super) bytes: Mutex<Vec<u8>>,
    modified_ms: Mutex<u64>,
    is_locked: AtomicBool,
}

impl Contents {
    pub(super) fn new(number: u64, bytes: Vec<u8>, modified_ms: u64) -> Arc<Self> {
        let (bytes, modified_ms) = (Mutex::new(bytes), Mutex::new(modified_ms));
        Arc::new(Self { number, bytes, modified_ms, is_locked: AtomicBool::new(false) })
    }

    pub(super) fn modified_ms(&self) -> u64 {
        *self.modified_ms.lock()
    }

    fn copy(&self) -> Arc<Self> {
        Self::new(self.number, self.bytes.lock().clone(), *self.modified_ms.lock())
    }
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time files are written at from now on, ms since 1970.
    pub fn set_now(&self, now_ms: u64) {
        self.0.lock().now_ms = now_ms;
    }

    /// Sets how many bytes the disk has. What is there already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity = bytes;
    }

    /// Bytes that were read past the page cache.
    pub fn read_past(&self) -> u64 {
        self.0.lock().read_past
    }

    /// Turns one bit of a file. Returns whether there was such a bit.
    pub fn flip_bit(&self, path: &Path, position: u64, bit: u8) -> bool {
        let Some(Node::File(contents)) = self.0.lock().names.get(path).cloned() else { return false };
        let mut bytes = contents.bytes.lock();
        let byte = usize::try_from(position).ok().and_then(|position| bytes.get_mut(position));
        byte.map(|byte| *byte ^= 1 << (bit % 8)).is_some()
    }

    /// The same files after the machine was started again, none of them locked.
    pub fn after_restart_of_the_machine(&self) -> Self {
        let copy = self.copy();
        copy.0.lock().boots += 1;
        copy
    }

    /// Another disk with the same files, none of them locked.
    pub fn copy(&self) -> Self {
        let tree = self.0.lock();
        let mut copies = BTreeMap::new();
        let mut copy = |node: &Node| match node {
            Node::Directory => Node::Directory,
            Node::File(contents) => {
                Node::File(copies.entry(contents.number).or_insert_with(|| contents.copy()).clone())
            }
        };
        let names = tree.names.iter().map(|(path, node)| (path.clone(), copy(node))).collect();
        Self(Arc::new(Mutex::new(Tree { names, removed: Vec::new(), ..*tree })))
    }

    /// Gives each file the time that the file of its number has on `other`.
    pub(super) fn take_times_of(&self, other: &Self) {
        let of = |disk: &Self| -> Vec<_> {
            let nodes = disk.names().into_values();
            nodes.filter_map(|node| if let Node::File(contents) = node { Some(contents) } else { None }).collect()
        };
        let times: BTreeMap<u64, u64> = of(other).iter().map(|file| (file.number, file.modified_ms())).collect();
        for file in of(self) {
            if let Some(time) = times.get(&file.number) {
                *file.modified_ms.lock() = *time;
            }
        }
    }

    pub(super) fn names(&self) -> BTreeMap<PathBuf, Node> {
        self.0.lock().names.clone()
    }

    /// Another disk of the same time and size, with what a power cut left.
    pub(super) fn after_power_cut(&self, names: BTreeMap<PathBuf, Node>) -> Self {
        let tree = self.0.lock();
        let numbers = names.values().map(|node| if let Node::File(contents) = node { contents.number } else { 0 });
        let files_made = numbers.max().unwrap_or_default();
        Self(Arc::new(Mutex::new(Tree { names, removed: Vec::new(), files_made, boots: tree.boots + 1, ..*tree })))
    }

    /// Opens a file. Also tells whether it was made.
    pub(super) fn open_file(&self, path: &Path, opening: Opening) -> io::Result<(MemoryFile, bool)> {
        let mut tree = self.0.lock();
        let (contents, is_made) = match tree.names.get(path) {
            Some(_) if opening == Opening::New => return Err(ErrorKind::AlreadyExists.into()),
            Some(Node::File(contents)) => (contents.clone(), false),
            Some(Node::Directory) => return Err(ErrorKind::IsADirectory.into()),
            None if matches!(opening, Opening::ReadOnly | Opening::Existing) => return Err(ErrorKind::NotFound.into()),
            None => {
                tree.check_parent(path)?;
                tree.files_made += 1;
                let contents = Contents::new(tree.files_made, Vec::new(), tree.now_ms);
                tree.names.insert(path.to_owned(), Node::File(contents.clone()));
                (contents, true)
            }
        };
        Ok((MemoryFile { disk: self.clone(), contents, has_lock: AtomicBool::new(false) }, is_made))
    }

    /// The number of the file at `path`.
    pub(super) fn number_of(&self, path: &Path) -> io::Result<u64> {
        match self.0.lock().names.get(path) {
            Some(Node::File(contents)) => Ok(contents.number),
            Some(Node::Directory) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Everything below a directory, the deepest first, and itself.
    pub(super) fn everything_in(&self, path: &Path) -> Vec<(PathBuf, bool)> {
        let tree = self.0.lock();
        let below = tree.names.range(path.to_owned()..).take_while(|(name, _)| name.starts_with(path));
        let mut found: Vec<_> = below.map(|(name, node)| (name.clone(), matches!(node, Node::Directory))).collect();
        found.reverse();
        found
    }

    /// Removes a file's name, or a directory that is empty.
    pub(super) fn remove_name(&self, path: &Path) {
        let mut tree = self.0.lock();
        if let Some(Node::File(contents)) = tree.names.remove(path) {
            tree.removed.retain(|removed| removed.strong_count() > 0);
            tree.removed.push(Arc::downgrade(&contents));
        }
    }
}

impl Tree {
    fn is_directory(&self, path: &Path) -> bool {
        path.parent().is_none() || matches!(self.names.get(path), Some(Node::Directory))
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().ok_or(ErrorKind::AlreadyExists)?;
        if self.is_directory(parent) { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn used(&self) -> u64 {
        let mut sizes = BTreeMap::new();
        let named = self
            .names
            .values()
            .filter_map(|node| if let Node::File(contents) = node { Some(contents.clone()) } else { None });
        for contents in named.chain(self.removed.iter().filter_map(Weak::upgrade)) {
            sizes.insert(contents.number, contents.bytes.lock().len() as u64);
        }
        sizes.values().sum()
    }
}

impl FileSystem for MemoryDisk {
    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn FileHandle>> {
        Ok(Box::new(self.open_file(path, opening)?.0))
    }

    fn examine(&self, path: &Path) -> io::Result<FileState> {
        let tree = self.0.lock();
        match tree.names.get(path) {
            Some(Node::File(contents)) => {
                Ok(FileState { size: contents.bytes.lock().len() as u64, modified_ms: *contents.modified_ms.lock() })
            }
            _ if tree.is_directory(path) => Ok(FileState { size: 0, modified_ms: tree.now_ms }),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let tree = self.0.lock();
        if !tree.is_directory(path) {
            return Err(ErrorKind::NotFound.into());
        }
        let below = tree.names.range(path.to_owned()..).take_while(|(name, _)| name.starts_with(path));
        let children = below.filter(|(name, _)| name.parent() == Some(path));
        Ok(children.filter_map(|(name, _)| Some(name.file_name()?.to_str()?.to_owned())).collect())
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        let mut tree = self.0.lock();
        tree.check_parent(path)?;
        if tree.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        tree.names.insert(path.to_owned(), Node::Directory);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.number_of(path)?;
        self.remove_name(path);
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        if !self.0.lock().is_directory(path) {
            return Err(ErrorKind::NotFound.into());
        }
        self.everything_in(path).iter().for_each(|(name, _)| self.remove_name(name));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.number_of(from)?;
        let mut tree = self.0.lock();
        tree.check_parent(to)?;
        if let Some(node) = tree.names.remove(from) {
            tree.names.insert(to.to_owned(), node);
        }
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.number_of(from)?;
        let mut tree = self.0.lock();
        tree.check_parent(to)?;
        if tree.names.contains_key(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if let Some(node) = tree.names.get(from).cloned() {
            tree.names.insert(to.to_owned(), node);
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        if self.0.lock().is_directory(path) { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn sync_everything(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn usage(&self, _path: &Path) -> io::Result<(u64, u64)> {
        let tree = self.0.lock();
        let used = tree.used();
        Ok((used, tree.capacity.max(used)))
    }

    fn boot(&self) -> io::Result<String> {
        Ok(self.0.lock().boots.to_string())
    }
}

/// An open file in memory.
#[derive(Debug)]
pub(super) struct MemoryFile {
    disk: MemoryDisk,
    pub(super) contents: Arc<Contents>,
    has_lock: AtomicBool,
}

impl MemoryFile {
    /// Makes the file at least `size` bytes long, if there is room, and notes that it was written.
    fn grow(&self, size: usize) -> io::Result<()> {
        let tree = self.disk.0.lock();
        let found = self.contents.bytes.lock().len();
        if size > found {
            if tree.used() + (size - found) as u64 > tree.capacity {
                return Err(ErrorKind::StorageFull.into());
            }
            self.contents.bytes.lock().resize(size, 0);
        }
        *self.contents.modified_ms.lock() = tree.now_ms;
        Ok(())
    }
}

fn in_memory(position: u64) -> io::Result<usize> {
    usize::try_from(position).map_err(|_| ErrorKind::FileTooLarge.into())
}

impl FileHandle for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.contents.bytes.lock().len() as u64)
    }

    fn write(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let mut at = in_memory(position)?;
        let count: usize = slices.iter().map(|slice| slice.len()).sum();
        self.grow(at + count)?;
        let mut bytes = self.contents.bytes.lock();
        for slice in slices {
            if let Some(target) = bytes.get_mut(at..at + slice.len()) {
                target.copy_from_slice(slice);
            }
            at += slice.len();
        }
        Ok(count)
    }

    fn read(&self, buffer: &mut [u8], position: u64, reading: Reading) -> io::Result<usize> {
        if reading == Reading::PastCache {
            self.disk.0.lock().read_past += buffer.len() as u64;
        }
        let bytes = self.contents.bytes.lock();
        let found = bytes.get(in_memory(position)?..).unwrap_or_default();
        let count = found.len().min(buffer.len());
        buffer.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
        Ok(count)
    }

    fn read_into(&self, buffer: &mut Vec<u8>, count: usize, position: u64, _may_wait: bool) -> io::Result<usize> {
        let bytes = self.contents.bytes.lock();
        let found = bytes.get(in_memory(position)?..).unwrap_or_default();
        let found = found.get(..count).unwrap_or(found);
        buffer.extend_from_slice(found);
        Ok(found.len())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let size = in_memory(size)?;
        self.grow(size)?;
        self.contents.bytes.lock().truncate(size);
        Ok(())
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        self.grow(in_memory(size)?)
    }

    fn clear(&self, position: u64, end: u64, _keep_allocated: bool) -> io::Result<()> {
        let mut bytes = self.contents.bytes.lock();
        let end = in_memory(end)?.min(bytes.len());
        if let Some(target) = bytes.get_mut(in_memory(position)?..end) {
            target.fill(0);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn start_write_back(&self, _position: u64, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let is_free = !self.contents.is_locked.swap(true, Ordering::SeqCst);
        self.has_lock.fetch_or(is_free, Ordering::SeqCst);
        Ok(is_free || self.has_lock.load(Ordering::SeqCst))
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if self.has_lock.load(Ordering::SeqCst) {
            self.contents.is_locked.store(false, Ordering::SeqCst);
        }
    }
}
