//! The checkpoint file: up to where log and queue entries are durable, so that recovery need not read the whole log.
//!
//! ```text
//! offset  size  field                                                    file: checkpoint, 4096 bytes
//!      0     8  store time of the newest record on the disk, ms          } RocketMQ's own
//!      8     8  store time of the newest record with its queue entry     }
//!     16     8  store time of the newest record in the key index         }
//!     24     8  master flushed offset                                    }
//!     32     8  confirmed log offset                                     }
//!   2048     8  magic                                                    } Sluice's own: Java brokers leave it alone
//!   2056     8  indexed: log, queue entries and keys below are durable   }
//!   2064     4  CRC-32 of the two before                                 }
//!   2068     4  0, or what a start has begun: 1 looks into lanes, all    }
//!              others make entries and keys again from all of the log   }
//!   2072     8  log offset below which the log is durable                }
//!   2080     4  CRC-32 of magic, indexed and this offset                 }
//! ```
//! All of Sluice's part lies in one sector. An older Sluice writes it only up to 2068, which voids the second checksum: then nothing is known
//! of the log above `indexed`. It ignores what lies behind, and reads the log from `indexed` on.
//!
//! A Java broker that runs on the directory leaves Sluice's part as it is: outdated, but still a valid lower bound.

use std::path::Path;

use base::{LogOffset, Timestamp};

use crate::disk::Disk;
use crate::error::StorageError;

const FILE_SIZE: usize = 4096;
const OWN_AT: usize = 2048;
const OWN_MAGIC: u64 = u64::from_be_bytes(*b"SLUICE01");
const OWN_SIZE: usize = 36;
/// The year 2248: a time beyond it was never written, and would have a start believe that all is on the disk.
const TIME_MAX_MS: u64 = 1 << 43;

/// What a checkpoint says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Store time of the newest record on the disk.
    pub log_time: Timestamp,
    /// Store time of the newest record whose queue entry is on the disk.
    pub queue_time: Timestamp,
    /// Store time of the newest record in the key index on the disk.
    pub key_time: Timestamp,
    /// Below this, log, queue entries and keys are durable. `None` if Sluice never wrote it.
    pub indexed: Option<LogOffset>,
    /// Below this, the log is durable; what lies above `indexed` may have neither entry nor key. Never below `indexed`.
    pub log_durable: Option<LogOffset>,
    /// What a start has begun, if this was not written anew since.
    pub begun: BegunWork,
}

/// What a start does to files of entries and keys before it writes another checkpoint; the next one has to know where a crash came between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BegunWork {
    /// Nothing.
    #[default]
    None,
    /// It writes over what something else has written over in lanes: what looks like a torn entry may be one of those.
    Lanes,
    /// It makes all entries and keys again: what there is of them may lack any.
    All,
}

impl BegunWork {
    const fn of(field: u32) -> Self {
        match field {
            0 => Self::None,
            1 => Self::Lanes,
            _ => Self::All,
        }
    }

    const fn field(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Lanes => 1,
            Self::All => u32::MAX,
        }
    }
}

impl Checkpoint {
    /// Reads the file in `directory`; the default if there is none. One that cannot be read is an error: without it the log is taken to
    /// end at the first damage, which is not for a start to decide.
    pub fn read(disk: &Disk, directory: &Path) -> Result<Self, StorageError> {
        let path = directory.join("checkpoint");
        let unusable = |why: &dyn std::fmt::Display| StorageError::Damaged {
            path: path.clone(),
            problem: format!(
                "{why}; restore it from a copy, or remove it: then the start reads the whole log, and after a crash takes it to end at the first damage"
            ),
        };
        let bytes = match disk.read_file(&path) {
            Err(error) if error.is_unreadable() => return Err(unusable(&error)),
            read => read?,
        };
        let Some(bytes) = bytes else { return Ok(Self::default()) };
        let number = |at: usize| {
            let field = bytes.get(at..at + 8).and_then(|field| field.try_into().ok());
            u64::from_be_bytes(field.unwrap_or_default())
        };
        let has_crc = |at: usize, crc: u32| bytes.get(at..at + 4) == Some(&crc.to_be_bytes());
        if [0, 8, 16].into_iter().any(|at| number(at) > TIME_MAX_MS) {
            return Err(unusable(&"its times are none"));
        }
        let (indexed, log_durable) = (LogOffset(number(OWN_AT + 8)), LogOffset(number(OWN_AT + 24)));
        let is_own = number(OWN_AT) == OWN_MAGIC && has_crc(OWN_AT + 16, checksum(&[indexed]));
        let knows_log = log_durable > indexed && has_crc(OWN_AT + 32, checksum(&[indexed, log_durable]));
        Ok(Self {
            log_time: Timestamp(number(0)),
            queue_time: Timestamp(number(8)),
            key_time: Timestamp(number(16)),
            indexed: is_own.then_some(indexed),
            log_durable: is_own.then_some(if knows_log { log_durable } else { indexed }),
            begun: BegunWork::of(if is_own { (number(OWN_AT + 20) >> 32) as u32 } else { 0 }),
        })
    }

    /// Whether Sluice ever wrote its part, valid or not.
    pub fn has_own_magic(disk: &Disk, directory: &Path) -> Result<bool, StorageError> {
        let bytes = disk.read_file(&directory.join("checkpoint"))?.unwrap_or_default();
        Ok(bytes.get(OWN_AT..OWN_AT + 8) == Some(&OWN_MAGIC.to_be_bytes()))
    }

    /// Whether a start has to write another: a crash before that would have nothing to compare with, or make again what was made.
    pub(crate) const fn is_to_be_replaced(&self) -> bool {
        self.indexed.is_none() || !matches!(self.begun, BegunWork::None)
    }

    /// What is left of it if the log ends at `end`, and its newest segment begins at `last_time`.
    pub(crate) fn lowered_to(self, end: LogOffset, last_time: Timestamp) -> Self {
        Self {
            log_time: self.log_time.min(last_time),
            queue_time: self.queue_time.min(last_time),
            key_time: self.key_time.min(last_time),
            indexed: self.indexed.map(|indexed| indexed.min(end)),
            log_durable: self.log_durable.map(|durable| durable.min(end)),
            begun: self.begun,
        }
    }

    /// Writes and syncs the checkpoint. What it claims must be durable already.
    pub(crate) fn write(&self, disk: &Disk, directory: &Path) -> Result<(), StorageError> {
        let path = directory.join("checkpoint");
        let file = disk.open_sized(&path, FILE_SIZE as u64, false)?;
        file.doubt_names(disk, 1);
        // That of a damaged record may be anything; with 0 a start reads more, never less.
        let known = |time: Timestamp| if time.0 > TIME_MAX_MS { 0 } else { time.0 };
        let times = [self.log_time, self.queue_time, self.key_time].map(|time| known(time).to_be_bytes()).concat();
        file.write_at(&times, 0)?;
        let indexed = self.indexed.unwrap_or_default();
        let log_durable = self.log_durable.unwrap_or_default().max(indexed);
        let mut own = Vec::with_capacity(OWN_SIZE);
        own.extend(OWN_MAGIC.to_be_bytes());
        own.extend(indexed.0.to_be_bytes());
        own.extend(checksum(&[indexed]).to_be_bytes());
        own.extend(self.begun.field().to_be_bytes());
        own.extend(log_durable.0.to_be_bytes());
        own.extend(checksum(&[indexed, log_durable]).to_be_bytes());
        file.write_at(&own, OWN_AT as u64)?;
        file.sync_data()
    }
}

fn checksum(offsets: &[LogOffset]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&OWN_MAGIC.to_be_bytes());
    offsets.iter().for_each(|offset| hasher.update(&offset.0.to_be_bytes()));
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    #[test]
    fn one_of_garbage_is_refused() {
        let (memory, directory) = (MemoryDisk::new(), Path::new("/data"));
        let disk = Disk::new(memory);
        let written = Checkpoint { log_time: Timestamp(1_700_000_000_000), ..Checkpoint::default() };
        written.write(&disk, directory).expect("writes");
        let path = directory.join("checkpoint");
        let bytes = disk.read_file(&path).expect("reads").expect("there");
        let inverted: Vec<_> = bytes.iter().map(|byte| !byte).collect();
        disk.replace_file(&path, &inverted).expect("writes");
        let refused = Checkpoint::read(&disk, directory).expect_err("garbage").to_string();
        assert!(refused.contains("its times are none; restore it from a copy, or remove it"), "{refused}");
    }

    #[test]
    fn a_time_of_garbage_is_written_as_unknown() {
        let (disk, directory) = (Disk::new(MemoryDisk::new()), Path::new("/data"));
        let garbage =
            Checkpoint { log_time: Timestamp(u64::MAX - 5), queue_time: Timestamp(7), ..Checkpoint::default() };
        garbage.write(&disk, directory).expect("writes");
        let read = Checkpoint::read(&disk, directory).expect("reads");
        assert_eq!((read.log_time, read.queue_time), (Timestamp(0), Timestamp(7)));
    }

    #[test]
    fn a_checkpoint_is_read_back_and_damage_voids_only_our_part() {
        let (disk, directory) = (Disk::new(MemoryDisk::new()), Path::new("/data"));
        assert_eq!(Checkpoint::read(&disk, directory).expect("reads"), Checkpoint::default());
        let written = Checkpoint {
            log_time: Timestamp(3),
            queue_time: Timestamp(2),
            key_time: Timestamp(1),
            indexed: Some(LogOffset(77)),
            log_durable: Some(LogOffset(99)),
            begun: BegunWork::None,
        };
        written.write(&disk, directory).expect("writes");
        assert_eq!(Checkpoint::read(&disk, directory).expect("reads"), written);
        for begun in [BegunWork::Lanes, BegunWork::All] {
            let marked = Checkpoint { begun, ..written };
            marked.write(&disk, directory).expect("writes");
            assert_eq!(Checkpoint::read(&disk, directory).expect("reads"), marked);
        }
        written.write(&disk, directory).expect("writes");
        let file = disk.open(&directory.join("checkpoint")).expect("opens");
        file.write_at(&[9], OWN_AT as u64 + 25).expect("writes");
        let log_unknown = Checkpoint { log_durable: written.indexed, ..written };
        assert_eq!(Checkpoint::read(&disk, directory).expect("reads"), log_unknown);
        file.write_at(&[9], OWN_AT as u64 + 9).expect("writes");
        let none = Checkpoint { indexed: None, log_durable: None, ..written };
        assert_eq!(Checkpoint::read(&disk, directory).expect("reads"), none);
    }

    /// As Sluice wrote it before it knew the second offset: magic, offset, checksum, and whatever was behind.
    fn write_as_before(disk: &Disk, directory: &Path, indexed: u64) {
        let mut own = [OWN_MAGIC, indexed].map(u64::to_be_bytes).concat();
        own.extend(crc32fast::hash(&own).to_be_bytes());
        let file = disk.open_sized(&directory.join("checkpoint"), FILE_SIZE as u64, false).expect("opens");
        file.write_at(&own, OWN_AT as u64).expect("writes");
    }

    #[test]
    fn a_checkpoint_of_before_says_the_same_of_log_and_indexes_whatever_was_there() {
        let (disk, directory) = (Disk::new(MemoryDisk::new()), Path::new("/data"));
        let offsets = || {
            let read = Checkpoint::read(&disk, directory).expect("reads");
            (read.indexed.map(|offset| offset.0), read.log_durable.map(|offset| offset.0))
        };
        write_as_before(&disk, directory, 50);
        assert_eq!(offsets(), (Some(50), Some(50)));
        let (indexed, log_durable) = (Some(LogOffset(60)), Some(LogOffset(90)));
        let newer = Checkpoint { indexed, log_durable, ..Checkpoint::default() };
        newer.write(&disk, directory).expect("writes");
        // That Sluice reads the first offset alone, behind its magic and with its checksum.
        let bytes = disk.read_file(&directory.join("checkpoint")).expect("reads").expect("a file");
        let (said, crc) = bytes[OWN_AT..OWN_AT + 20].split_at(16);
        assert_eq!(said, [OWN_MAGIC, 60].map(u64::to_be_bytes).concat());
        assert_eq!(crc, crc32fast::hash(said).to_be_bytes());
        write_as_before(&disk, directory, 70);
        assert_eq!(offsets(), (Some(70), Some(70)), "what it left behind is of no use");
    }
}
