//! Finds the queues in a data directory, and how far the entries in their files can be trusted.
//!
//! Entries of records below the checkpoint were synced with it. What follows in a file may be there, or in part: a power cut
//! keeps some sectors and loses others, and an entry across two of them may be half of one that was, and point anywhere.
//! So the last entry below the checkpoint counts if it lies within one sector, or if the log has its record.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LogOffset, QueueId, QueueOffset, TopicName};
use format::queue_entry::{ENTRY_SIZE, Entry};
use format::record::{QueueRef, Record};

use crate::disk::Job;
use crate::entry_file::EntryFile;
use crate::error::StorageError;
use crate::open_files::OpenFiles;
use crate::queue_index::QueueIndex;
use crate::recover::{self, Queues};
use crate::segment::{Segment, file_name};
use crate::store::Options;

/// The least that any disk writes whole.
const SECTOR_SIZE: u64 = 512;

/// Topics that are worth a job of their own.
const TOPICS_AT_ONCE: usize = 16;

/// Ends of queues by their names.
pub(crate) type Ends = HashMap<(TopicName, QueueId), QueueOffset>;

/// What was found of the queues.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) queues: Queues,
    /// One past the last place of each queue at which anything was ever written; none for queues that may have entries
    /// of records before the log. A queue that comes to end here or later is in order.
    pub(crate) written_ends: Ends,
    /// Files that cannot be used, moved aside: the whole log must be read again.
    pub(crate) unusable: Vec<PathBuf>,
}

/// Opens every queue found in the data directory, with the entries that are sure to be there: those of records below `sure`.
/// Where a crash may have left half an entry, it is looked up in `segments`.
pub(crate) fn open_queues(
    options: &Options,
    files: &Arc<OpenFiles>,
    sure: LogOffset,
    log_first: LogOffset,
    segments: &[Arc<Segment>],
) -> Result<Found, StorageError> {
    let look = Look { options, sure, log_first, segments };
    let mut found = Found::default();
    for (place, seen) in look.at_all()? {
        let seen = match seen {
            Some(seen) => seen,
            None => look.after_tidying(&place, &mut found.unusable)?,
        };
        let key = (place.topic.clone(), place.queue);
        if let Some(written_end) = seen.written_end {
            found.written_ends.insert(key.clone(), QueueOffset(written_end));
        }
        let bounds = (QueueOffset(seen.bounds.0), QueueOffset(seen.bounds.1));
        let Place { topic, queue, directory } = place;
        let entries = options.queue_file_entries;
        let index = QueueIndex::new(files.clone(), topic, queue, directory, entries, bounds);
        found.queues.insert(key, Arc::new(index));
    }
    Ok(found)
}

/// A queue's files.
struct Place {
    topic: TopicName,
    queue: QueueId,
    directory: PathBuf,
}

/// How queues are looked at.
struct Look<'a> {
    options: &'a Options,
    sure: LogOffset,
    log_first: LogOffset,
    segments: &'a [Arc<Segment>],
}

/// What a look at the files of one queue says.
#[derive(Default)]
struct Seen {
    /// The first entry, and one past the last whose record lies below `sure`.
    bounds: (u64, u64),
    /// See `Found::written_ends`.
    written_end: Option<u64>,
}

impl Look<'_> {
    /// Looks at every queue that has a folder, in the order of their names. Each look waits for the disk some times: as many are
    /// made at once as it does well.
    fn at_all(&self) -> Result<Vec<(Place, Option<Seen>)>, StorageError> {
        let topics = self.options.disk.list(&self.options.directory.join("consumequeue"))?;
        let look = |topics: &[String]| topics.iter().map(|topic| self.at_topic(topic)).collect::<Result<Vec<_>, _>>();
        let shares: Vec<_> = topics.chunks(TOPICS_AT_ONCE).collect();
        let mut seen: Vec<_> = shares.iter().map(|_| Ok(Vec::new())).collect();
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for (topics, seen) in shares.into_iter().zip(&mut seen) {
            jobs.push(Box::new(move || *seen = look(topics)));
        }
        self.options.disk.run_all(jobs);
        let seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(seen.into_iter().flatten().flatten().collect())
    }

    fn at_topic(&self, topic: &str) -> Result<Vec<(Place, Option<Seen>)>, StorageError> {
        let (directory, topic) = (self.options.directory.join("consumequeue").join(topic), TopicName::trusted(topic));
        let mut seen = Vec::new();
        for name in self.options.disk.list(&directory)? {
            let Ok(number) = name.parse::<u32>() else { continue };
            let place = Place { topic: topic.clone(), queue: QueueId(number), directory: directory.join(&name) };
            let bounds = self.at(&place)?;
            seen.push((place, bounds));
        }
        Ok(seen)
    }

    /// Bounds of one queue; nothing if one of its files is not as it should be, or cannot be read.
    fn at(&self, place: &Place) -> Result<Option<Seen>, StorageError> {
        match self.bounds_at(place) {
            Err(error) if error.is_unreadable() => Ok(None),
            outcome => outcome,
        }
    }

    fn bounds_at(&self, place: &Place) -> Result<Option<Seen>, StorageError> {
        let (disk, directory) = (&self.options.disk, &place.directory);
        let mut starts = Vec::new();
        for name in disk.list(directory)? {
            let Ok(start) = name.parse::<u64>() else { continue };
            if !self.is_whole(start, disk.size(&directory.join(&name))?) {
                return Ok(None);
            }
            starts.push(start);
        }
        let (Some(oldest), Some(newest)) = (starts.first(), starts.last()) else {
            return Ok(Some(Seen { written_end: Some(0), ..Seen::default() }));
        };
        let mut written_end = None;
        for start in starts.iter().rev() {
            let file = self.open(&directory.join(file_name(*start)), *start)?;
            if start == newest {
                written_end = file.written_count().map(|count| file.first() + count);
            }
            let count = self.count(&file, place)?;
            if count == 0 {
                continue;
            }
            let mut seen = Seen { bounds: (oldest / ENTRY_SIZE as u64, file.first() + count), written_end: None };
            if start == oldest {
                // Entries before the log are passed over right here; of several files, only the oldest would tell.
                // As a rule there are none, which the first entry tells.
                if file.entry(0)?.is_none_or(|first| first.log_offset < self.log_first) {
                    seen.bounds.0 += file.end_before(self.log_first, count)?;
                }
                seen.written_end = written_end;
            }
            return Ok(Some(seen));
        }
        // Retention leaves the last entry it passes: files without one are of a queue that has not begun.
        Ok(Some(Seen::default()))
    }

    /// Whether a file that begins with byte `start` of its queue is as it was made.
    const fn is_whole(&self, start: u64, size: u64) -> bool {
        let file_size = self.options.queue_file_entries * ENTRY_SIZE as u64;
        size == file_size && start.is_multiple_of(file_size) && start <= i64::MAX as u64
    }

    fn open(&self, path: &Path, start: u64) -> Result<EntryFile, StorageError> {
        EntryFile::new(self.options.disk.open(path)?, start / ENTRY_SIZE as u64, self.options.queue_file_entries)
    }

    /// Whether what a look at a file asks for can be read.
    fn is_readable(&self, path: &Path, start: u64, place: &Place) -> Result<bool, StorageError> {
        let asked = self.open(path, start).and_then(|file| {
            let count = self.count(&file, place)?;
            file.entry(0)?;
            file.end_before(self.log_first, count)
        });
        match asked {
            Err(error) if error.is_unreadable() => Ok(false),
            outcome => outcome.map(|_| true),
        }
    }

    /// Puts the files of one queue in order, and looks again.
    fn after_tidying(&self, place: &Place, unusable: &mut Vec<PathBuf>) -> Result<Seen, StorageError> {
        let (disk, directory) = (&self.options.disk, &place.directory);
        for name in disk.list(directory)? {
            let Ok(start) = name.parse::<u64>() else { continue };
            let path = directory.join(&name);
            let size = disk.size(&path)?;
            if size == 0 {
                // Made, and cut short before its size was on the disk: nothing in it was ever promised.
                disk.remove_file(&path)?;
            } else if !self.is_whole(start, size) || !self.is_readable(&path, start, place)? {
                // Of another size, cut short, or not to be read back: its entries are made again from the log.
                unusable.push(disk.set_aside(&self.options.directory, &path)?);
            }
        }
        Ok(self.at(place)?.unwrap_or_default())
    }

    /// Entries of one file that are sure.
    fn count(&self, file: &EntryFile, place: &Place) -> Result<u64, StorageError> {
        let mut count = file.end_before(self.sure, self.options.queue_file_entries)?;
        while let Some(last) = count.checked_sub(1) {
            let (begins, ends) = (last * ENTRY_SIZE as u64, count * ENTRY_SIZE as u64 - 1);
            let is_whole = begins / SECTOR_SIZE == ends / SECTOR_SIZE;
            let queue_ref =
                QueueRef { topic: place.topic.as_str(), queue: place.queue, offset: QueueOffset(file.first() + last) };
            if is_whole || self.has_record(file.entry(last)?, queue_ref)? {
                break;
            }
            count = file.end_before(self.sure, last)?;
        }
        Ok(count)
    }

    /// Whether the log has the record of `entry`, as far as it can be asked.
    fn has_record(&self, entry: Option<Entry>, queue_ref: QueueRef<'_>) -> Result<bool, StorageError> {
        let Some(entry) = entry else { return Ok(false) };
        if entry.is_gap() || !self.segments.iter().any(|segment| segment.contains(entry.log_offset.0)) {
            return Ok(true);
        }
        let bytes = recover::bytes_at(self.segments, entry.log_offset)?;
        let record = bytes.as_deref().and_then(|bytes| Record::decode(bytes).ok());
        Ok(record.is_some_and(|record| {
            (record.size, record.log_offset) == (entry.size as usize, entry.log_offset)
                && record.queue_refs().any(|at| at == queue_ref)
        }))
    }
}
