//! An open file: whole reads and writes, errors that name the file, and syncs that include the file's name.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::waits::NotedPath;
use super::{Disk, FileHandle, Operation, Reading};
use crate::error::{StorageError, is_unreadable};

/// Bytes of a block: what a disk reads at least.
pub(crate) const BLOCK_SIZE: usize = 4096;

/// Slices that Linux takes in one vectored write (`IOV_MAX`).
const VECTOR_SLICES_MAX: usize = 1024;

/// Directories that got a new name when a file was created, and their disk.
type NewNames = (Disk, Vec<PathBuf>);

/// An open file with its path, for error texts.
#[derive(Debug)]
pub struct DiskFile {
    handle: Box<dyn FileHandle>,
    /// Its path, by which what is being done to it is told of.
    noted: NotedPath,
    syncing: Mutex<Syncing>,
}

/// Locked during a sync.
#[derive(Debug, Default)]
struct Syncing {
    /// Directories that the next sync has to sync too, so that the file is found again.
    new_names: Option<Box<NewNames>>,
    /// The kernel reports lost bytes only once: a later sync would succeed.
    has_failed: bool,
}

impl DiskFile {
    pub(super) fn new((handle, noted): (Box<dyn FileHandle>, NotedPath), new_names: Option<NewNames>) -> Self {
        let syncing = Syncing { new_names: new_names.map(Box::new), has_failed: false };
        Self { handle, noted, syncing: Mutex::new(syncing) }
    }

    /// Does something to the file, noted as `operation` meanwhile.
    fn noted<T>(&self, operation: Operation, act: impl FnOnce(&dyn FileHandle) -> T) -> T {
        let _under_way = self.noted.begin(operation);
        act(&*self.handle)
    }

    pub(super) fn prepare(&self, size: u64, reserve: bool) -> Result<(), StorageError> {
        let found = self.size()?;
        if found == size {
            return Ok(());
        }
        // Includes files that a power cut left short: they need all of their disk space allocated, too.
        if found < size && reserve {
            let reserved = self.noted(Operation::Resize, |handle| handle.reserve(size));
            return reserved.map_err(StorageError::io("reserve space for", self.path()));
        }
        let sized = self.noted(Operation::Resize, |handle| handle.set_size(size));
        sized.map_err(StorageError::io("set the size of", self.path()))
    }

    /// Makes the next sync include the lowest `levels` directories of the path: a process that created the file may have been killed
    /// before it synced them.
    pub(crate) fn doubt_names(&self, disk: &Disk, levels: usize) {
        let above = self.path().ancestors().skip(1).take(levels).filter(|at| !at.as_os_str().is_empty());
        let mut syncing = self.syncing.lock();
        let names = syncing.new_names.get_or_insert_with(|| Box::new((disk.clone(), Vec::new())));
        for directory in above {
            if !names.1.iter().any(|known| known == directory) {
                names.1.push(directory.to_owned());
            }
        }
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        self.noted.path()
    }

    /// Size in bytes.
    pub fn size(&self) -> Result<u64, StorageError> {
        self.noted(Operation::Examine, |handle| handle.size()).map_err(StorageError::io("examine", self.path()))
    }

    /// Writes all `slices` from `position` on.
    pub fn write_vectored_at(&self, slices: &[IoSlice<'_>], mut position: u64) -> Result<(), StorageError> {
        let mut owned: Vec<IoSlice<'_>> = slices.to_vec();
        let mut rest: &mut [IoSlice<'_>] = &mut owned;
        // Drops empty slices at the front: writing 0 bytes of them would look like a disk that takes nothing.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let window = rest.get(..VECTOR_SLICES_MAX).unwrap_or(rest);
            let written = match self.noted(Operation::Write, |handle| handle.write(window, position)) {
                Ok(0) => return Err(StorageError::io("write", self.path())(io::ErrorKind::WriteZero.into())),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(StorageError::io("write", self.path())(error)),
            };
            position += written as u64;
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }

    /// Writes all of `bytes` at `position`.
    pub fn write_at(&self, bytes: &[u8], position: u64) -> Result<(), StorageError> {
        self.write_vectored_at(&[IoSlice::new(bytes)], position)
    }

    /// Fills `buffer` from `position`, from the disk if necessary.
    pub fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<(), StorageError> {
        self.read_at_as(buffer, position, Reading::MayWait)
    }

    /// Fills `buffer` from `position`. `Reading::IfCached` is what `read_at_if_cached` is for.
    pub fn read_at_as(&self, buffer: &mut [u8], position: u64, reading: Reading) -> Result<(), StorageError> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.noted(Operation::Read, |handle| handle.read(rest, position + done as u64, reading)) {
                Ok(0) => return Err(StorageError::io("read", self.path())(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(StorageError::io("read", self.path())(error)),
            }
        }
        Ok(())
    }

    /// Whether the disk itself, and not the page cache in its place, reads the block with number `block`. `None`: it says nothing, since there
    /// are only zeros, which a file system gives without asking the disk where nothing was written yet.
    pub fn is_readable_on_disk(&self, block: u64) -> Option<bool> {
        let mut memory = [0; 2 * BLOCK_SIZE];
        let start = memory.as_ptr().align_offset(BLOCK_SIZE);
        let aligned = memory.get_mut(start..start.saturating_add(BLOCK_SIZE))?;
        let position = block * BLOCK_SIZE as u64;
        // Some file systems read from the page cache though they were asked not to.
        self.wont_need(position, BLOCK_SIZE as u64);
        match self.noted(Operation::Read, |handle| handle.read(aligned, position, Reading::Directly)) {
            Ok(count) => aligned.iter().take(count).any(|byte| *byte != 0).then_some(true),
            Err(_) => Some(false),
        }
    }

    /// Fills `buffer` from `position` if all of it is in the page cache; else `WouldBlock`.
    pub fn read_at_if_cached(&self, buffer: &mut [u8], position: u64) -> Result<(), StorageError> {
        match self.handle.read(buffer, position, Reading::IfCached) {
            Ok(count) if count == buffer.len() => Ok(()),
            Ok(_) => Err(StorageError::WouldBlock),
            Err(error) if is_not_now(&error) => Err(StorageError::WouldBlock),
            Err(error) => Err(StorageError::io("read", self.path())(error)),
        }
    }

    /// Appends `count` bytes from `position` on to `buffer` without clearing its memory first, which saves time in large reads. If it
    /// may not wait, bytes that are not in the page cache give `WouldBlock`.
    pub fn read_into(
        &self,
        buffer: &mut Vec<u8>,
        count: usize,
        position: u64,
        may_wait: bool,
    ) -> Result<(), StorageError> {
        buffer.reserve_exact(count);
        let start = buffer.len();
        while buffer.len() < start + count {
            let done = buffer.len() - start;
            let _under_way = may_wait.then(|| self.noted.begin(Operation::Read));
            match self.handle.read_into(buffer, count - done, position + done as u64, may_wait) {
                Ok(0) => return Err(StorageError::io("read", self.path())(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if may_wait && error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if !may_wait && is_not_now(&error) => return Err(StorageError::WouldBlock),
                Err(error) => return Err(StorageError::io("read", self.path())(error)),
            }
        }
        Ok(())
    }

    /// Makes what was written durable, and the name of a new file. One at a time: the kernel reports lost bytes to one caller only.
    /// After a failure all later calls fail.
    pub fn sync_data(&self) -> Result<(), StorageError> {
        let mut syncing = self.syncing.lock();
        let synced = if syncing.has_failed {
            Err(io::Error::other("a sync of it failed before"))
        } else {
            self.noted(Operation::Sync, |handle| handle.sync())
        };
        syncing.has_failed = synced.is_err();
        synced.map_err(StorageError::io("sync", self.path()))?;
        if let Some(names) = &syncing.new_names {
            let (disk, directories) = &**names;
            directories.iter().try_for_each(|directory| disk.sync_directory(directory))?;
        }
        syncing.new_names = None;
        Ok(())
    }

    /// Hint: a range will be read soon.
    pub fn will_need(&self, position: u64, size: u64) {
        self.noted(Operation::Read, |handle| handle.will_need(position, size));
    }

    /// Hint: a range need not stay in memory. What is not on the disk yet stays.
    pub fn wont_need(&self, position: u64, size: u64) {
        self.noted(Operation::Write, |handle| handle.wont_need(position, size));
    }

    /// The first position from `position` on that may hold data, passing over holes if the file system can tell. `None` if there is
    /// none.
    pub fn next_data(&self, position: u64) -> Option<u64> {
        self.noted(Operation::Examine, |handle| handle.next_data(position))
    }

    /// Where the first hole begins; the size if there is none or the file system cannot tell.
    pub fn written_size(&self) -> Result<u64, StorageError> {
        self.noted(Operation::Examine, |handle| handle.written_size()).map_err(StorageError::io("examine", self.path()))
    }

    /// Starts write-back of a range without waiting for it. A later `sync_data` has less to do, and the kernel never collects so many
    /// dirty pages that it throttles writers.
    pub fn start_write_back(&self, position: u64, size: u64) -> Result<(), StorageError> {
        let started = self.noted(Operation::Write, |handle| handle.start_write_back(position, size));
        started.map_err(StorageError::io("write back", self.path()))
    }

    /// Makes a range read as zeroes, without changing the size. With `keep_allocated` its disk space stays allocated, if the file
    /// system can do that.
    pub fn clear(&self, position: u64, end: u64, keep_allocated: bool) -> Result<(), StorageError> {
        if position >= end {
            return Ok(());
        }
        match self.noted(Operation::Write, |handle| handle.clear(position, end, keep_allocated)) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.write_zeroes(position, end),
            outcome => outcome.map_err(StorageError::io("clear", self.path())),
        }
    }

    fn write_zeroes(&self, mut position: u64, end: u64) -> Result<(), StorageError> {
        let zeroes = [0; 64 * 1024];
        while position < end {
            let count = zeroes.len().min((end - position) as usize);
            self.write_at(zeroes.get(..count).unwrap_or_default(), position)?;
            position += count as u64;
        }
        Ok(())
    }
}

/// Whether a read that may not wait has to be repeated by a thread that may: the bytes are not in memory or unreadable, or the file
/// system does not support such reads.
fn is_not_now(error: &io::Error) -> bool {
    is_unreadable(error)
        || matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::Unsupported)
}
