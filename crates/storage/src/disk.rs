//! The file system, and every dangerous move on it: this module alone opens, renames, truncates and syncs files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::ReadWriteFlags;

use crate::error::StorageError;

/// Slices the kernel takes in one vectored write.
const VECTOR_SLICES_MAX: usize = 1024;

/// An open file with its path, for error texts.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    path: PathBuf,
}

impl DiskFile {
    /// Opens an existing file for reading and writing.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(StorageError::io("open", path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Opens an existing file for reading alone.
    pub fn open_read_only(path: &Path) -> Result<Self, StorageError> {
        let file = File::open(path).map_err(StorageError::io("open", path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Opens a file, making it and its directories if they are missing, and gives it exactly `size` bytes (zeroes).
    /// With `reserve`, the disk space is taken at once so that later writes cannot run out of it.
    pub fn open_sized(path: &Path, size: u64, reserve: bool) -> Result<Self, StorageError> {
        if let Some(parent) = path.parent() {
            create_directory(parent)?;
        }
        let existed = path.exists();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(StorageError::io("create", path))?;
        let opened = Self { file, path: path.to_owned() };
        let prepared = opened.prepare(size, reserve);
        if prepared.is_err() && !existed {
            // Half-made files would be taken for damaged ones later.
            let _ = fs::remove_file(path);
        }
        prepared.map(|()| opened)
    }

    fn prepare(&self, size: u64, reserve: bool) -> Result<(), StorageError> {
        let found = self.size()?;
        if found == size {
            return Ok(());
        }
        if found == 0 && reserve {
            return rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size)
                .map_err(|errno| StorageError::io("reserve space for", &self.path)(errno.into()));
        }
        self.file.set_len(size).map_err(StorageError::io("set the size of", &self.path))
    }

    /// Path it was opened under.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size in bytes.
    pub fn size(&self) -> Result<u64, StorageError> {
        Ok(self.file.metadata().map_err(StorageError::io("examine", &self.path))?.len())
    }

    /// Writes `slices` one after the other from `position` on.
    pub fn write_vectored_at(&self, slices: &[IoSlice<'_>], mut position: u64) -> Result<(), StorageError> {
        let mut owned: Vec<IoSlice<'_>> = slices.to_vec();
        let mut rest: &mut [IoSlice<'_>] = &mut owned;
        while !rest.is_empty() {
            let window = rest.get(..VECTOR_SLICES_MAX).unwrap_or(rest);
            let written = match rustix::io::pwritev(&self.file, window, position) {
                Ok(0) => return Err(StorageError::io("write", &self.path)(io::ErrorKind::WriteZero.into())),
                Ok(written) => written,
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(StorageError::io("write", &self.path)(errno.into())),
            };
            position += written as u64;
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }

    /// Writes all of `bytes` at `position`.
    pub fn write_at(&self, bytes: &[u8], position: u64) -> Result<(), StorageError> {
        self.file.write_all_at(bytes, position).map_err(StorageError::io("write", &self.path))
    }

    /// Fills `buffer` from `position`, waiting for the disk if need be.
    pub fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<(), StorageError> {
        self.file.read_exact_at(buffer, position).map_err(StorageError::io("read", &self.path))
    }

    /// Fills `buffer` from `position` if all of it is in the page cache; else `WouldBlock`.
    pub fn read_at_if_cached(&self, buffer: &mut [u8], position: u64) -> Result<(), StorageError> {
        let wanted = buffer.len();
        match rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(buffer)], position, ReadWriteFlags::NOWAIT) {
            Ok(count) if count == wanted => Ok(()),
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Err(StorageError::WouldBlock),
            // A file system without NOWAIT reads: leave it to a thread that may wait.
            Err(rustix::io::Errno::OPNOTSUPP) => Err(StorageError::WouldBlock),
            Err(errno) => Err(StorageError::io("read", &self.path)(errno.into())),
        }
    }

    /// Adds `count` bytes from `position` on to `buffer`, whose memory need not be cleared for it: for large reads. If they
    /// may not wait for the disk and are not in the page cache, `WouldBlock`.
    pub fn read_into(
        &self,
        buffer: &mut Vec<u8>,
        count: usize,
        position: u64,
        may_wait: bool,
    ) -> Result<(), StorageError> {
        buffer.reserve_exact(count);
        let (start, flags) = (buffer.len(), if may_wait { 0 } else { libc::RWF_NOWAIT });
        while buffer.len() < start + count {
            let done = buffer.len() - start;
            match self.read_once(buffer, count - done, position + done as u64, flags) {
                Ok(0) => return Err(StorageError::io("read", &self.path)(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if may_wait && error.kind() == io::ErrorKind::Interrupted => {}
                // A file system without such reads: leave it to a thread that may wait.
                Err(error)
                    if !may_wait
                        && matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::EOPNOTSUPP)) =>
                {
                    return Err(StorageError::WouldBlock);
                }
                Err(error) => return Err(StorageError::io("read", &self.path)(error)),
            }
        }
        Ok(())
    }

    /// One read of up to `count` bytes into the spare room of `buffer`, which has as much. Gives how many came.
    #[expect(unsafe_code, reason = "only so can bytes be read into memory that was not cleared before")]
    fn read_once(&self, buffer: &mut Vec<u8>, count: usize, position: u64, flags: i32) -> io::Result<usize> {
        let room = buffer.spare_capacity_mut();
        let room = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len().min(count) };
        let position = i64::try_from(position).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open for as long as `self` is; the kernel writes to the spare room of `buffer` alone.
        let read = unsafe { libc::preadv2(self.file.as_raw_fd(), &raw const room, 1, position, flags) };
        let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: so many bytes of the spare room were just written.
        unsafe { buffer.set_len(buffer.len() + read) };
        Ok(read)
    }

    /// Tells the kernel that a range will be read soon, so that the disk works meanwhile. Promises nothing.
    pub fn will_need(&self, position: u64, size: u64) {
        let _ = rustix::fs::fadvise(&self.file, position, NonZeroU64::new(size), Advice::WillNeed);
    }

    /// The first place from `position` on that may hold something: what was never written is passed over, where the file
    /// system can tell. `None` if nothing follows.
    pub fn next_data(&self, position: u64) -> Option<u64> {
        match rustix::fs::seek(&self.file, SeekFrom::Data(position)) {
            Ok(found) => Some(found.max(position)),
            Err(rustix::io::Errno::NXIO) => None,
            // A file system that cannot tell.
            Err(_) => self.size().ok().filter(|size| position < *size).map(|_| position),
        }
    }

    /// Puts what was written on the disk; the size must not have changed since it was last synced in full.
    pub fn sync_data(&self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(StorageError::io("sync", &self.path))
    }

    /// Has the kernel begin to write a range to the disk, without waiting for it and without promising anything: a later
    /// `sync_data` then finds little left to do, and the kernel never has so much unwritten that it stops a writer.
    pub fn start_write_back(&self, position: u64, size: u64) -> Result<(), StorageError> {
        let (Ok(position), Ok(size)) = (i64::try_from(position), i64::try_from(size)) else { return Ok(()) };
        #[expect(unsafe_code, reason = "a system call that takes an open file and three numbers")]
        // SAFETY: the descriptor is open for as long as `self` is, and no memory is passed.
        let outcome =
            unsafe { libc::sync_file_range(self.file.as_raw_fd(), position, size, libc::SYNC_FILE_RANGE_WRITE) };
        if outcome == 0 { Ok(()) } else { Err(StorageError::io("write back", &self.path)(io::Error::last_os_error())) }
    }

    /// Makes everything from `position` to `end` read as zeroes, without changing the size.
    pub fn clear(&self, position: u64, end: u64) -> Result<(), StorageError> {
        if position >= end {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, position, end - position) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => self.write_zeroes(position, end),
            Err(errno) => Err(StorageError::io("clear", &self.path)(errno.into())),
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

/// Makes a directory and those above it.
pub fn create_directory(path: &Path) -> Result<(), StorageError> {
    fs::create_dir_all(path).map_err(StorageError::io("create the directory", path))
}

/// Names in a directory, sorted; none if it does not exist or is something else.
pub fn list(path: &Path) -> Result<Vec<String>, StorageError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(StorageError::io("list", path)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StorageError::io("list", path))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether there is anything at `path`.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// Reads a whole small file; `None` if it does not exist.
pub fn read_file(path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StorageError::io("read", path)(error)),
    }
}

/// Replaces a small file so that a crash leaves either the old or the new one whole; the old one stays as `.bak`.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let sibling = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (temporary, backup) = (sibling(".tmp"), sibling(".bak"));
    if let Some(parent) = path.parent() {
        create_directory(parent)?;
    }
    let file = File::create(&temporary).map_err(StorageError::io("create", &temporary))?;
    file.write_all_at(bytes, 0).map_err(StorageError::io("write", &temporary))?;
    file.sync_data().map_err(StorageError::io("sync", &temporary))?;
    if path.exists() {
        // A link, not a rename: at no moment is there no file under the name.
        let _ = fs::remove_file(&backup);
        fs::hard_link(path, &backup).map_err(StorageError::io("keep a backup as", &backup))?;
    }
    fs::rename(&temporary, path).map_err(StorageError::io("replace", path))?;
    sync_directory_of(path)
}

/// Removes a file if it is there.
pub fn remove_file(path: &Path) -> Result<(), StorageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a directory with everything in it, if it is there.
pub fn remove_directory(path: &Path) -> Result<(), StorageError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Moves a file out of the way so that its bytes are kept for people to look at: into the folder `set-aside` of `root`,
/// under its way from there with dashes. Only if that is another disk, beside its kin, where a Java broker would trip over
/// it.
pub fn set_aside(root: &Path, path: &Path) -> Result<PathBuf, StorageError> {
    let folder = root.join("set-aside");
    create_directory(&folder)?;
    let way = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('/', "-");
    let free = |number: u32| if number == 1 { folder.join(&way) } else { folder.join(format!("{way}.{number}")) };
    let aside = (1..).map(free).find(|aside| !aside.exists()).unwrap_or_else(|| folder.join(&way));
    match fs::rename(path, &aside) {
        Ok(()) => Ok(aside),
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let beside = path.with_extension("set-aside");
            fs::rename(path, &beside).map_err(StorageError::io("move aside", path))?;
            Ok(beside)
        }
        Err(error) => Err(StorageError::io("move aside", path)(error)),
    }
}

/// Puts the names in the directory of `path` on the disk.
pub fn sync_directory_of(path: &Path) -> Result<(), StorageError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let directory = File::open(parent).map_err(StorageError::io("open", parent))?;
    directory.sync_all().map_err(StorageError::io("sync", parent))
}

/// Holds the data directory for this process until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

/// Takes the data directory for this process. The lock is the one a Java broker takes on the same file.
pub fn lock_directory(directory: &Path) -> Result<DirectoryLock, StorageError> {
    create_directory(directory)?;
    let path = directory.join("lock");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(StorageError::io("create", &path))?;
    // The first lock excludes Java brokers and other processes, the second another store in this process.
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
        .and_then(|()| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))
        .map_err(|_| StorageError::Locked(directory.to_owned()))?;
    Ok(DirectoryLock { _file: file })
}

/// The process that holds the data directory, if one does; 0 if it cannot be told which. Takes no lock itself. Must not be
/// called by the process that holds it: closing the file would give up its lock.
pub fn lock_holder(directory: &Path) -> Result<Option<u32>, StorageError> {
    let path = directory.join("lock");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io("open", &path)(error)),
    };
    let wanted = rustix::process::Flock::from(rustix::process::FlockType::WriteLock);
    let holder = rustix::process::fcntl_getlk(&file, &wanted)
        .map_err(|errno| StorageError::io("look at the lock", &path)(errno.into()))?;
    Ok(holder.map(|lock| lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())))
}

/// How full the disk of `path` is: bytes used, and bytes there are for this user (used and free). As `df` counts: what is
/// reserved for others is neither.
pub fn disk_usage(path: &Path) -> Result<(u64, u64), StorageError> {
    let figures =
        rustix::fs::statvfs(path).map_err(|errno| StorageError::io("examine the disk of", path)(errno.into()))?;
    let used = figures.f_blocks.saturating_sub(figures.f_bfree).saturating_mul(figures.f_frsize);
    let free = figures.f_bavail.saturating_mul(figures.f_frsize);
    Ok((used, used.saturating_add(free)))
}

/// When a file was last written, ms since 1970; `None` if it cannot be told.
pub fn modified_ms(path: &Path) -> Option<u64> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_leaves_the_old_one_as_backup() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("config/topics.json");
        replace_file(&path, b"one").expect("writes");
        replace_file(&path, b"two").expect("writes");
        assert_eq!(read_file(&path).expect("reads").as_deref(), Some(&b"two"[..]));
        assert_eq!(
            read_file(&directory.path().join("config/topics.json.bak")).expect("reads").as_deref(),
            Some(&b"one"[..])
        );
    }

    #[test]
    fn a_directory_is_taken_once() {
        let directory = tempfile::tempdir().expect("directory");
        let lock = lock_directory(directory.path()).expect("first");
        let refused = lock_directory(directory.path()).expect_err("second").to_string();
        assert!(refused.contains("in use by another process"), "{refused}");
        drop(lock);
        lock_directory(directory.path()).expect("again");
    }

    #[test]
    fn cleared_bytes_read_as_zeroes_and_the_size_stays() {
        let directory = tempfile::tempdir().expect("directory");
        let file = DiskFile::open_sized(&directory.path().join("x"), 10_000, true).expect("opens");
        file.write_at(&[7; 10_000], 0).expect("writes");
        file.clear(100, 10_000).expect("clears");
        let mut bytes = vec![1; 10_000];
        file.read_at(&mut bytes, 0).expect("reads");
        assert!(bytes[..100].iter().all(|&b| b == 7) && bytes[100..].iter().all(|&b| b == 0));
    }
}
