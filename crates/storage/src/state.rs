//! State beside the messages: who learns of state records while the log is read again, and the snapshot that spares reading them all.
//!
//! What changes mean is for whoever gives them. **Always holds**: a snapshot says only what state records below its position say, and
//! those were on the disk before it was.

use std::path::{Path, PathBuf};

use base::cursor::Reader;
use base::{LogOffset, TopicName};
use format::state::StateError;

use crate::disk::Disk;
use crate::error::StorageError;

/// Learns what the state records of a log say.
pub trait StateReplay {
    /// State records below this are known already: they are told only for the topics that they remove.
    fn known_until(&self) -> LogOffset;

    /// Whether there are message queues, as far as that is known before the log is read: their entries are to be there.
    fn has_message_queues(&self) -> bool {
        false
    }

    /// Topics that were removed below that, and the log offset below which all their messages are: a crash may have left their queues.
    fn removed(&self) -> Vec<(TopicName, LogOffset)> {
        Vec::new()
    }

    /// Takes in the changes of the state record at a log offset, if they are not known. Gives the topics they remove: no message before
    /// is theirs.
    fn apply(&mut self, offset: LogOffset, changes: &[u8]) -> Result<Vec<TopicName>, StateError>;
}

/// Wants to know nothing of state.
#[derive(Clone, Copy, Debug)]
pub struct NoState;

impl StateReplay for NoState {
    fn known_until(&self) -> LogOffset {
        LogOffset(u64::MAX)
    }

    fn apply(&mut self, _: LogOffset, _: &[u8]) -> Result<Vec<TopicName>, StateError> {
        Ok(Vec::new())
    }
}

const FILE: &str = "state";
const MAGIC: u64 = u64::from_be_bytes(*b"SLUICEST");
const HEAD_SIZE: usize = 8 + 8 + 4 + 4;

/// Deltas may take this many times the space of what they add to, and this much anyway, before the file is written anew.
const DELTAS_PER_BASE: u64 = 2;
const DELTAS_SIZE_MIN: u64 = 1 << 20;

/// The snapshot's file: all of the state, then what changed since, frame by frame.
///
/// ```text
/// file: state
/// offset  size  field of each frame
///      0     8  magic
///      8     8  position: state records below it are in this frame and those before
///     16     4  bytes of changes
///     20     4  CRC-32 of position, bytes and changes
///     24     n  changes (see `format::state`)
/// ```
/// A frame that is not whole ends the file: it was being written when the process or the machine stopped.
#[derive(Debug)]
pub struct Snapshot {
    disk: Disk,
    path: PathBuf,
    /// Bytes of the first frame; 0 if there is none.
    base_size: u64,
    /// Bytes of whole frames.
    size: u64,
}

/// What a snapshot says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotContent {
    /// Frames that are whole, the oldest first.
    pub frames: Vec<SnapshotFrame>,
    /// Whether something behind the last of them was not readable.
    pub is_cut: bool,
    /// Why the disk could not read the file at all, if it could not.
    pub unreadable: Option<String>,
}

/// A part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFrame {
    /// State records below this are in it and those before.
    pub position: LogOffset,
    /// Changes (see `format::state`).
    pub changes: Vec<u8>,
}

impl SnapshotFrame {
    /// Bytes it takes in the file.
    pub const fn size(&self) -> u64 {
        (HEAD_SIZE + self.changes.len()) as u64
    }
}

impl SnapshotContent {
    /// What the bytes of its file say.
    pub fn of(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        let mut rest = bytes;
        while let Some((position, changes, after)) = split_frame(rest) {
            content.frames.push(SnapshotFrame { position, changes: changes.to_vec() });
            rest = after;
        }
        content.is_cut = !rest.is_empty();
        content
    }

    /// State records below this are in it; `None` if there is no whole frame.
    pub fn position(&self) -> Option<LogOffset> {
        self.frames.last().map(|frame| frame.position)
    }

    /// Leaves out what a log that ends at `end` cannot say, as far as something older is there: the first frame, which holds all, stays.
    pub fn end_at(&mut self, end: LogOffset) {
        let of_this_log = self.frames.iter().take_while(|frame| frame.position <= end).count();
        self.frames.truncate(of_this_log.max(1));
    }

    /// What can be read of it, in words.
    pub fn readable(&self) -> String {
        match (self.frames.len(), self.position()) {
            (1, Some(position)) => format!("its first frame, up to log offset {position}, is whole"),
            (count, Some(position)) => format!("its first {count} frames, up to log offset {position}, are whole"),
            (_, None) => "no frame of it is whole".to_owned(),
        }
    }
}

impl Snapshot {
    /// Reads the snapshot of a data directory.
    pub fn open(disk: &Disk, directory: &Path) -> Result<(Self, SnapshotContent), StorageError> {
        let mut snapshot = Self { disk: disk.clone(), path: directory.join(FILE), base_size: 0, size: 0 };
        let bytes = match disk.read_file(&snapshot.path) {
            Err(error) if error.is_unreadable() => {
                let unreadable = Some(error.to_string());
                return Ok((snapshot, SnapshotContent { is_cut: true, unreadable, ..SnapshotContent::default() }));
            }
            read => read?.unwrap_or_default(),
        };
        let content = SnapshotContent::of(&bytes);
        snapshot.size = content.frames.iter().map(SnapshotFrame::size).sum();
        // Behind a frame that is not whole others may be, which nothing may make good again: such a file is written anew.
        snapshot.base_size = content.frames.first().filter(|_| !content.is_cut).map_or(0, SnapshotFrame::size);
        Ok((snapshot, content))
    }

    /// Whether the next frame should hold all of the state.
    pub const fn wants_base(&self) -> bool {
        let deltas = self.size - self.base_size;
        self.base_size == 0 || deltas > DELTAS_SIZE_MIN && deltas > DELTAS_PER_BASE * self.base_size
    }

    /// Bytes of the snapshot's file in a data directory, whatever it says; 0 if there is none.
    pub(crate) fn size_of_file(disk: &Disk, directory: &Path) -> u64 {
        disk.size(&directory.join(FILE)).unwrap_or_default()
    }

    /// Bytes of the file, as far as it is whole.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The next frame should hold all of the state: more is known than this file and the log tell.
    pub const fn want_base(&mut self) {
        self.base_size = 0;
    }

    /// Replaces the file by one frame that holds all of the state.
    pub fn write_base(&mut self, position: LogOffset, changes: &[u8]) -> Result<(), StorageError> {
        let frame = frame(position, changes);
        self.disk.replace_file(&self.path, &frame)?;
        self.base_size = frame.len() as u64;
        self.size = self.base_size;
        Ok(())
    }

    /// Adds a frame with what has changed since the last. On the disk when this returns.
    pub fn write_delta(&mut self, position: LogOffset, changes: &[u8]) -> Result<(), StorageError> {
        let frame = frame(position, changes);
        let file = self.disk.open(&self.path)?;
        file.write_at(&frame, self.size)?;
        file.sync_data()?;
        self.size += frame.len() as u64;
        Ok(())
    }
}

fn frame(position: LogOffset, changes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD_SIZE + changes.len());
    frame.extend(MAGIC.to_be_bytes());
    frame.extend(position.0.to_be_bytes());
    frame.extend((changes.len() as u32).to_be_bytes());
    frame.extend(checksum(position, changes).to_be_bytes());
    frame.extend(changes);
    frame
}

fn checksum(position: LogOffset, changes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&position.0.to_be_bytes());
    hasher.update(&(changes.len() as u32).to_be_bytes());
    hasher.update(changes);
    hasher.finalize()
}

/// The frame at the front, if it is whole, and what comes behind it.
fn split_frame(bytes: &[u8]) -> Option<(LogOffset, &[u8], &[u8])> {
    let mut reader = Reader::new(bytes);
    let magic = reader.u64("magic").ok()?;
    let position = LogOffset(reader.u64("position").ok()?);
    let size = reader.u32("size of changes").ok()? as usize;
    let crc = reader.u32("checksum").ok()?;
    let (changes, after) = bytes.get(HEAD_SIZE..)?.split_at_checked(size)?;
    (magic == MAGIC && checksum(position, changes) == crc).then_some((position, changes, after))
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    fn read(disk: &Disk) -> SnapshotContent {
        Snapshot::open(disk, Path::new("/data")).expect("reads").1
    }

    fn written() -> (Disk, MemoryDisk) {
        let memory = MemoryDisk::new();
        let disk = Disk::new(memory.clone());
        let (mut snapshot, content) = Snapshot::open(&disk, Path::new("/data")).expect("opens");
        assert_eq!((content, snapshot.wants_base()), (SnapshotContent::default(), true));
        snapshot.write_base(LogOffset(100), b"all of it").expect("writes");
        snapshot.write_delta(LogOffset(200), b"").expect("writes");
        snapshot.write_delta(LogOffset(300), b"more").expect("writes");
        assert!(!snapshot.wants_base());
        (disk, memory)
    }

    #[test]
    fn frames_are_read_back_also_by_a_machine_that_was_cut_off() {
        let (disk, memory) = written();
        let frame = |(position, changes): (u64, &[u8])| SnapshotFrame {
            position: LogOffset(position),
            changes: changes.to_vec(),
        };
        let frames = [(100, &b"all of it"[..]), (200, b""), (300, b"more")].map(frame).to_vec();
        let whole = SnapshotContent { frames, ..SnapshotContent::default() };
        assert_eq!(read(&disk), whole);
        assert_eq!(read(&Disk::new(memory.after_restart_of_the_machine())), whole);
    }

    #[test]
    fn a_frame_that_is_not_whole_ends_the_snapshot_and_is_written_over() {
        let (disk, memory) = written();
        let size = disk.size(Path::new("/data/state")).expect("size");
        for position in size - 20..size {
            assert!(memory.flip_bit(Path::new("/data/state"), position, 3));
            let content = read(&disk);
            assert_eq!((content.position(), content.frames.len(), content.is_cut), (Some(LogOffset(200)), 2, true));
            assert!(memory.flip_bit(Path::new("/data/state"), position, 3));
        }
        assert!(memory.flip_bit(Path::new("/data/state"), size - 1, 3));
        let (mut snapshot, _) = Snapshot::open(&disk, Path::new("/data")).expect("opens");
        snapshot.write_delta(LogOffset(250), b"less").expect("writes");
        assert_eq!((read(&disk).position(), read(&disk).frames.len()), (Some(LogOffset(250)), 3));
    }

    /// A delta of the same size in the place of a damaged one would put those behind it in force again.
    #[test]
    fn a_snapshot_that_is_not_whole_is_written_anew() {
        let (disk, memory) = written();
        let second = HEAD_SIZE as u64 + 9;
        assert!(memory.flip_bit(Path::new("/data/state"), second, 3));
        let (mut snapshot, content) = Snapshot::open(&disk, Path::new("/data")).expect("opens");
        assert_eq!(content.readable(), "its first frame, up to log offset 100, is whole");
        assert!(snapshot.wants_base());
        snapshot.write_base(LogOffset(150), b"anew").expect("writes");
        assert_eq!((read(&disk).position(), read(&disk).is_cut), (Some(LogOffset(150)), false));
    }

    #[test]
    fn of_a_log_that_ends_earlier_the_frames_up_to_its_end_are_taken_and_the_first_in_any_case() {
        let (disk, _) = written();
        for (end, position, readable) in [
            (300, 300, "its first 3 frames, up to log offset 300, are whole"),
            (299, 200, "its first 2 frames, up to log offset 200, are whole"),
            (99, 100, "its first frame, up to log offset 100, is whole"),
        ] {
            let mut content = read(&disk);
            content.end_at(LogOffset(end));
            assert_eq!((content.position(), &*content.readable()), (Some(LogOffset(position)), readable), "{end}");
        }
        let mut nothing = SnapshotContent::default();
        nothing.end_at(LogOffset(0));
        assert_eq!((nothing.position(), &*nothing.readable()), (None, "no frame of it is whole"));
    }

    #[test]
    fn deltas_do_not_grow_without_end() {
        let (disk, _) = written();
        let (mut snapshot, _) = Snapshot::open(&disk, Path::new("/data")).expect("opens");
        let mut written = 0;
        while !snapshot.wants_base() {
            snapshot.write_delta(LogOffset(1000), &[7; 10_000]).expect("writes");
            written += 10_000;
        }
        assert!((DELTAS_SIZE_MIN..2 * DELTAS_SIZE_MIN).contains(&written), "{written}");
        snapshot.write_base(LogOffset(2000), &[8; 1_000_000]).expect("writes");
        assert_eq!(read(&disk).frames.len(), 1);
        snapshot.write_delta(LogOffset(3000), &[7; 1_900_000]).expect("writes");
        assert!(!snapshot.wants_base(), "less than twice of what it adds to");
    }
}
