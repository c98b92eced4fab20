//! Finds the queues in a data directory, and how far the entries in their files can be trusted.
//!
//! Entries of records below the checkpoint were synced with it. What follows in a file may be there, or in part: a power cut
//! keeps some sectors and loses others, and an entry across two of them may be half of one that was, and point anywhere.
//! So the last entry below the checkpoint counts if it lies within one sector, or if the log has its record.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::record::Record;
use base::{LogOffset, QueueId, QueueOffset, TopicName};

use crate::disk::DiskFile;
use crate::error::StorageError;
use crate::queue_index::{ENTRY_SIZE, Entry, QueueIndex, partition_point};
use crate::recover::{self, Queues};
use crate::segment::{Segment, file_name};
use crate::store::Options;

/// The least that any disk writes whole.
const SECTOR_SIZE: u64 = 512;

/// Opens every queue found in the data directory, with the entries that are sure to be there: those of records below `sure`.
/// Where a crash may have left half an entry, it is looked up in `segments`. Files that cannot be used are moved aside and
/// named in `unusable`: the whole log must be read again.
pub(crate) fn open_queues(
    options: &Options,
    sure: LogOffset,
    segments: &[Arc<Segment>],
    unusable: &mut Vec<PathBuf>,
) -> Result<Queues, StorageError> {
    let (disk, entries_per_file) = (&options.disk, options.queue_file_entries);
    let directory = &options.directory.join("consumequeue");
    let mut queues = Queues::new();
    for topic in disk.list(directory)? {
        for name in disk.list(&directory.join(&topic))? {
            let Ok(number) = name.parse::<u32>() else { continue };
            let path = directory.join(&topic).join(&name);
            let (topic, queue) = (TopicName::trusted(&topic), QueueId(number));
            let finder = Finder { options, directory: &path, queue, sure, segments };
            let (first, next) = finder.bounds(unusable)?;
            let index = QueueIndex::new(disk.clone(), topic.clone(), queue, path, entries_per_file, first, next);
            queues.insert((topic, queue), Arc::new(index));
        }
    }
    Ok(queues)
}

/// Looks for the bounds of one queue.
struct Finder<'a> {
    options: &'a Options,
    directory: &'a Path,
    queue: QueueId,
    sure: LogOffset,
    segments: &'a [Arc<Segment>],
}

impl Finder<'_> {
    /// First and one past the last entry whose record lies below `sure`.
    fn bounds(&self, unusable: &mut Vec<PathBuf>) -> Result<(QueueOffset, QueueOffset), StorageError> {
        let starts = self.usable_files(unusable)?;
        let Some(&oldest) = starts.first() else { return Ok((QueueOffset(0), QueueOffset(0))) };
        let first = QueueOffset(oldest / ENTRY_SIZE as u64);
        for &start in starts.iter().rev() {
            let file = self.options.disk.open(&self.directory.join(file_name(start)))?;
            let count = self.count(&file, start / ENTRY_SIZE as u64)?;
            if count > 0 {
                return Ok((first, QueueOffset(start / ENTRY_SIZE as u64 + count)));
            }
        }
        Ok((first, first))
    }

    /// Where the files begin that have their whole size.
    fn usable_files(&self, unusable: &mut Vec<PathBuf>) -> Result<Vec<u64>, StorageError> {
        let disk = &self.options.disk;
        let file_size = self.options.queue_file_entries * ENTRY_SIZE as u64;
        let mut starts = Vec::new();
        for name in disk.list(self.directory)? {
            let Ok(start) = name.parse::<u64>() else { continue };
            let path = self.directory.join(&name);
            let size = disk.open(&path)?.size()?;
            if size == 0 {
                // Made, and cut short before its size was on the disk: nothing in it was ever promised.
                disk.remove_file(&path)?;
            } else if size == file_size && start % file_size == 0 && start <= i64::MAX as u64 {
                starts.push(start);
            } else {
                // Of another size or cut short: its entries are made again from the log.
                unusable.push(disk.set_aside(&self.options.directory, &path)?);
            }
        }
        Ok(starts)
    }

    /// Entries of one file, which begins with entry `first`, that are sure.
    fn count(&self, file: &DiskFile, first: u64) -> Result<u64, StorageError> {
        let mut limit = self.options.queue_file_entries;
        loop {
            let mut failure = None;
            let count = partition_point(0, limit, |number| match read_entry(file, number) {
                Ok(entry) => entry.is_none_or(|entry| entry.log_offset >= self.sure),
                Err(error) => {
                    failure.get_or_insert(error);
                    true
                }
            });
            if let Some(error) = failure {
                return Err(error);
            }
            let Some(last) = count.checked_sub(1) else { return Ok(0) };
            let (begins, ends) = (last * ENTRY_SIZE as u64, count * ENTRY_SIZE as u64 - 1);
            let is_whole = begins / SECTOR_SIZE == ends / SECTOR_SIZE;
            if is_whole || self.has_record(read_entry(file, last)?, QueueOffset(first + last))? {
                return Ok(count);
            }
            limit = last;
        }
    }

    /// Whether the log has the record of `entry`, as far as it can be asked.
    fn has_record(&self, entry: Option<Entry>, offset: QueueOffset) -> Result<bool, StorageError> {
        let Some(entry) = entry else { return Ok(false) };
        if entry.is_gap() || !self.segments.iter().any(|segment| segment.contains(entry.log_offset.0)) {
            return Ok(true);
        }
        let bytes = recover::bytes_at(self.segments, entry.log_offset)?;
        let record = bytes.as_deref().and_then(|bytes| Record::decode(bytes).ok());
        Ok(record.is_some_and(|record| {
            record.size == entry.size as usize
                && (record.log_offset, record.queue, record.queue_offset) == (entry.log_offset, self.queue, offset)
        }))
    }
}

fn read_entry(file: &DiskFile, number: u64) -> Result<Option<Entry>, StorageError> {
    let mut bytes = [0; ENTRY_SIZE];
    file.read_at(&mut bytes, number * ENTRY_SIZE as u64)?;
    Ok(Entry::decode(&bytes))
}
