//! Reading records: from the recent end of the log in memory, from extents of it, or from the segment files.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use base::limits::RECORD_SIZE_MAX;
use base::{LogOffset, QueueOffset};
use bytes::Bytes;
use format::queue_entry::Entry;
use format::record::{self, Parts, RECORD_SIZE_MIN};

use super::CommitLog;
use crate::damage::{problem_of, problem_of_record};
use crate::error::StorageError;
use crate::extents::{EXTENT_SIZE, Extents};
use crate::queue_index::QueueIndex;
use crate::records::{Collection, Records};
use crate::segment::Segment;
use crate::store::ReadMode;

/// If records are further apart than this on average, single records are read instead of whole extents.
const SPARSE_GAP: u64 = EXTENT_SIZE / 4;

impl CommitLog {
    /// The records that entries of `queue` point at; `None` for an entry that points at no such record.
    pub(crate) fn read(
        &self,
        queue: &QueueIndex,
        entries: &[NumberedEntry],
        mode: ReadMode,
    ) -> Result<Records, StorageError> {
        let mut found = Collection::new(&self.answers, entries.iter().map(|(_, entry)| entry.size as usize));
        self.read_recent(entries, &mut found);
        let missing = found.missing();
        if !missing.is_empty() {
            let (first, written) = (self.first().0, self.in_segments.load(Ordering::Acquire));
            ColdReader { log: self, queue, mode, first, written, entries }.read(&missing, &mut found)?;
        }
        Ok(found.finish())
    }

    /// Collects the records that are in memory.
    fn read_recent(&self, entries: &[NumberedEntry], found: &mut Collection<'_>) {
        let mut recent = self.recent.reader();
        for (number, (_, entry)) in entries.iter().enumerate() {
            let (start, size) = (entry.log_offset.0, entry.size as usize);
            if let Some((batch, at)) = recent.find(start, size)
                && is_record_of(&batch[at..], entry)
            {
                found.put_recent(number, batch, at, size);
            }
        }
    }

    /// The record that begins at `offset`, waiting for the disk if need be; `None` if none does or it is damaged.
    pub(crate) fn record_at(&self, offset: LogOffset) -> Result<Option<Bytes>, StorageError> {
        let end = self.watermarks.committed();
        if offset < self.first() || offset.after(RECORD_SIZE_MIN as u64) > end {
            return Ok(None);
        }
        let Some(head) = self.read_or_tell(offset, record::LOG_OFFSET_WITHIN)? else { return Ok(None) };
        let size = match record::kind_at(&head) {
            Ok(record::Kind::Record(size)) if offset.after(size as u64) <= end => size,
            _ => {
                // A record with one flipped bit still has one of the two; bytes that begin no record have neither.
                if record::has_record_magic(&head) || record::log_offset_of(&head) == Some(offset) {
                    self.tell_damage(offset, "its size or magic cannot be");
                }
                return Ok(None);
            }
        };
        let Some(bytes) = self.read_or_tell(offset, size)? else { return Ok(None) };
        let problem = match Parts::split(&bytes) {
            Ok(parts) if std::str::from_utf8(parts.topic).is_err() => Some("its topic is no text"),
            Ok(parts) => problem_of(&bytes, &parts, offset, self.record_checksums),
            Err(_) => Some("its lengths contradict each other"),
        };
        if let Some(problem) = problem {
            self.tell_damage(offset, problem);
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    /// Reports a damaged record, once. One that retention removed while it was read is not damaged.
    pub(crate) fn tell_damage(&self, offset: LogOffset, problem: &str) {
        if offset < self.first() {
            return;
        }
        match self.segment_at(offset.0) {
            Ok(segment) => self.damage.tell(offset, segment.file().path(), segment.position(offset), problem),
            Err(_) => self.damage.tell(offset, &self.directory, offset.0, problem),
        }
    }

    pub(crate) fn tell_lost_entries(&self, folder: &Path, problem: &str) {
        self.damage.tell_entries(folder, problem);
    }

    /// Reads an extent that somebody will come to. Returns its bytes; 0 if none is wanted.
    pub(crate) fn read_ahead(&self) -> u64 {
        let Some(number) = self.extents.next_wanted() else { return 0 };
        // Whoever comes to what cannot be read tells of it; retention may have removed it.
        let _ = self.extents.read_ahead(number, |buffer| self.read_extent(number, buffer));
        EXTENT_SIZE
    }

    /// Has whoever calls `read_ahead` be woken when there is something to read.
    pub(crate) fn set_reader(&self, waker: Waker) {
        self.extents.set_reader(waker);
    }

    /// An extent that is whole in the files.
    pub(super) fn extent(&self, number: u64, written: u64) -> Result<Bytes, StorageError> {
        self.extents.get_or_read(number, written, |buffer| self.read_extent(number, buffer))
    }

    /// Bytes of the log as they are in the files, out of extents as far as these are whole.
    pub(super) fn read_in_extents(&self, start: u64, size: usize) -> Result<Bytes, StorageError> {
        let written = self.in_segments.load(Ordering::Acquire);
        let mut bytes = Vec::new();
        while bytes.len() < size {
            let (offset, missing) = (start + bytes.len() as u64, size - bytes.len());
            let number = Extents::number(offset);
            let extent = Extents::is_written(number, written).then(|| self.extent(number, written)).transpose();
            let extent = match extent {
                // These bytes of it may still be readable.
                Err(error) if error.is_unreadable() => None,
                outcome => outcome?,
            };
            let Some(extent) = extent else {
                self.read_bytes_into(&mut bytes, offset, missing, ReadMode::MayWait)?;
                break;
            };
            let mut piece = extent.slice((offset % EXTENT_SIZE) as usize..);
            piece.truncate(missing);
            if piece.len() == size {
                return Ok(piece);
            }
            bytes.reserve_exact(missing);
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.into())
    }

    fn read_extent(&self, number: u64, mut buffer: &mut [u8]) -> Result<(), StorageError> {
        let mut offset = number * EXTENT_SIZE;
        let reading = self.reading_of(offset + EXTENT_SIZE);
        while !buffer.is_empty() {
            // An extent may begin before the first segment, when that is not aligned; retention may remove one at any time.
            let (segment, end) = match self.segment_at(offset) {
                Ok(segment) => (Some(segment.clone()), segment.end()),
                Err(error) => (None, Some(self.first().0).filter(|first| offset < *first).ok_or(error)?),
            };
            let count = buffer.len().min((end - offset) as usize);
            let (piece, rest) = buffer.split_at_mut(count);
            match segment {
                Some(segment) => segment.file().read_at_as(piece, segment.position(LogOffset(offset)), reading)?,
                None => piece.fill(0),
            }
            (buffer, offset) = (rest, offset + count as u64);
        }
        Ok(())
    }

    /// Bytes of the log as they are in the files, across segments too.
    pub(crate) fn read_bytes(&self, start: u64, size: usize, mode: ReadMode) -> Result<Bytes, StorageError> {
        let mut buffer = Vec::with_capacity(size);
        self.read_bytes_into(&mut buffer, start, size, mode)?;
        Ok(buffer.into())
    }

    fn read_bytes_into(
        &self,
        buffer: &mut Vec<u8>,
        start: u64,
        size: usize,
        mode: ReadMode,
    ) -> Result<(), StorageError> {
        let (begin, end) = (buffer.len(), buffer.len() + size);
        while buffer.len() < end {
            let offset = start + (buffer.len() - begin) as u64;
            let segment = self.segment_at(offset)?;
            let count = (end - buffer.len()).min((segment.end() - offset) as usize);
            let position = segment.position(LogOffset(offset));
            segment.file().read_into(buffer, count, position, mode == ReadMode::MayWait)?;
        }
        Ok(())
    }
}

/// An entry with its queue offset.
pub(crate) type NumberedEntry = (QueueOffset, Entry);

/// Reads the records of one fetch that are no longer in memory.
struct ColdReader<'a> {
    log: &'a CommitLog,
    queue: &'a QueueIndex,
    mode: ReadMode,
    first: u64,
    written: u64,
    entries: &'a [NumberedEntry],
}

impl ColdReader<'_> {
    /// Reads the records of the entries with those numbers, as far as they are within the log.
    fn read(&self, missing: &[usize], found: &mut Collection<'_>) -> Result<(), StorageError> {
        let between = self.entries.windows(2).map(|pair| match pair {
            [(_, one), (_, next)] => next.log_offset.0.saturating_sub(one.log_offset.0).saturating_sub(one.size.into()),
            _ => 0,
        });
        let between = between.fold(0, u64::saturating_add);
        let is_dense = self.entries.len() > 1 && between / (self.entries.len() as u64) <= SPARSE_GAP;
        let wanted = || {
            let entries = missing.iter().filter_map(|number| Some((*number, self.entries.get(*number)?)));
            entries.filter(|(_, (_, entry))| self.is_within(entry))
        };
        if is_dense {
            self.read_dense(wanted(), found)?;
        } else {
            self.read_sparse(wanted(), found)?;
        }
        // Checked after all reads, so that the processor can fetch their bytes from memory in parallel.
        for (number, entry) in wanted() {
            self.check(number, entry, found);
        }
        Ok(())
    }

    /// For entries close together: most of each extent is wanted, by this reader or by others of the same topic.
    fn read_dense<'e>(
        &self,
        wanted: impl Iterator<Item = (usize, &'e NumberedEntry)>,
        found: &mut Collection<'_>,
    ) -> Result<(), StorageError> {
        let mut last = None;
        let mut unreadable = None;
        for (number, (_, entry)) in wanted {
            let (start, size) = (entry.log_offset.0, entry.size as usize);
            let extents = Extents::number(start)..=Extents::number(start + size as u64 - 1);
            let is_unreadable = unreadable.is_some_and(|unreadable| extents.contains(&unreadable));
            if Extents::is_written(*extents.end(), self.written) && !is_unreadable {
                match self.read_in(&extents, (number, entry), &mut last, found) {
                    // Single records of the extent may still be readable.
                    Err(error) if error.is_unreadable() => unreadable = Some(*extents.start()),
                    outcome => {
                        outcome?;
                        continue;
                    }
                }
            }
            self.read_record(number, entry, found, |bytes| self.log.read_bytes_into(bytes, start, size, self.mode))?;
        }
        Ok(())
    }

    /// Reads a record by itself. One that the disk cannot read is damaged: it is reported and left out, and its neighbours are served. But a
    /// disk that reads nothing else either has lost nothing: whoever wants the record hears of it and comes again. A record that retention
    /// removed meanwhile is left out too.
    fn read_record(
        &self,
        number: usize,
        entry: &Entry,
        found: &mut Collection<'_>,
        read: impl Fn(&mut Vec<u8>) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let read = || found.read(number, entry.size as usize, &read);
        match self.log.unless_unreadable((entry.log_offset, entry.size as usize), read) {
            Err(_) if entry.log_offset < self.log.first() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Takes a record out of the extents that it lies in; `last` is the one looked at last.
    fn read_in(
        &self,
        extents: &RangeInclusive<u64>,
        (number, entry): (usize, &Entry),
        last: &mut Option<(u64, Bytes)>,
        found: &mut Collection<'_>,
    ) -> Result<(), StorageError> {
        let size = entry.size as usize;
        let mut from = (entry.log_offset.0 % EXTENT_SIZE) as usize;
        if extents.start() == extents.end() {
            found.put(number, self.extent_or(last, *extents.start())?, from, size);
            return Ok(());
        }
        found.read(number, size, |bytes| {
            let end = bytes.len() + size;
            for number in extents.clone() {
                let piece = self.extent_or(last, number)?.get(from..).unwrap_or_default();
                bytes.extend_from_slice(piece.get(..end - bytes.len()).unwrap_or(piece));
                from = 0;
            }
            Ok(())
        })
    }

    /// An extent, which may be the one looked at last.
    fn extent_or<'l>(&self, last: &'l mut Option<(u64, Bytes)>, number: u64) -> Result<&'l Bytes, StorageError> {
        if last.as_ref().is_none_or(|(known, _)| *known != number) {
            *last = None;
        }
        match last {
            Some((_, extent)) => Ok(extent),
            None => Ok(&last.insert((number, self.extent(number)?)).1),
        }
    }

    /// A network thread gets what is there, and leaves the reading to others.
    fn extent(&self, number: u64) -> Result<Bytes, StorageError> {
        let Self { log, mode, written, .. } = *self;
        match mode {
            ReadMode::IfCached => log.extents.get(number, written).ok_or(StorageError::WouldBlock),
            ReadMode::MayWait => log.extent(number, written),
        }
    }

    /// For entries far apart: only their records are read.
    fn read_sparse<'e>(
        &self,
        wanted: impl Iterator<Item = (usize, &'e NumberedEntry)>,
        found: &mut Collection<'_>,
    ) -> Result<(), StorageError> {
        let mut segment = None;
        for (number, (_, entry)) in wanted {
            let known = segment.take().filter(|known: &Arc<Segment>| known.contains(entry.log_offset.0));
            let known = match known {
                Some(known) => known,
                None => match self.log.segment_at(entry.log_offset.0) {
                    // Removed by retention meanwhile.
                    Err(_) if entry.log_offset < self.log.first() => continue,
                    found => found?,
                },
            };
            let (size, end) = (entry.size as usize, entry.log_offset.after(u64::from(entry.size)));
            if end.0 <= known.end() {
                let position = known.position(entry.log_offset);
                let may_wait = self.mode == ReadMode::MayWait;
                self.read_record(number, entry, found, |bytes| {
                    known.file().read_into(bytes, size, position, may_wait)
                })?;
            }
            segment = Some(known);
        }
        Ok(())
    }

    /// Drops a record read from the disk if it is not the one its entry means.
    fn check(&self, number: usize, entry: &NumberedEntry, found: &mut Collection<'_>) {
        let Some(bytes) = found.get(number) else { return };
        if let Some(problem) = problem_of_record(bytes, self.queue, entry, self.log.record_checksums) {
            self.log.tell_damage(entry.1.log_offset, problem);
            found.take_back(number);
        }
    }

    /// Whether the entry points into the log. For records that were lost recovery leaves entries of smaller size, and has told of them.
    fn is_within(&self, entry: &Entry) -> bool {
        let (start, size) = (entry.log_offset.0, entry.size as usize);
        let end = start.saturating_add(size as u64);
        (RECORD_SIZE_MIN..=RECORD_SIZE_MAX).contains(&size) && start >= self.first && end <= self.written
    }
}

/// Whether `bytes` begin as the record that `entry` means: enough of a check for what never left memory.
fn is_record_of(bytes: &[u8], entry: &Entry) -> bool {
    record::kind_at(bytes) == Ok(record::Kind::Record(entry.size as usize))
        && record::log_offset_of(bytes) == Some(entry.log_offset)
}
