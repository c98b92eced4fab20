//! Reading a queue from an offset on: entries, filter, records.

use std::sync::Arc;

use base::metric::Metrics;
use base::{QueueId, QueueOffset, Refusal};
use bytes::Bytes;
use format::queue_entry::Entry;
use format::record;
use storage::{ReadMode, StorageError, Store};

use crate::RawOffset;
use crate::catalog::Topic;
use crate::error::internal;
use crate::filter::Filter;
use crate::options::Options;
use crate::queue::{Queue, size_of};
use crate::running::Running;

/// Entries looked at for one fetch when a filter lets few through.
const SCAN_COUNT_MIN: usize = 800;

/// What a consumer asks for.
#[derive(Clone, Copy, Debug)]
pub struct Fetch<'a> {
    /// Topic.
    pub topic: &'a Topic,
    /// Queue of it.
    pub queue: QueueId,
    /// First offset wanted.
    pub offset: RawOffset,
    /// Messages wanted at most.
    pub count_max: usize,
    /// Bytes wanted at most; one message is always given.
    pub size_max: usize,
    /// What is let through.
    pub filter: &'a Filter,
}

/// How a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchStatus {
    /// Messages were found.
    Found,
    /// The offset is at the end: none yet. Waiting makes sense.
    AtEnd,
    /// There are messages, but none the filter lets through. Go on at `next`.
    NoMatch,
    /// The offset is outside the queue. Go on at `next`.
    OffsetOutside,
    /// The first message has `size` bytes, for which there is no room: it was not read.
    TooLong,
}

/// What a fetch found.
#[derive(Debug)]
pub struct Fetched {
    /// How it ended.
    pub status: FetchStatus,
    /// Where to go on.
    pub next: QueueOffset,
    /// First offset of the queue.
    pub first: QueueOffset,
    /// One past its last.
    pub end: QueueOffset,
    /// Records, whole, in order, one or more to a piece.
    pub pieces: Vec<Bytes>,
    /// How many records they are.
    pub count: usize,
    /// Bytes of the records.
    pub size: usize,
    /// Whether a message was left since it would have been too much.
    is_full: bool,
}

/// Reads queues.
#[derive(Debug)]
pub struct Fetcher {
    store: Arc<Store>,
    options: Arc<Options>,
    running: Arc<Running>,
    metrics: Arc<Metrics>,
}

impl Fetcher {
    pub(crate) fn new(
        store: &Arc<Store>,
        (options, running): (&Arc<Options>, &Arc<Running>),
        metrics: &Arc<Metrics>,
    ) -> Self {
        let (options, running) = (options.clone(), running.clone());
        Self { store: store.clone(), options, running, metrics: metrics.clone() }
    }

    /// Reads what a consumer asks for, at most `room` bytes: what it takes is counted before it is read. Waits for the disk.
    pub fn fetch(&self, fetch: &Fetch<'_>, room: usize) -> Result<Fetched, Refusal> {
        let fetched = self.fetch_as(fetch, room, ReadMode::MayWait)?;
        fetched.ok_or_else(|| Refusal::Busy("the messages could not be read at once; try again".to_owned()))
    }

    /// The same. `None`: the bytes are not in memory; ask again where waiting is allowed.
    pub fn fetch_cached(&self, fetch: &Fetch<'_>) -> Result<Option<Fetched>, Refusal> {
        self.fetch_as(fetch, usize::MAX, ReadMode::IfCached)
    }

    /// Reads what an operator wants to see, or the broker for itself: whatever consumers may, and uncounted. Waits for the disk.
    pub fn read(&self, fetch: &Fetch<'_>) -> Result<Fetched, Refusal> {
        self.read_queue(fetch, usize::MAX, ReadMode::MayWait).map_err(internal)
    }

    fn fetch_as(&self, fetch: &Fetch<'_>, room: usize, mode: ReadMode) -> Result<Option<Fetched>, Refusal> {
        self.check_fetch(fetch)?;
        match self.read_queue(fetch, room, mode) {
            Ok(fetched) => {
                self.count_fetch(&fetched);
                Ok(Some(fetched))
            }
            Err(StorageError::WouldBlock) => {
                self.metrics.fetch_cold.add(1);
                Ok(None)
            }
            Err(error) => Err(Refusal::Internal(error.to_string())),
        }
    }

    fn check_fetch(&self, fetch: &Fetch<'_>) -> Result<(), Refusal> {
        if !self.running.permission().read {
            return Err(Refusal::NotPermitted(format!(
                "the broker [{}] pulling message is forbidden (broker.permission)",
                self.options.broker_name
            )));
        }
        if !fetch.topic.permission().read {
            return Err(Refusal::NotPermitted(format!("the topic[{}] pulling message is forbidden", fetch.topic.name)));
        }
        Ok(())
    }

    fn read_queue(&self, fetch: &Fetch<'_>, room: usize, mode: ReadMode) -> Result<Fetched, StorageError> {
        let Ok(queue) = fetch.topic.queue(fetch.queue) else {
            return Ok(Fetched::empty(FetchStatus::OffsetOutside, QueueOffset(0), QueueOffset(0), QueueOffset(0)));
        };
        let (first, end) = (queue.first(), queue.end());
        if end == QueueOffset(0) && fetch.offset <= 0 {
            return Ok(Fetched::empty(FetchStatus::AtEnd, first, first, end));
        }
        let outside = |next| Ok(Fetched::empty(FetchStatus::OffsetOutside, next, first, end));
        let Ok(offset) = u64::try_from(fetch.offset).map(QueueOffset) else { return outside(first) };
        if offset < first {
            return outside(first);
        }
        if offset > end {
            return outside(end);
        }
        if offset == end {
            return Ok(Fetched::empty(FetchStatus::AtEnd, offset, first, end));
        }
        let mut fetched = Fetched::empty(FetchStatus::NoMatch, offset, first, end);
        let scan_until = offset.after(fetch.count_max.max(SCAN_COUNT_MIN) as u64).min(end);
        let mut entries = Vec::new();
        while fetched.next < scan_until && fetched.wants_more(fetch) {
            let wanted = match fetch.filter {
                Filter::All => fetch.count_max - fetched.count,
                Filter::Tags(_) => (scan_until.0 - fetched.next.0) as usize,
            };
            entries.clear();
            match queue.index.read(fetched.next, wanted, mode, &mut entries) {
                // What lies before a place that cannot be read is served; who comes to it is told.
                Err(error) if fetched.next > offset && !matches!(error, StorageError::WouldBlock) => break,
                outcome => outcome?,
            }
            if entries.is_empty() {
                break;
            }
            self.take_records((fetch, room), queue, &entries, mode, &mut fetched)?;
            if fetched.status == FetchStatus::TooLong {
                return Ok(fetched);
            }
        }
        if fetched.count > 0 {
            fetched.status = FetchStatus::Found;
        }
        Ok(fetched)
    }

    /// Reads the records of those entries the filter lets through, until the fetch has enough or `room` is used.
    fn take_records(
        &self,
        (fetch, room): (&Fetch<'_>, usize),
        queue: &Queue,
        entries: &[Entry],
        mode: ReadMode,
        fetched: &mut Fetched,
    ) -> Result<(), StorageError> {
        let mut chosen = Vec::with_capacity(fetch.count_max.min(entries.len()));
        let mut size = fetched.size;
        let mut passed = 0;
        for entry in entries {
            let matches = entry.size > 0 && fetch.filter.matches(entry.tag_code);
            if matches {
                let has_some = !chosen.is_empty() || fetched.count > 0;
                let is_full = chosen.len() + fetched.count >= fetch.count_max
                    || (has_some && size + entry.size as usize > fetch.size_max.min(room));
                if is_full {
                    break;
                }
                if size_of(entry) > room {
                    (fetched.status, fetched.size) = (FetchStatus::TooLong, size_of(entry));
                    return Ok(());
                }
                size += entry.size as usize;
                chosen.push((fetched.next.after(passed as u64), *entry));
            }
            passed += 1;
        }
        // What is damaged is passed over; the store has told of it.
        let records = self.store.read(&queue.index, &chosen, mode)?;
        fetched.count += records.count();
        let before = fetched.pieces.len();
        records.into_pieces(&mut fetched.pieces);
        fetched.size += fetched.pieces.iter().skip(before).map(Bytes::len).sum::<usize>();
        fetched.is_full = passed < entries.len();
        fetched.next = fetched.next.after(passed as u64);
        Ok(())
    }

    fn count_fetch(&self, fetched: &Fetched) {
        match fetched.status {
            FetchStatus::Found => {
                self.metrics.fetch_hits.add(1);
                self.metrics.messages_out.add(fetched.count as u64);
                self.metrics.message_bytes_out.add(fetched.size as u64);
            }
            FetchStatus::TooLong => {}
            _ => self.metrics.fetch_misses.add(1),
        }
    }
}

impl Fetched {
    fn empty(status: FetchStatus, next: QueueOffset, first: QueueOffset, end: QueueOffset) -> Self {
        Self { status, next, first, end, pieces: Vec::new(), count: 0, size: 0, is_full: false }
    }

    /// Each record by itself.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(|piece| record::split(piece))
    }

    fn wants_more(&self, fetch: &Fetch<'_>) -> bool {
        !self.is_full && self.count < fetch.count_max && (self.count == 0 || self.size < fetch.size_max)
    }
}
