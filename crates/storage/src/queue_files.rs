//! Finds the queues in a data directory, and how far the entries in their files can be trusted.
//!
//! Entries of records below the checkpoint were synced with it. Later ones may be in the file in part: a power cut keeps some
//! sectors and loses others, so an entry across two sectors may be half old and half new, and seem to point below the checkpoint.
//! So the last entry below the checkpoint is trusted only if it lies within one sector, or if the log has its record. Those of lanes show by
//! their checksums whether they are whole: where something else stands behind the last that is, the log is read again for that lane.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{LogOffset, QueueId, QueueOffset, TopicName};
use format::entry_form::EntryForm;
use format::queue_entry::{Entry, GAP};
use format::record::Record;

use crate::disk::{Job, asked_again};
use crate::entry_file::{EntryFile, Overwritten, SECTOR_SIZE};
use crate::error::StorageError;
use crate::open_files::{OpenFiles, folder_of_all, topic_of_folder};
use crate::presence::{Presence, gone};
use crate::queue_index::QueueIndex;
use crate::queue_table::QueueTable;
use crate::recover::{self, Rebuild};
use crate::segment::{Segment, file_name};
use crate::store::Options;

/// Topics looked at by one job.
const TOPICS_AT_ONCE: usize = 16;

/// Ends of queues by their names.
pub(crate) type Ends = HashMap<(TopicName, QueueId), QueueOffset>;

/// Lanes of which something was written over where they end: the log says what they have there.
pub(crate) type Doubts = HashMap<(TopicName, QueueId), Doubt>;

/// What is known of such a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    /// Behind the record of the last entry that is sure; `None` without an entry.
    pub(crate) from: Option<LogOffset>,
    /// That entry stands for a lost message, which nobody knows the end of: no record need begin at `from`.
    pub(crate) is_behind_lost: bool,
    /// Where that entry ends.
    pub(crate) whole_end: QueueOffset,
    /// Where it ends at the latest, as far as its files show.
    pub(crate) end: QueueOffset,
}

/// What was found of the queues.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) queues: QueueTable,
    /// Per queue, one past the last entry ever written to its files. Recovery need not clear anything behind a queue that ends here
    /// or later. Absent for queues that may have entries of records before the log.
    pub(crate) written_ends: Ends,
    pub(crate) doubts: Doubts,
    /// Queues whose entries were lost (see `Look::mark_lost`), and where they go on if the log has none of them either.
    pub(crate) emptied: Vec<((TopicName, QueueId), QueueOffset)>,
}

/// What of a kind of queues can be trusted.
#[derive(Clone, Copy)]
pub(crate) struct Trust<'a> {
    /// Entries of records below this.
    pub(crate) below: LogOffset,
    /// Where one is looked up that a crash may have left half written.
    pub(crate) segments: &'a [Arc<Segment>],
    /// No crash can have: there was none, or the machine runs on since.
    pub(crate) none_is_torn: bool,
    /// A start has begun to write entries again, and was killed.
    pub(crate) is_begun: bool,
}

/// Opens every queue found in the data directory, with the entries that can be trusted: of queues of topics, and of lanes of message queues.
/// Files that cannot be used are set aside by `rebuild`.
pub(crate) fn open_queues(
    options: &Options,
    files: &Arc<OpenFiles>,
    log_first: LogOffset,
    trust: [Trust<'_>; 2],
    rebuild: &mut Rebuild<'_>,
) -> Result<Found, StorageError> {
    let mut found = Found::default();
    for (trust, of_message_queues) in trust.into_iter().zip([false, true]) {
        let file_entries = files.entries_per_file(of_message_queues);
        let look = Look { options, trust, log_first, of_message_queues, file_entries };
        look.open_all(files, rebuild, &mut found)?;
    }
    Ok(found)
}

impl Look<'_> {
    /// Opens every queue of its kind.
    fn open_all(
        &self,
        files: &Arc<OpenFiles>,
        rebuild: &mut Rebuild<'_>,
        found: &mut Found,
    ) -> Result<(), StorageError> {
        for (folder, seen) in self.at_all()? {
            let seen = match seen {
                Some(seen) => seen,
                None => self.after_tidying(&folder, rebuild)?,
            };
            let key = || (folder.topic.clone(), folder.queue);
            if let Some(written_end) = seen.written_end {
                found.written_ends.insert(key(), QueueOffset(written_end));
            }
            if let Some(doubt) = seen.doubt {
                found.doubts.insert(key(), doubt);
            }
            if seen.goes_on > 0 {
                found.emptied.push((key(), QueueOffset(seen.goes_on)));
            }
            let bounds = (QueueOffset(seen.bounds.0), QueueOffset(seen.bounds.1));
            found.queues.insert(Arc::new(QueueIndex::new(files.clone(), folder.topic, folder.queue, bounds)));
        }
        Ok(())
    }
}

/// The folder with a queue's files.
struct QueueFolder {
    topic: TopicName,
    queue: QueueId,
    directory: PathBuf,
}

/// What is needed to look at queues.
struct Look<'a> {
    options: &'a Options,
    trust: Trust<'a>,
    log_first: LogOffset,
    of_message_queues: bool,
    /// Entries of a file.
    file_entries: u64,
}

/// What a look at the files of one queue says.
#[derive(Default)]
struct Seen {
    /// The first entry, and one past the last whose record lies below `sure`.
    bounds: (u64, u64),
    /// See `Found::written_ends`.
    written_end: Option<u64>,
    /// See `Found::doubts`.
    doubt: Option<Doubt>,
    /// Where a queue goes on whose entries were lost; else 0.
    goes_on: u64,
}

impl Look<'_> {
    /// Looks at every queue that has a folder, in the order of their names. Since each look waits for the disk several times, they
    /// run as parallel jobs.
    fn at_all(&self) -> Result<Vec<(QueueFolder, Option<Seen>)>, StorageError> {
        let topics = self.options.disk.list(&self.directory())?;
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

    /// That of all queues of this kind.
    fn directory(&self) -> PathBuf {
        self.options.directory.join(folder_of_all(self.of_message_queues))
    }

    /// Whether a topic has queues, or a message queue lanes, of that number.
    fn can_be(&self, number: u32) -> bool {
        !self.of_message_queues || u8::try_from(number).is_ok()
    }

    fn at_topic(&self, folder: &str) -> Result<Vec<(QueueFolder, Option<Seen>)>, StorageError> {
        let Some(topic) = topic_of_folder(folder, self.of_message_queues) else { return Ok(Vec::new()) };
        let directory = self.directory().join(folder);
        let mut seen = Vec::new();
        for name in self.options.disk.list(&directory)? {
            let Some(number) = name.parse().ok().filter(|number| self.can_be(*number)) else { continue };
            let folder = QueueFolder { topic: topic.clone(), queue: QueueId(number), directory: directory.join(&name) };
            let bounds = self.at(&folder)?;
            seen.push((folder, bounds));
        }
        Ok(seen)
    }

    /// What there is of one queue; `None` if one of its files has a wrong size or cannot be read.
    fn at(&self, folder: &QueueFolder) -> Result<Option<Seen>, StorageError> {
        match self.bounds_at(folder) {
            Err(error) if error.is_unreadable() => Ok(None),
            outcome => outcome,
        }
    }

    fn bounds_at(&self, folder: &QueueFolder) -> Result<Option<Seen>, StorageError> {
        let (disk, directory) = (&self.options.disk, &folder.directory);
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
        let (mut written_end, mut doubted_end) = (None, None);
        for (number, start) in starts.iter().enumerate().rev() {
            let file = self.open(*start, folder)?;
            if start == newest {
                written_end = file.written_count().map(|count| file.first() + count);
            }
            let mut count = self.count(&file, folder)?;
            if let Some(Overwritten { whole, end }) = self.overwritten(&file, count)? {
                doubted_end = doubted_end.or(Some(file.first() + end));
                count = whole;
            }
            // A mark beside the file that was to be set aside: the start that wrote it did not come so far.
            let is_mark = || Ok::<_, StorageError>(count == 1 && file.entry(0)?.is_some_and(|entry| entry.is_gap()));
            if self.of_message_queues && start - oldest != number as u64 * self.file_size() {
                // One before it is not there: a power cut has kept this one alone, or somebody has removed that.
                doubted_end = doubted_end.or((count > 0).then_some(file.first() + count));
                continue;
            }
            if count == 0 || start == newest && start != oldest && is_mark()? {
                continue;
            }
            let mut seen = Seen { bounds: (oldest / self.entry_size(), file.first() + count), ..Seen::default() };
            if let Some(end) = doubted_end {
                let last = file.entry(count - 1)?;
                let size = |last: &Entry| if last.has_record() { u64::from(last.size) } else { 0 };
                seen.doubt = Some(Doubt {
                    from: last.as_ref().map(|last| last.log_offset.after(size(last))),
                    is_behind_lost: last.is_some_and(|last| !last.has_record()),
                    whole_end: QueueOffset(file.first() + count),
                    end: QueueOffset(end),
                });
            }
            if start == oldest {
                // Skips entries of records before the log, which only the oldest file can have. Mostly its first entry shows that it
                // has none.
                if !file.keeps_first(self.log_first)? {
                    seen.bounds.0 += file.end_of_gone(self.log_first, count)?;
                }
                seen.written_end = written_end.filter(|_| doubted_end.is_none());
                if seen.bounds.0 == seen.bounds.1 && file.entry(count - 1)?.is_some_and(|last| last.is_gap()) {
                    seen = Seen { goes_on: seen.bounds.1, doubt: seen.doubt, ..Seen::default() };
                }
            }
            return Ok(Some(seen));
        }
        // Retention keeps a queue's last entry, so files without any belong to a queue that never had one.
        let doubt = doubted_end.map(|end| Doubt {
            from: None,
            is_behind_lost: false,
            whole_end: QueueOffset(0),
            end: QueueOffset(end),
        });
        Ok(Some(Seen { doubt, ..Seen::default() }))
    }

    /// Whether a file that begins with byte `start` of its queue has the right name and size.
    const fn is_whole(&self, start: u64, size: u64) -> bool {
        let file_size = self.file_size();
        size == file_size && start.is_multiple_of(file_size) && start <= i64::MAX as u64
    }

    const fn file_size(&self) -> u64 {
        self.file_entries * self.entry_size()
    }

    /// Whether the entry with a number in its file lies within one sector.
    const fn is_in_sector(&self, number: u64) -> bool {
        let (begins, ends) = (number * self.entry_size(), (number + 1) * self.entry_size() - 1);
        begins / SECTOR_SIZE as u64 == ends / SECTOR_SIZE as u64
    }

    const fn entry_size(&self) -> u64 {
        EntryForm::size_of_all(self.of_message_queues)
    }

    fn open(&self, start: u64, folder: &QueueFolder) -> Result<EntryFile, StorageError> {
        let (file, form) = (folder.directory.join(file_name(start)), EntryForm::of(&folder.topic, folder.queue));
        EntryFile::new(self.options.disk.open(&file)?, form, start / self.entry_size(), self.file_entries)
    }

    /// Whether all reads that a look at a file needs succeed.
    fn is_readable(&self, start: u64, folder: &QueueFolder) -> Result<bool, StorageError> {
        let asked = asked_again(StorageError::is_of_the_disk, || {
            let file = self.open(start, folder)?;
            let count = self.count(&file, folder)?;
            self.overwritten(&file, count)?;
            file.entry(0)?;
            file.end_of_gone(self.log_first, count)
        });
        match asked {
            Err(error) if error.is_unreadable() => Ok(false),
            outcome => outcome.map(|_| true),
        }
    }

    /// Removes or sets aside unusable files of one queue, and looks again.
    fn after_tidying(&self, folder: &QueueFolder, rebuild: &mut Rebuild<'_>) -> Result<Seen, StorageError> {
        let (disk, directory) = (&self.options.disk, &folder.directory);
        let names = disk.list(directory)?;
        let starts: Vec<_> = names.iter().filter_map(|name| Some((name, name.parse::<u64>().ok()?))).collect();
        for &(name, start) in &starts {
            let path = directory.join(name);
            let size = disk.size(&path)?;
            if size == 0 {
                // A crash came before its size was on the disk: nothing in it was promised.
                disk.remove_file(&path)?;
            } else if !self.is_whole(start, size) || !self.is_readable(start, folder)? {
                // Of another size, or unreadable: its entries are rebuilt from the log.
                if starts.len() == 1 {
                    self.mark_lost(folder, start)?;
                }
                rebuild.set_aside(&path)?;
            }
        }
        self.at(folder)?.ok_or_else(|| StorageError::Damaged {
            path: directory.clone(),
            problem:
                "its files could be read one by one, and together they cannot. Start again once the disk can be read"
                    .to_owned(),
        })
    }

    /// The only file of a queue, which begins with byte `start`, is about to be set aside. Should the log have none of its records any
    /// more, no offset that was given out may be given out again: the queue goes on behind all that the file may have had. A gap in the
    /// file after it says so, as a Java broker too writes gaps before a queue's first entry.
    fn mark_lost(&self, folder: &QueueFolder, start: u64) -> Result<(), StorageError> {
        let (directory, file_size) = (&folder.directory, self.file_size());
        if !start.is_multiple_of(file_size) || start > i64::MAX as u64 - file_size {
            return Ok(());
        }
        let file = self.options.disk.open_sized(&directory.join(file_name(start + file_size)), file_size, false)?;
        let form = EntryForm::of(&folder.topic, folder.queue);
        file.write_at(&form.encode((start + file_size) / self.entry_size(), &[GAP]), 0)?;
        file.sync_data()?;
        self.options.disk.sync_directory(directory)
    }

    /// How many entries of one file can be trusted.
    fn count(&self, file: &EntryFile, folder: &QueueFolder) -> Result<u64, StorageError> {
        let mut count = file.end_before(self.trust.below, self.file_entries)?;
        if self.of_message_queues {
            // They have checksums.
            return Ok(count);
        }
        while let Some(last) = count.checked_sub(1) {
            let is_whole = self.is_in_sector(last);
            let offset = QueueOffset(file.first() + last);
            if is_whole || self.has_record(file.entry(last)?, folder, offset)? {
                break;
            }
            count = file.end_before(self.trust.below, last)?;
        }
        Ok(count)
    }

    /// What of a lane's file was written over behind its last entry that is whole, if anything.
    fn overwritten(&self, file: &EntryFile, count: u64) -> Result<Option<Overwritten>, StorageError> {
        if !self.of_message_queues || count == self.file_entries {
            return Ok(None);
        }
        // A start that was killed may have written the first of those that were written over, and may have kept offsets there or behind it.
        if !self.trust.is_begun && file.entry(count)?.is_some_and(|entry| !entry.is_gap()) {
            return Ok(None);
        }
        file.overwritten_from(count, self.trust.below, !self.trust.none_is_torn)
    }

    /// Whether the log has the record of `entry`, listed at `offset`; `true` also where the segments cannot tell, and where the disk cannot read it.
    fn has_record(
        &self,
        entry: Option<Entry>,
        folder: &QueueFolder,
        offset: QueueOffset,
    ) -> Result<bool, StorageError> {
        let Some(entry) = entry else { return Ok(false) };
        let Trust { segments, below, .. } = self.trust;
        let Some(segment) = segments.iter().find(|segment| segment.contains(entry.log_offset.0)) else {
            return Ok(true);
        };
        if entry.is_gap() {
            return Ok(true);
        }
        let presence = Presence { segments, durable: below, written: below };
        let read = || recover::bytes_at(segments, entry.log_offset);
        let read = presence.read_again((entry.log_offset, entry.size as usize), read);
        let Some(bytes) = read.map_err(|error| gone(segment, error))? else { return Ok(true) };
        let record = bytes.as_deref().and_then(|bytes| Record::decode(bytes).ok());
        Ok(record.is_some_and(|record| {
            let indexed = self.options.index_rules.apply_to(&record);
            (record.size, record.log_offset) == (entry.size as usize, entry.log_offset)
                && indexed.listings(&record).any(|listing| listing.is_at(folder.topic.as_str(), folder.queue, offset))
        }))
    }
}
