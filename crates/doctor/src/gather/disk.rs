//! Trials on the disk of a directory: small, bounded, in a file that has no name.

use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate, major, minor};
use rustix::io::{Errno, ReadWriteFlags};

use super::super::facts::{Disk, Mount, Space, SyncTimes, Trials, WriteRate};
use super::mounts::{lock_holder, mount_of};
use super::{chosen, number, text};

const SYNC_COUNT: usize = 200;
const SYNC_SIZE: usize = 4 << 10;
/// A slow disk is known to be slow after this.
const SYNC_TIME_MAX: Duration = Duration::from_secs(4);
const WRITE_SIZE: usize = 256 << 10;
const WRITE_BYTES_MAX: u64 = 256 << 20;
const WRITE_TIME_MAX: Duration = Duration::from_secs(2);
/// A disk with less room than this is left alone.
const ROOM_MIN: u64 = 4 * WRITE_BYTES_MAX;

/// Looks at `directory`, or at what there is of it so far; `log` is where segments are.
pub fn examine(purpose: String, directory: &Path, log: &Path) -> Disk {
    let looked_at = nearest(directory);
    let mount = mount_of(&text("/proc/self/mountinfo").unwrap_or_default(), &looked_at);
    let space = space(&looked_at);
    let device = block_device(&looked_at, mount.as_ref());
    let queue = |name: &str| device.as_ref().and_then(|device| text(device.join(name)));
    let mut disk = Disk {
        purpose,
        directory: directory.to_owned(),
        held_by: holder(directory),
        has_segment: fs::read_dir(log).is_ok_and(|mut names| names.next().is_some()),
        scheduler: queue("scheduler").and_then(|text| chosen(&text).map(str::to_owned)),
        is_rotational: device.as_ref().and_then(|device| number(device.join("rotational"))).map(|is| is == 1),
        mount,
        space,
        ..Disk::default()
    };
    match nameless_file(&looked_at) {
        Ok(file) => disk.trials = trials(&file, space),
        Err(error) => disk.problem = Some(error.to_string()),
    }
    // What exists is shown as it was given; else the part of it that exists.
    disk.looked_at = if directory.exists() { directory.to_owned() } else { looked_at };
    disk
}

/// The directory, or the nearest one above it that exists, without links.
fn nearest(directory: &Path) -> PathBuf {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    absolute.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_else(|| PathBuf::from("/"))
}

fn space(path: &Path) -> Option<Space> {
    let figures = rustix::fs::statvfs(path).ok()?;
    // As the store reckons how full its disk is: blocks kept for the system's own use are neither used nor free.
    let used = figures.f_blocks.saturating_sub(figures.f_bfree).saturating_mul(figures.f_frsize);
    let free = figures.f_bavail.saturating_mul(figures.f_frsize);
    let all = used.saturating_add(free);
    // Rounded up, as `df` does.
    let used_percent = (used * 100).div_ceil(all.max(1)).min(100) as u8;
    Some(Space { free, used_percent })
}

/// The folder of the block device's queue: of the file system's own device, or of the one it is mounted from.
fn block_device(path: &Path, mount: Option<&Mount>) -> Option<PathBuf> {
    let of = |device: u64| {
        let device = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
        // A partition has its queue with the whole disk.
        [device.join("queue"), device.join("../queue")].into_iter().find(|queue| queue.exists())
    };
    let source = mount.map(|mount| mount.source.as_str()).filter(|source| source.starts_with("/dev/"));
    of(fs::metadata(path).ok()?.dev()).or_else(|| of(fs::metadata(source?).ok()?.rdev()))
}

/// The process that has the directory open as its store: Sluice and Java brokers lock the same file.
fn holder(directory: &Path) -> Option<u32> {
    let lock = fs::metadata(directory.join("lock")).ok()?;
    lock_holder(&text("/proc/locks")?, (major(lock.dev()), minor(lock.dev())), lock.ino())
}

/// A file without a name: nothing stays, whatever happens.
fn nameless_file(directory: &Path) -> io::Result<File> {
    if !directory.is_dir() {
        return Err(io::Error::other(format!("{} is not a directory", directory.display())));
    }
    tempfile::tempfile_in(directory)
}

fn trials(file: &File, space: Option<Space>) -> Trials {
    let reserved = fallocate(file, FallocateFlags::empty(), 0, (SYNC_COUNT * SYNC_SIZE) as u64);
    let sync = sync_times(file).ok();
    let has_nowait = nowait(file);
    let has_room = space.is_some_and(|space| space.free > ROOM_MIN);
    Trials {
        reserve_problem: reserved.err().map(|errno| io::Error::from(errno).to_string()),
        has_nowait,
        sync: sync.and_then(spread),
        write: if has_room { write_rate(file).ok() } else { None },
    }
}

/// How long a small write and its sync take, one after the other through reserved space: as the log is written.
fn sync_times(file: &File) -> io::Result<Vec<Duration>> {
    let block = [0x5a_u8; SYNC_SIZE];
    let began = Instant::now();
    let mut times = Vec::with_capacity(SYNC_COUNT);
    while times.len() < SYNC_COUNT && began.elapsed() < SYNC_TIME_MAX {
        let one = Instant::now();
        file.write_all_at(&block, (times.len() * SYNC_SIZE) as u64)?;
        file.sync_data()?;
        times.push(one.elapsed());
    }
    Ok(times)
}

fn spread(mut times: Vec<Duration>) -> Option<SyncTimes> {
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(index).map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    };
    Some(SyncTimes { count: times.len(), p50_us: at(50)?, p99_us: at(99)?, max_us: at(100)? })
}

/// Whether a read can be told not to wait; what it reads was just written.
fn nowait(file: &File) -> Option<bool> {
    let mut buffer = [0; 512];
    match rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut buffer)], 0, ReadWriteFlags::NOWAIT) {
        Ok(_) | Err(Errno::AGAIN) => Some(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Some(false),
        Err(_) => None,
    }
}

/// How fast the page cache takes writes into reserved space. The file is dropped before the disk gets to see it.
fn write_rate(file: &File) -> io::Result<WriteRate> {
    let block = vec![0x5a_u8; WRITE_SIZE];
    // Not everyone can reserve; then the space is taken as it is written.
    let _ = fallocate(file, FallocateFlags::empty(), 0, WRITE_BYTES_MAX);
    let began = Instant::now();
    let mut bytes = 0;
    while bytes < WRITE_BYTES_MAX && began.elapsed() < WRITE_TIME_MAX {
        file.write_all_at(&block, bytes)?;
        bytes += WRITE_SIZE as u64;
    }
    let per_second = bytes as f64 / began.elapsed().as_secs_f64().max(1e-9);
    Ok(WriteRate { bytes, megabytes_per_second: (per_second / 1e6) as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_names_the_middle_and_the_end() {
        let times = (1..=200).rev().map(Duration::from_micros).collect();
        let expected = SyncTimes { count: 200, p50_us: 100, p99_us: 198, max_us: 200 };
        assert_eq!(spread(times), Some(expected));
        assert_eq!(spread(Vec::new()), None);
    }

    #[test]
    fn a_directory_that_is_not_there_yet_is_looked_at_from_above_and_left_as_it_was() {
        let here = std::env::current_dir().expect("here");
        let wanted = here.join("no/such/directory");
        let disk = examine("data".to_owned(), &wanted, &wanted.join("commitlog"));
        assert_eq!(
            (disk.looked_at.as_path(), disk.problem.as_deref()),
            (here.canonicalize().expect("here").as_path(), None)
        );
        assert!(disk.mount.is_some() && disk.space.is_some() && disk.trials.sync.is_some(), "{disk:?}");
        assert!(!here.join("no").exists() && !disk.has_segment);
    }

    #[test]
    fn a_file_is_no_directory() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(
            examine("data".to_owned(), &file, &file).problem.is_some_and(|problem| problem.contains("not a directory"))
        );
    }
}
