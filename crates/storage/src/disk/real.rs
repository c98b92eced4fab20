//! The machine's file system.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the one place that asks the file system")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

use parking_lot::Mutex;
use rustix::fs::{Advice, FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::ReadWriteFlags;

use super::{FileHandle, FileState, FileSystem, Job, Opening, Reading};

/// Linux's boot ID, another after every start of the machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

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
        Ok(Box::new(RealFile(file)))
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
struct RealFile(File);

impl RealFile {
    /// Reads up to `count` bytes, with flags of `preadv2`, to the end of `buffer`.
    #[expect(unsafe_code, reason = "only so can bytes be read into memory that was not cleared before")]
    fn append(&self, buffer: &mut Vec<u8>, count: usize, position: u64, flags: libc::c_int) -> io::Result<usize> {
        let room = buffer.spare_capacity_mut();
        let room = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len().min(count) };
        let position = i64::try_from(position).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open for as long as `self` is; the kernel writes to the spare room of `buffer` alone.
        let read = unsafe { libc::preadv2(self.0.as_raw_fd(), &raw const room, 1, position, flags) };
        let read = usize::try_from(read).map_err(|_| sorted(io::Error::last_os_error()))?;
        // SAFETY: so many bytes of the spare room were just written.
        unsafe { buffer.set_len(buffer.len() + read) };
        Ok(read)
    }
}

impl FileHandle for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn write(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.0, slices, position)?)
    }

    fn read(&self, buffer: &mut [u8], position: u64, may_wait: bool) -> io::Result<usize> {
        let flags = if may_wait { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
        let read = rustix::io::preadv2(&self.0, &mut [IoSliceMut::new(buffer)], position, flags);
        read.map_err(|errno| sorted(errno.into()))
    }

    fn read_into(&self, buffer: &mut Vec<u8>, count: usize, position: u64, reading: Reading) -> io::Result<usize> {
        match reading {
            Reading::IfCached => self.append(buffer, count, position, libc::RWF_NOWAIT),
            Reading::MayWait => self.append(buffer, count, position, 0),
            Reading::PastCache => match self.append(buffer, count, position, libc::RWF_DONTCACHE) {
                // Kernels before 6.14, and file systems without it.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    let read = self.append(buffer, count, position, 0)?;
                    self.wont_need(position, read as u64);
                    Ok(read)
                }
                outcome => outcome,
            },
        }
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, size)?)
    }

    fn clear(&self, position: u64, end: u64, keep_allocated: bool) -> io::Result<()> {
        let clear = |how| rustix::fs::fallocate(&self.0, how | FallocateFlags::KEEP_SIZE, position, end - position);
        // Not all file systems support this; the next way frees the space.
        if keep_allocated && clear(FallocateFlags::ZERO_RANGE).is_ok() {
            return Ok(());
        }
        clear(FallocateFlags::PUNCH_HOLE).map_err(|errno| sorted(errno.into()))
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn will_need(&self, position: u64, size: u64) {
        let _ = rustix::fs::fadvise(&self.0, position, NonZeroU64::new(size), Advice::WillNeed);
    }

    fn wont_need(&self, position: u64, size: u64) {
        let _ = rustix::fs::fadvise(&self.0, position, NonZeroU64::new(size), Advice::DontNeed);
    }

    fn next_data(&self, position: u64) -> Option<u64> {
        match rustix::fs::seek(&self.0, SeekFrom::Data(position)) {
            Ok(found) => Some(found.max(position)),
            Err(rustix::io::Errno::NXIO) => None,
            // The file system cannot tell.
            Err(_) => self.size().ok().filter(|size| position < *size).map(|_| position),
        }
    }

    fn written_size(&self) -> io::Result<u64> {
        rustix::fs::seek(&self.0, SeekFrom::Hole(0)).or_else(|_| self.size())
    }

    fn lock_holder(&self) -> io::Result<Option<u32>> {
        let wanted = rustix::process::Flock::from(rustix::process::FlockType::WriteLock);
        let holder = rustix::process::fcntl_getlk(&self.0, &wanted)?;
        Ok(holder.map(|lock| lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())))
    }

    fn start_write_back(&self, position: u64, size: u64) -> io::Result<()> {
        let (Ok(position), Ok(size)) = (i64::try_from(position), i64::try_from(size)) else { return Ok(()) };
        #[expect(unsafe_code, reason = "a system call that takes an open file and three numbers")]
        // SAFETY: the descriptor is open for as long as `self` is, and no memory is passed.
        let outcome = unsafe { libc::sync_file_range(self.0.as_raw_fd(), position, size, libc::SYNC_FILE_RANGE_WRITE) };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn try_lock(&self) -> io::Result<bool> {
        // The first lock excludes Java brokers and other processes, the second another store in this process.
        let locked = rustix::fs::fcntl_lock(&self.0, FlockOperation::NonBlockingLockExclusive)
            .and_then(|()| rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive));
        Ok(locked.is_ok())
    }
}

/// Gives an unsupported operation its error kind, so that callers can fall back to another one.
fn sorted(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::EOPNOTSUPP) { io::ErrorKind::Unsupported.into() } else { error }
}
