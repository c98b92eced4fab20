//! The disk: all access of a store to its files.
//!
//! [`FileSystem`] and [`FileHandle`] are the system's single operations; [`Disk`] and [`DiskFile`] are what the store calls, built
//! from those: whole reads and writes, atomic replacement, directory syncs, error texts. **Always holds**: a file is replaced whole
//! or not at all; after `DiskFile::sync_data` the bytes are durable, and so is the file's name. **On a crash** anything not synced
//! may be there in whole, in part, or not at all.
//!
//! Implementations: [`RealDisk`], [`MemoryDisk`] for tests and simulations, and [`FaultyDisk`], which fails on demand and can lose
//! what was not synced.

mod again;
mod failure;
mod faulty;
mod file;
mod history;
mod memory;
mod real;
mod set_aside;
mod waits;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use again::{ASKED_AGAIN, asked_again};
pub use failure::{Failure, Operation};
pub use faulty::{FaultyDisk, without_waiting};
pub(crate) use file::BLOCK_SIZE;
pub use file::DiskFile;
pub use memory::MemoryDisk;
pub use real::RealDisk;
pub use waits::{STALLED_MS, Stall};

use base::Monotonic;

use waits::{NotedPath, Waits};

use crate::error::{StorageError, is_unreadable};

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// An existing file, for reading only.
    ReadOnly,
    /// An existing file.
    Existing,
    /// An existing file, or a new empty one.
    MadeIfMissing,
    /// A new empty file; an error if it exists.
    New,
}

/// Where a read may take bytes from, and whether it leaves them in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// From the page cache alone: it never waits for the disk.
    IfCached,
    /// From the disk too, by way of the page cache.
    MayWait,
    /// From the disk, leaving nothing in the page cache: directly where buffer and position are aligned to 4 KiB and the file system can
    /// do that.
    PastCache,
    /// From the disk itself, and never from what the page cache has of it. Buffer and position are aligned to 4 KiB.
    Directly,
}

/// What is known of a file without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Bytes.
    pub size: u64,
    /// Time of the last write, ms since 1970.
    pub modified_ms: u64,
}

/// Work that mostly waits for the disk.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The operations of a file system. A crash falls between two of them, or leaves one half done.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Opens a file, for reading and writing unless told otherwise.
    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn FileHandle>>;
    /// Size and time of a file or directory.
    fn examine(&self, path: &Path) -> io::Result<FileState>;
    /// Names in a directory, in any order, without those that are not UTF-8.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Creates one directory; `AlreadyExists` if the name is taken.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with everything in it.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, replacing any file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name (a hard link).
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Makes everything on the file system of `path` durable, names too.
    fn sync_everything(&self, path: &Path) -> io::Result<()>;
    /// Bytes used on the disk of `path`, and bytes in total that this user can have (used and free).
    fn usage(&self, path: &Path) -> io::Result<(u64, u64)>;
    /// The boot ID: until it changes, everything written can be read, synced or not.
    fn boot(&self) -> io::Result<String>;
    /// Runs all `jobs`, possibly in parallel.
    fn run_all(&self, jobs: Vec<Job<'_>>) {
        jobs.into_iter().for_each(|job| job());
    }
}

/// The operations of an open file.
pub trait FileHandle: fmt::Debug + Send + Sync {
    /// Size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Writes a part of `slices`, from the front. Returns the number of bytes.
    fn write(&self, slices: &[io::IoSlice<'_>], position: u64) -> io::Result<usize>;
    /// Fills a part of `buffer`, from the front. Returns the number of bytes, 0 at the end of the file. If it may not wait, bytes
    /// that are not in memory give `WouldBlock` or a short read.
    fn read(&self, buffer: &mut [u8], position: u64, reading: Reading) -> io::Result<usize>;
    /// As `read`, but appends up to `count` bytes to `buffer`, which must have the capacity.
    fn read_into(&self, buffer: &mut Vec<u8>, count: usize, position: u64, may_wait: bool) -> io::Result<usize>;
    /// Truncates the file, or extends it with zeroes that take no disk space.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Extends the file with zeroes, and allocates disk space for all of it.
    fn reserve(&self, size: u64) -> io::Result<()>;
    /// Makes a range read as zeroes, without changing the size. With `keep_allocated` its disk space stays allocated.
    fn clear(&self, position: u64, end: u64, keep_allocated: bool) -> io::Result<()>;
    /// Makes bytes and size durable.
    fn sync(&self) -> io::Result<()>;
    /// Hint: a range will be read soon.
    fn will_need(&self, _position: u64, _size: u64) {}
    /// Hint: a range need not stay in memory. Loses nothing.
    fn wont_need(&self, _position: u64, _size: u64) {}
    /// The first position from `position` on that may hold data, passing over holes. `None` if there is none.
    fn next_data(&self, position: u64) -> Option<u64> {
        self.size().ok().filter(|size| position < *size).map(|_| position)
    }
    /// Where the first hole begins; the size if there is none or the file system cannot tell.
    fn written_size(&self) -> io::Result<u64> {
        self.size()
    }
    /// ID of the process that holds the file's lock, if any; 0 if the ID is unknown.
    fn lock_holder(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }
    /// Starts write-back of a range without waiting for it.
    fn start_write_back(&self, position: u64, size: u64) -> io::Result<()>;
    /// Locks the file against other stores and processes until it is closed. `false` if it is locked already.
    fn try_lock(&self) -> io::Result<bool>;
}

/// A disk; clones share it.
#[derive(Clone, Debug)]
pub struct Disk {
    system: Arc<dyn FileSystem>,
    /// What is being done.
    waits: Waits,
}

impl Disk {
    /// A disk of any implementation.
    pub fn new(system: impl FileSystem + 'static) -> Self {
        Self { system: Arc::new(system), waits: Waits::default() }
    }

    /// The machine's file system.
    pub fn real() -> Self {
        Self::new(RealDisk)
    }

    /// Looks what is being done on it at `now`, for `stall`; about once a second. Waits for nobody who waits for the disk.
    pub fn look(&self, now: Monotonic) {
        self.waits.look(now);
    }

    /// What takes longest, of what was under way at the last look and is still. Waits for nobody who waits for the disk.
    pub fn stall(&self) -> Option<Stall> {
        self.waits.stall()
    }

    /// Has the system do something to `path`, noted as `operation` meanwhile.
    fn noted<T>(&self, operation: Operation, path: &Path, act: impl FnOnce(&dyn FileSystem) -> T) -> T {
        let noted = self.waits.note(path);
        let _under_way = noted.begin(operation);
        act(&*self.system)
    }

    fn open_as(&self, path: &Path, opening: Opening) -> io::Result<(Box<dyn FileHandle>, NotedPath)> {
        let noted = self.waits.note(path);
        let under_way = noted.begin(Operation::Open);
        let handle = self.system.open(path, opening)?;
        drop(under_way);
        Ok((handle, noted))
    }

    /// Opens an existing file for reading and writing.
    pub fn open(&self, path: &Path) -> Result<DiskFile, StorageError> {
        let opened = self.open_as(path, Opening::Existing).map_err(StorageError::io("open", path))?;
        Ok(DiskFile::new(opened, None))
    }

    /// Opens an existing file for reading alone.
    pub fn open_read_only(&self, path: &Path) -> Result<DiskFile, StorageError> {
        let opened = self.open_as(path, Opening::ReadOnly).map_err(StorageError::io("open", path))?;
        Ok(DiskFile::new(opened, None))
    }

    /// Opens a file, creating it and its directories if missing, and sets its size, filled with zeroes. With `reserve` its disk space
    /// is allocated, so that later writes cannot run out of it. The first `DiskFile::sync_data` makes new names durable too.
    ///
    /// A file that cannot be completed is removed again. So no two threads may create the same file.
    pub fn open_sized(&self, path: &Path, size: u64, reserve: bool) -> Result<DiskFile, StorageError> {
        let (opened, new_names) = match self.open_as(path, Opening::Existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut directories = self.make_directories(parent_of(path))?;
                directories.push(parent_of(path).to_owned());
                (self.open_as(path, Opening::New), Some((self.clone(), directories)))
            }
            opened => (opened, None),
        };
        let is_new = new_names.is_some();
        let action = if is_new { "create" } else { "open" };
        let file = DiskFile::new(opened.map_err(StorageError::io(action, path))?, new_names);
        let prepared = file.prepare(size, reserve);
        if prepared.is_err() && is_new {
            // A later start would take an incomplete file for a damaged one.
            let _ = self.remove_file(path);
        }
        prepared.map(|()| file)
    }

    /// Creates missing directories. Returns the directories that got a new name, which need a sync.
    fn make_directories(&self, path: &Path) -> Result<Vec<PathBuf>, StorageError> {
        let mut missing = Vec::new();
        for directory in path.ancestors().take_while(|at| !at.as_os_str().is_empty()) {
            if self.exists(directory)? {
                break;
            }
            missing.push(directory);
        }
        let mut changed = Vec::new();
        for directory in missing.into_iter().rev() {
            match self.noted(Operation::Name, directory, |system| system.make_directory(directory)) {
                // Another thread may have created it meanwhile.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(StorageError::io("create the directory", directory)(error));
                }
                _ => changed.push(parent_of(directory).to_owned()),
            }
        }
        Ok(changed)
    }

    /// Creates a directory and its parents durably.
    pub fn create_directory(&self, path: &Path) -> Result<(), StorageError> {
        self.make_directories(path)?.iter().try_for_each(|changed| self.sync_directory(changed))
    }

    /// Names in a directory, sorted; none if it does not exist or is no directory.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, StorageError> {
        match self.noted(Operation::Examine, path, |system| system.list(path)) {
            Ok(mut names) => {
                names.sort_unstable();
                Ok(names)
            }
            Err(error) if is_missing(&error) => Ok(Vec::new()),
            Err(error) => Err(StorageError::io("list", path)(error)),
        }
    }

    fn examine(&self, path: &Path) -> io::Result<FileState> {
        asked_again(is_unreadable, || self.noted(Operation::Examine, path, |system| system.examine(path)))
    }

    /// Whether there is anything at `path`.
    pub fn exists(&self, path: &Path) -> Result<bool, StorageError> {
        match self.examine(path) {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(StorageError::io("examine", path)(error)),
        }
    }

    /// Size of a file in bytes.
    pub fn size(&self, path: &Path) -> Result<u64, StorageError> {
        self.examine(path).map(|state| state.size).map_err(StorageError::io("examine", path))
    }

    /// When a file was last written, ms since 1970; `None` if that is unknown.
    pub fn modified_ms(&self, path: &Path) -> Option<u64> {
        self.examine(path).ok().map(|state| state.modified_ms)
    }

    /// Reads a whole small file; `None` if it does not exist. What the disk cannot read is asked for again, since it may fail in passing.
    pub fn read_file(&self, path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
        asked_again(StorageError::is_unreadable, || self.read_file_once(path))
    }

    fn read_file_once(&self, path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
        let opened = match self.open_as(path, Opening::ReadOnly) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StorageError::io("open", path)(error)),
        };
        let file = DiskFile::new(opened, None);
        let mut bytes = Vec::new();
        let size = usize::try_from(file.size()?).unwrap_or(usize::MAX);
        file.read_into(&mut bytes, size, 0, true)?;
        Ok(Some(bytes))
    }

    /// Replaces a small file atomically and durably. The old one stays as `.bak`.
    pub fn replace_file(&self, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
        let sibling = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let (temporary, backup) = (sibling(".tmp"), sibling(".bak"));
        self.create_directory(parent_of(path))?;
        let is_there = self.exists(path)?;
        self.remove_file(&temporary)?;
        let opened =
            self.open_as(&temporary, Opening::MadeIfMissing).map_err(StorageError::io("create", &temporary))?;
        let file = DiskFile::new(opened, None);
        // What did not fit must not take the last room from the log.
        let written = file.write_at(bytes, 0).and_then(|()| file.sync_data());
        written.inspect_err(|_| drop(self.remove_file(&temporary)))?;
        if is_there {
            // A link and not a rename, so that the name always exists.
            self.remove_file(&backup)?;
            self.noted(Operation::Name, &backup, |system| system.link(path, &backup))
                .map_err(StorageError::io("keep a backup as", &backup))?;
        }
        self.rename(&temporary, path).map_err(StorageError::io("replace", path))?;
        self.sync_directory(parent_of(path))
    }

    /// Removes a file if it exists. Not durable before `sync_directory`.
    pub fn remove_file(&self, path: &Path) -> Result<(), StorageError> {
        match self.noted(Operation::Name, path, |system| system.remove_file(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("remove", path)(error)),
            _ => Ok(()),
        }
    }

    /// Removes a directory with everything in it, if it exists. Not durable before `sync_directory`.
    pub fn remove_directory(&self, path: &Path) -> Result<(), StorageError> {
        match self.noted(Operation::Name, path, |system| system.remove_directory(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("remove", path)(error)),
            _ => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.noted(Operation::Name, to, |system| system.rename(from, to))
    }

    /// Makes the names in a directory durable.
    pub fn sync_directory(&self, path: &Path) -> Result<(), StorageError> {
        let synced = self.noted(Operation::SyncDirectory, path, |system| system.sync_directory(path));
        synced.map_err(StorageError::io("sync", path))
    }

    /// Makes everything on the file system of `path` durable, whoever wrote it.
    pub fn sync_everything(&self, path: &Path) -> Result<(), StorageError> {
        let synced = self.noted(Operation::Sync, path, |system| system.sync_everything(path));
        synced.map_err(StorageError::io("sync the disk of", path))
    }

    /// The boot ID: until it changes, everything written can be read, synced or not. `None` if unknown.
    pub fn boot(&self) -> Option<String> {
        self.system.boot().ok().filter(|boot| !boot.is_empty())
    }

    /// Runs all `jobs`, in any order, possibly in parallel.
    pub fn run_all(&self, jobs: Vec<Job<'_>>) {
        self.system.run_all(jobs);
    }

    /// Locks the data directory for one store, in a way that excludes Java brokers too.
    pub fn lock_directory(&self, directory: &Path) -> Result<DirectoryLock, StorageError> {
        self.create_directory(directory)?;
        let path = directory.join("lock");
        let (handle, noted) = self.open_as(&path, Opening::MadeIfMissing).map_err(StorageError::io("create", &path))?;
        let _under_way = noted.begin(Operation::Open);
        match handle.try_lock() {
            Ok(true) => Ok(DirectoryLock { _file: handle }),
            _ => Err(StorageError::Locked(directory.to_owned())),
        }
    }

    /// ID of the process that has locked the data directory, if any; 0 if the ID is unknown. The process with the lock must not call
    /// this: closing the file would release it (POSIX locks).
    pub fn lock_holder(&self, directory: &Path) -> Result<Option<u32>, StorageError> {
        let path = directory.join("lock");
        match self.open_as(&path, Opening::ReadOnly) {
            Ok((handle, _)) => handle.lock_holder().map_err(StorageError::io("look at the lock", &path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io("open", &path)(error)),
        }
    }

    /// Bytes used on the disk of `path`, and bytes in total that this user can have. As `df` counts, without those reserved for root.
    pub fn usage(&self, path: &Path) -> Result<(u64, u64), StorageError> {
        let used = self.noted(Operation::Examine, path, |system| system.usage(path));
        used.map_err(StorageError::io("examine the disk of", path))
    }
}

/// Keeps the data directory locked until dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: Box<dyn FileHandle>,
}

/// The directory of `path`; of a bare name, the working directory.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
