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
//!   2056     8  log offset below which queue entries and log are durable }
//!   2064     4  CRC-32 of the two before                                 }
//! ```
//! A Java broker that runs on the directory leaves Sluice's part as it is: outdated, but still a valid lower bound.

use std::path::Path;

use base::{LogOffset, Timestamp};

use crate::disk::Disk;
use crate::error::StorageError;

const FILE_SIZE: usize = 4096;
const OWN_AT: usize = 2048;
const OWN_MAGIC: u64 = u64::from_be_bytes(*b"SLUICE01");
const OWN_SIZE: usize = 20;

/// What a checkpoint says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Store time of the newest record on the disk.
    pub log_time: Timestamp,
    /// Store time of the newest record whose queue entry is on the disk.
    pub queue_time: Timestamp,
    /// Store time of the newest record in the key index on the disk.
    pub key_time: Timestamp,
    /// Below this, log and queue entries are durable. `None` if Sluice never wrote it.
    pub durable: Option<LogOffset>,
}

impl Checkpoint {
    /// Reads the file in `directory`; the default if there is none.
    pub fn read(disk: &Disk, directory: &Path) -> Result<Self, StorageError> {
        let Some(bytes) = disk.read_file(&directory.join("checkpoint"))? else { return Ok(Self::default()) };
        let number = |at: usize| {
            let field = bytes.get(at..at + 8).and_then(|field| field.try_into().ok());
            u64::from_be_bytes(field.unwrap_or_default())
        };
        let crc = bytes.get(OWN_AT + 16..OWN_AT + OWN_SIZE).and_then(|field| field.try_into().ok());
        let crc = u32::from_be_bytes(crc.unwrap_or_default());
        let checked = bytes.get(OWN_AT..OWN_AT + 16).unwrap_or_default();
        let is_own = number(OWN_AT) == OWN_MAGIC && crc32fast::hash(checked) == crc;
        Ok(Self {
            log_time: Timestamp(number(0)),
            queue_time: Timestamp(number(8)),
            key_time: Timestamp(number(16)),
            durable: is_own.then(|| LogOffset(number(OWN_AT + 8))),
        })
    }

    /// Whether Sluice ever wrote its part, valid or not.
    pub fn has_own_magic(disk: &Disk, directory: &Path) -> Result<bool, StorageError> {
        let bytes = disk.read_file(&directory.join("checkpoint"))?.unwrap_or_default();
        Ok(bytes.get(OWN_AT..OWN_AT + 8) == Some(&OWN_MAGIC.to_be_bytes()))
    }

    /// Writes and syncs the checkpoint. What it claims must be durable already.
    pub(crate) fn write(&self, disk: &Disk, directory: &Path) -> Result<(), StorageError> {
        let path = directory.join("checkpoint");
        let file = disk.open_sized(&path, FILE_SIZE as u64, false)?;
        file.doubt_names(disk, 1);
        let times = [self.log_time.0, self.queue_time.0, self.key_time.0].map(u64::to_be_bytes).concat();
        file.write_at(&times, 0)?;
        let mut own = [OWN_MAGIC, self.durable.unwrap_or_default().0].map(u64::to_be_bytes).concat();
        own.extend(crc32fast::hash(&own).to_be_bytes());
        file.write_at(&own, OWN_AT as u64)?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    #[test]
    fn a_checkpoint_is_read_back_and_damage_voids_only_our_part() {
        let (disk, directory) = (Disk::new(MemoryDisk::new()), Path::new("/data"));
        assert_eq!(Checkpoint::read(&disk, directory).expect("reads"), Checkpoint::default());
        let written = Checkpoint {
            log_time: Timestamp(3),
            queue_time: Timestamp(2),
            key_time: Timestamp(1),
            durable: Some(LogOffset(77)),
        };
        written.write(&disk, directory).expect("writes");
        assert_eq!(Checkpoint::read(&disk, directory).expect("reads"), written);
        let file = disk.open(&directory.join("checkpoint")).expect("opens");
        file.write_at(&[9], OWN_AT as u64 + 9).expect("writes");
        assert_eq!(Checkpoint::read(&disk, directory).expect("reads"), Checkpoint { durable: None, ..written });
    }
}
