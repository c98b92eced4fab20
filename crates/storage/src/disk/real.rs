//! The machine's file system.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the one place that asks the file system")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use parking_lot::Mutex;
use rustix::fs::{Advice, FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use super::{FileHandle, FileState, FileSystem, Job, Opening, Reading};

/// Linux's boot ID, another after every start of the machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// What a disk that is read directly wants positions, sizes and memory to be multiples of, as far as disks are known.
const ALIGNMENT: u64 = 4096;

/// Most jobs that run at the same time: enough parallel reads for usual disks.
const READS_AT_ONCE: usize = 16;

/// The file system of Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl FileSystem for RealDisk {
    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn FileHandle>> {
        let (is_made, is_written) = (opening == Opening::MadeIfMissing, opening != Opening::ReadOnly);
        let mut options = OpenOptions::new();
        options.read(true).write(is_written).create(is_made).create_new(opening == Opening::New).truncate(false);
        let file = options.open(path)?;
        Ok(Box::new(RealFile { file, path: path.to_owned(), direct: OnceLock::new() }))
    }

    fn examine(&self, path: &Path) -> io::Result<FileState> {
        let metadata = fs::metadata(path)?;
        let modified = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(FileState { size: metadata.len(), modified_ms: u64::try_from(modified.as_millis()).unwrap_or(u64::MAX) })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn run_all(&self, jobs: Vec<Job<'_>>) {
        let threads = jobs.len().min(READS_AT_ONCE);
        if threads <= 1 {
            return jobs.into_iter().for_each(|job| job());
        }
        let jobs = Mutex::new(jobs.into_iter());
        let next = || jobs.lock().next();
        // A job that panics does so here, once the others have ended.
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(job) = next() {
                        job();
                    }
                });
            }
        });
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_everything(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(path)?)?)
    }

    fn usage(&self, path: &Path) -> io::Result<(u64, u64)> {
        let figures = rustix::fs::statvfs(path)?;
        let used = figures.f_blocks.saturating_sub(figures.f_bfree).saturating_mul(figures.f_frsize);
        let free = figures.f_bavail.saturating_mul(figures.f_frsize);
        Ok((used, used.saturating_add(free)))
    }

    fn boot(&self) -> io::Result<String> {
        Ok(fs::read_to_string(BOOT)?.trim().to_owned())
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
    /// The same file, opened when it is first read past the page cache; `None` where the file system cannot do that.
    direct: OnceLock<Option<File>>,
}

impl RealFile {
    fn read_with(&self, buffer: &mut [u8], position: u64, flags: ReadWriteFlags) -> io::Result<usize> {
        let read = rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(buffer)], position, flags);
        read.map_err(|errno| sorted(errno.into()))
    }

    /// Opened once for direct reads. `None`: the file system cannot do them, and never can. Without free descriptors the next one tries again.
    fn direct(&self) -> io::Result<Option<&File>> {
        if let Some(opened) = self.direct.get() {
            return Ok(opened.as_ref());
        }
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&self.path);
        let is_for_good = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP));
        match opened {
            Err(error) if !is_for_good(&error) => Err(error),
            opened => Ok(self.direct.get_or_init(|| opened.ok()).as_ref()),
        }
    }

    /// The disk writes into `buffer` by itself, whether the page cache has the bytes or not: a look there would have the kernel read ahead.
    fn read_past_cache(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let is_aligned =
            [position, buffer.len() as u64, buffer.as_ptr().addr() as u64].iter().all(|at| at % ALIGNMENT == 0);
        if is_aligned
            && let Ok(Some(direct)) = self.direct()
            && let Ok(read @ 1..) = rustix::io::pread(direct, &mut *buffer, position)
        {
            return Ok(read);
        }
        let read = self.read_with(buffer, position, ReadWriteFlags::empty())?;
        self.wont_need(position, read as u64);
        Ok(read)
    }

    /// Where the file system cannot read directly, what the page cache has of it is dropped first, as far as it is on the disk.
    fn read_directly(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        if let Some(direct) = self.direct()? {
            match rustix::io::pread(direct, &mut *buffer, position) {
                Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {}
                outcome => return Ok(outcome?),
            }
        }
        self.wont_need(position, buffer.len() as u64);
        self.read_with(buffer, position, ReadWriteFlags::empty())
    }
}

impl FileHandle for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn write(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.file, slices, position)?)
    }

    fn read(&self, buffer: &mut [u8], position: u64, reading: Reading) -> io::Result<usize> {
        match reading {
            Reading::IfCached => self.read_with(buffer, position, ReadWriteFlags::NOWAIT),
            Reading::MayWait => self.read_with(buffer, position, ReadWriteFlags::empty()),
            Reading::PastCache => self.read_past_cache(buffer, position),
            Reading::Directly => self.read_directly(buffer, position),
        }
    }

    #[expect(unsafe_code, reason = "only so can bytes be read into memory that was not cleared before")]
    fn read_into(&self, buffer: &mut Vec<u8>, count: usize, position: u64, may_wait: bool) -> io::Result<usize> {
        let flags = if may_wait { 0 } else { libc::RWF_NOWAIT };
        let room = buffer.spare_capacity_mut();
        let room = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len().min(count) };
        let position = i64::try_from(position).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open for as long as `self` is; the kernel writes to the spare room of `buffer` alone.
        let read = unsafe { libc::preadv2(self.file.as_raw_fd(), &raw const room, 1, position, flags) };
        let read = usize::try_from(read).map_err(|_| sorted(io::Error::last_os_error()))?;
        // SAFETY: so many bytes of the spare room were just written.
        unsafe { buffer.set_len(buffer.len() + read) };
        Ok(read)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size)?)
    }

    fn clear(&self, position: u64, end: u64, keep_allocated: bool) -> io::Result<()> {
        let clear = |how| rustix::fs::fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, position, end - position);
        // Not all file systems support this; the next way frees the space.
        if keep_allocated && clear(FallocateFlags::ZERO_RANGE).is_ok() {
            return Ok(());
        }
        clear(FallocateFlags::PUNCH_HOLE).map_err(|errno| sorted(errno.into()))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn will_need(&self, position: u64, size: u64) {
        let _ = rustix::fs::fadvise(&self.file, position, NonZeroU64::new(size), Advice::WillNeed);
    }

    fn wont_need(&self, position: u64, size: u64) {
        let _ = rustix::fs::fadvise(&self.file, position, NonZeroU64::new(size), Advice::DontNeed);
    }

    fn next_data(&self, position: u64) -> Option<u64> {
        match rustix::fs::seek(&self.file, SeekFrom::Data(position)) {
            Ok(found) => Some(found.max(position)),
            Err(Errno::NXIO) => None,
            // The file system cannot tell.
            Err(_) => self.size().ok().filter(|size| position < *size).map(|_| position),
        }
    }

    fn written_size(&self) -> io::Result<u64> {
        rustix::fs::seek(&self.file, SeekFrom::Hole(0)).or_else(|_| self.size())
    }

    fn lock_holder(&self) -> io::Result<Option<u32>> {
        let wanted = rustix::process::Flock::from(rustix::process::FlockType::WriteLock);
        let holder = rustix::process::fcntl_getlk(&self.file, &wanted)?;
        Ok(holder.map(|lock| lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())))
    }

    fn start_write_back(&self, position: u64, size: u64) -> io::Result<()> {
        let (Ok(position), Ok(size)) = (i64::try_from(position), i64::try_from(size)) else { return Ok(()) };
        #[expect(unsafe_code, reason = "a system call that takes an open file and three numbers")]
        // SAFETY: the descriptor is open for as long as `self` is, and no memory is passed.
        let outcome =
            unsafe { libc::sync_file_range(self.file.as_raw_fd(), position, size, libc::SYNC_FILE_RANGE_WRITE) };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn try_lock(&self) -> io::Result<bool> {
        // The first lock excludes Java brokers and other processes, the second another store in this process.
        let locked = rustix::fs::fcntl_lock(&self.file, FlockOperation::NonBlockingLockExclusive)
            .and_then(|()| rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive));
        Ok(locked.is_ok())
    }
}

/// Gives an unsupported operation its error kind, so that callers can fall back to another one.
fn sorted(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::EOPNOTSUPP) { io::ErrorKind::Unsupported.into() } else { error }
}
