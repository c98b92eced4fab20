//! The disk: every file of a store goes through here, and every dangerous move stands here once.
//!
//! **Owns** the way to the file system. [`FileSystem`] and [`FileHandle`] are what a disk can do, each step by itself;
//! [`Disk`] and [`DiskFile`] are what the store asks for, made of those steps: error texts, whole writes out of short
//! ones, replaced files, names that are put on the disk with what they name. **Always holds**: a file is replaced whole or not at
//! all; `DiskFile::sync_data` returns once the bytes are on the disk and can be found there by name. **On a crash** what
//! was not synced may be there, in part, or not at all.
//!
//! Versions: [`RealDisk`] (`real.rs` alone names the file system), [`MemoryDisk`] for tests and simulations, and
//! [`FaultyDisk`], which is memory that fails when told to and can lose what was not synced.

mod failure;
mod faulty;
mod file;
mod history;
mod memory;
mod real;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use failure::{Failure, Operation};
pub use faulty::FaultyDisk;
pub use file::DiskFile;
pub use memory::MemoryDisk;
pub use real::RealDisk;

use crate::error::StorageError;

/// Whether a file is made by opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It must be there, and is only read.
    ReadOnly,
    /// It must be there.
    Existing,
    /// It is made, without a byte, if it is not there.
    MadeIfMissing,
    /// It must not be there, and is made, without a byte.
    New,
}

/// What can be told of a file without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Bytes.
    pub size: u64,
    /// When it was last written, ms since 1970.
    pub modified_ms: u64,
}

/// Work that mostly waits for a disk.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// What a disk can do. Every method is one step: a crash falls between two of them, or leaves one half done.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Opens a file, for reading and writing unless told otherwise.
    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn FileHandle>>;
    /// Looks at a file or directory.
    fn examine(&self, path: &Path) -> io::Result<FileState>;
    /// Names in a directory, in any order. Names that are no text are left out.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Makes one directory; `AlreadyExists` if there is something of that name.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with everything in it.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, in place of the file that may have it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Puts the names in a directory on the disk.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Puts everything on the disk that was written to the disk of `path`, names too.
    fn sync_everything(&self, path: &Path) -> io::Result<()>;
    /// Bytes used on the disk of `path`, and bytes there are for this user (used and free).
    fn usage(&self, path: &Path) -> io::Result<(u64, u64)>;
    /// Names the machine's run: for as long as it lasts, what was written can be read, synced or not.
    fn boot(&self) -> io::Result<String>;
    /// Runs `jobs` to their ends: one after the other, or as many at a time as the disk does well.
    fn run_all(&self, jobs: Vec<Job<'_>>) {
        jobs.into_iter().for_each(|job| job());
    }
}

/// What an open file can do.
pub trait FileHandle: fmt::Debug + Send + Sync {
    /// Size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Writes from the front of `slices`, as much as it likes. Gives how many bytes.
    fn write(&self, slices: &[io::IoSlice<'_>], position: u64) -> io::Result<usize>;
    /// Reads as much as it likes into the front of `buffer`. Gives how many bytes; 0 at the end of the file. What may not
    /// wait and is not in memory gives `WouldBlock`, or fewer bytes.
    fn read(&self, buffer: &mut [u8], position: u64, may_wait: bool) -> io::Result<usize>;
    /// As `read`, but adds up to `count` bytes to `buffer`, which has the room for them.
    fn read_into(&self, buffer: &mut Vec<u8>, count: usize, position: u64, may_wait: bool) -> io::Result<usize>;
    /// Cuts the file, or lengthens it with zeroes that take no room yet.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Lengthens a file with zeroes that take their room at once, as all of it does from then on.
    fn reserve(&self, size: u64) -> io::Result<()>;
    /// Makes a range read as zeroes, without changing the size. With `keep_allocated`, later writes there cannot run out of
    /// room if they could not before; else the room may be given back.
    fn clear(&self, position: u64, end: u64, keep_allocated: bool) -> io::Result<()>;
    /// Puts bytes and size on the disk.
    fn sync(&self) -> io::Result<()>;
    /// Tells the system that a range will be read soon; promises nothing.
    fn will_need(&self, _position: u64, _size: u64) {}
    /// Tells the system that a range need not be in memory any more; loses nothing.
    fn wont_need(&self, _position: u64, _size: u64) {}
    /// The first position from `position` on that may hold something. `None` if nothing follows.
    fn next_data(&self, position: u64) -> Option<u64> {
        self.size().ok().filter(|size| position < *size).map(|_| position)
    }
    /// Where the first stretch begins that was never written; the size if there is none or that cannot be told.
    fn written_size(&self) -> io::Result<u64> {
        self.size()
    }
    /// The process that holds the file's lock, if one does; 0 if it cannot be told which.
    fn lock_holder(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }
    /// Has the system begin to write a range to the disk; promises nothing.
    fn start_write_back(&self, position: u64, size: u64) -> io::Result<()>;
    /// Holds the file for this store, against other stores and processes, until it is closed. `false` if another does.
    fn try_lock(&self) -> io::Result<bool>;
}

/// A disk, shared by everything that has files on it.
#[derive(Clone, Debug)]
pub struct Disk(Arc<dyn FileSystem>);

impl Disk {
    /// A disk of any version.
    pub fn new(system: impl FileSystem + 'static) -> Self {
        Self(Arc::new(system))
    }

    /// The machine's file system.
    pub fn real() -> Self {
        Self::new(RealDisk)
    }

    /// Opens an existing file for reading and writing.
    pub fn open(&self, path: &Path) -> Result<DiskFile, StorageError> {
        let handle = self.0.open(path, Opening::Existing).map_err(StorageError::io("open", path))?;
        Ok(DiskFile::new(handle, path, None))
    }

    /// Opens an existing file for reading alone.
    pub fn open_read_only(&self, path: &Path) -> Result<DiskFile, StorageError> {
        let handle = self.0.open(path, Opening::ReadOnly).map_err(StorageError::io("open", path))?;
        Ok(DiskFile::new(handle, path, None))
    }

    /// Opens a file, making it and its directories if they are missing, and gives it exactly `size` bytes (zeroes).
    /// With `reserve`, the disk space is taken at once so that later writes cannot run out of it. The first
    /// `DiskFile::sync_data` puts the new names on the disk too.
    ///
    /// What cannot be made is removed again: of each file there is one maker at a time, and nobody has it before it is whole.
    pub fn open_sized(&self, path: &Path, size: u64, reserve: bool) -> Result<DiskFile, StorageError> {
        let (handle, new_names) = match self.0.open(path, Opening::Existing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut directories = self.make_directories(parent_of(path))?;
                directories.push(parent_of(path).to_owned());
                (self.0.open(path, Opening::New), Some((self.clone(), directories)))
            }
            opened => (opened, None),
        };
        let is_new = new_names.is_some();
        let action = if is_new { "create" } else { "open" };
        let file = DiskFile::new(handle.map_err(StorageError::io(action, path))?, path, new_names);
        let prepared = file.prepare(size, reserve);
        if prepared.is_err() && is_new {
            // Half-made files would be taken for damaged ones later.
            let _ = self.0.remove_file(path);
        }
        prepared.map(|()| file)
    }

    /// Makes the directories that are missing, and names those whose names in them changed.
    fn make_directories(&self, path: &Path) -> Result<Vec<PathBuf>, StorageError> {
        let missing: Vec<_> =
            path.ancestors().take_while(|at| !at.as_os_str().is_empty() && !self.exists(at)).collect();
        let mut changed = Vec::new();
        for directory in missing.into_iter().rev() {
            match self.0.make_directory(directory) {
                // Another thread may have been first.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(StorageError::io("create the directory", directory)(error));
                }
                _ => changed.push(parent_of(directory).to_owned()),
            }
        }
        Ok(changed)
    }

    /// Makes a directory and those above it; all of their names are on the disk afterwards.
    pub fn create_directory(&self, path: &Path) -> Result<(), StorageError> {
        self.make_directories(path)?.iter().try_for_each(|changed| self.sync_directory(changed))
    }

    /// Names in a directory, sorted; none if it does not exist or is something else.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, StorageError> {
        match self.0.list(path) {
            Ok(mut names) => {
                names.sort_unstable();
                Ok(names)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Vec::new())
            }
            Err(error) => Err(StorageError::io("list", path)(error)),
        }
    }

    /// Whether there is anything at `path`.
    pub fn exists(&self, path: &Path) -> bool {
        self.0.examine(path).is_ok()
    }

    /// Bytes of a file.
    pub fn size(&self, path: &Path) -> Result<u64, StorageError> {
        self.0.examine(path).map(|state| state.size).map_err(StorageError::io("examine", path))
    }

    /// When a file was last written, ms since 1970; `None` if it cannot be told.
    pub fn modified_ms(&self, path: &Path) -> Option<u64> {
        self.0.examine(path).ok().map(|state| state.modified_ms)
    }

    /// Reads a whole small file; `None` if it does not exist.
    pub fn read_file(&self, path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
        let handle = match self.0.open(path, Opening::ReadOnly) {
            Ok(handle) => handle,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StorageError::io("open", path)(error)),
        };
        let file = DiskFile::new(handle, path, None);
        let mut bytes = Vec::new();
        let size = usize::try_from(file.size()?).unwrap_or(usize::MAX);
        file.read_into(&mut bytes, size, 0, true)?;
        Ok(Some(bytes))
    }

    /// Replaces a small file so that a crash leaves either the old or the new one whole; the old one stays as `.bak`.
    pub fn replace_file(&self, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
        let sibling = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let (temporary, backup) = (sibling(".tmp"), sibling(".bak"));
        self.create_directory(parent_of(path))?;
        self.remove_file(&temporary)?;
        let handle = self.0.open(&temporary, Opening::MadeIfMissing).map_err(StorageError::io("create", &temporary))?;
        let file = DiskFile::new(handle, &temporary, None);
        file.write_at(bytes, 0)?;
        file.sync_data()?;
        if self.exists(path) {
            // A link, not a rename: at no moment is there no file under the name.
            self.remove_file(&backup)?;
            self.0.link(path, &backup).map_err(StorageError::io("keep a backup as", &backup))?;
        }
        self.0.rename(&temporary, path).map_err(StorageError::io("replace", path))?;
        self.sync_directory(parent_of(path))
    }

    /// Removes a file if it is there. After a crash it may be there again, until its directory was synced.
    pub fn remove_file(&self, path: &Path) -> Result<(), StorageError> {
        match self.0.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("remove", path)(error)),
            _ => Ok(()),
        }
    }

    /// Removes a directory with everything in it, if it is there; as `remove_file`.
    pub fn remove_directory(&self, path: &Path) -> Result<(), StorageError> {
        match self.0.remove_directory(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("remove", path)(error)),
            _ => Ok(()),
        }
    }

    /// Moves a file out of the way so that its bytes are kept for people to look at: into the folder `set-aside` of `root`,
    /// under its way from there with dashes. Only if that is another disk, beside its kin, where a Java broker would trip
    /// over it.
    pub fn set_aside(&self, root: &Path, path: &Path) -> Result<PathBuf, StorageError> {
        let folder = root.join("set-aside");
        self.create_directory(&folder)?;
        let way = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('/', "-");
        let free = |number: u32| if number == 1 { folder.join(&way) } else { folder.join(format!("{way}.{number}")) };
        let aside = (1..).map(free).find(|aside| !self.exists(aside)).unwrap_or_else(|| folder.join(&way));
        match self.0.rename(path, &aside) {
            Ok(()) => {
                self.sync_directory(&folder)?;
                self.sync_directory(parent_of(path))?;
                Ok(aside)
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let beside = path.with_extension("set-aside");
                self.0.rename(path, &beside).map_err(StorageError::io("move aside", path))?;
                self.sync_directory(parent_of(path))?;
                Ok(beside)
            }
            Err(error) => Err(StorageError::io("move aside", path)(error)),
        }
    }

    /// Puts the names in a directory on the disk.
    pub fn sync_directory(&self, path: &Path) -> Result<(), StorageError> {
        self.0.sync_directory(path).map_err(StorageError::io("sync", path))
    }

    /// Puts everything on the disk that was written to the disk of `path`, whoever wrote it.
    pub fn sync_everything(&self, path: &Path) -> Result<(), StorageError> {
        self.0.sync_everything(path).map_err(StorageError::io("sync the disk of", path))
    }

    /// Names the machine's run: for as long as it lasts, what was written can be read, synced or not. `None` if that cannot be
    /// told.
    pub fn boot(&self) -> Option<String> {
        self.0.boot().ok().filter(|boot| !boot.is_empty())
    }

    /// Runs `jobs`, which read this disk, to their ends, in any order.
    pub fn run_all(&self, jobs: Vec<Job<'_>>) {
        self.0.run_all(jobs);
    }

    /// Takes the data directory for one store. The lock is the one a Java broker takes on the same file.
    pub fn lock_directory(&self, directory: &Path) -> Result<DirectoryLock, StorageError> {
        self.create_directory(directory)?;
        let path = directory.join("lock");
        let handle = self.0.open(&path, Opening::MadeIfMissing).map_err(StorageError::io("create", &path))?;
        match handle.try_lock() {
            Ok(true) => Ok(DirectoryLock { _file: handle }),
            _ => Err(StorageError::Locked(directory.to_owned())),
        }
    }

    /// The process that holds the data directory, if one does; 0 if it cannot be told which. Takes no lock itself. Must not
    /// be called by the process that holds it: closing the file would give up its lock.
    pub fn lock_holder(&self, directory: &Path) -> Result<Option<u32>, StorageError> {
        let path = directory.join("lock");
        match self.0.open(&path, Opening::ReadOnly) {
            Ok(handle) => handle.lock_holder().map_err(StorageError::io("look at the lock", &path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io("open", &path)(error)),
        }
    }

    /// How full the disk of `path` is: bytes used, and bytes there are for this user (used and free). As `df` counts: what
    /// is reserved for others is neither.
    pub fn usage(&self, path: &Path) -> Result<(u64, u64), StorageError> {
        self.0.usage(path).map_err(StorageError::io("examine the disk of", path))
    }
}

/// Holds the data directory until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: Box<dyn FileHandle>,
}

/// The directory of `path`; of a bare name, the one the process works in.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
