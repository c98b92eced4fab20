//! Detects damaged records, and reports each once per process.
//!
//! A record's CRC covers only its body. Other damage is found by comparing the record with its log offset and its queue entry, or
//! with `Options::record_checksums` by a checksum over the whole record. **Always holds**: a record found damaged is not served.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use base::metric::Metrics;
use base::{LogOffset, QueueNumber, QueueOffset};
use format::hash::tag_code;
use format::properties::{Search, names};
use format::queue_entry::Entry;
use format::record::{self, Parts, QueueRef, Record};
use format::routed::{Reference, Routed, is_routed};
use parking_lot::Mutex;

use crate::queue_index::QueueIndex;

/// Most damaged records that are reported one by one.
const TOLD_MAX: usize = 10_000;

/// References of a routed message that are looked through for the one that an entry stands for.
const REFERENCES_SEARCHED_MAX: usize = 16;

static TAGS: LazyLock<Search> = LazyLock::new(|| Search::new(names::TAGS));

/// What was reported so far: damaged records, and folders with lost entries.
#[derive(Debug)]
pub(crate) struct Damage {
    told: Mutex<HashSet<LogOffset>>,
    told_folders: Mutex<HashSet<PathBuf>>,
    metrics: Arc<Metrics>,
}

impl Damage {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { told: Mutex::default(), told_folders: Mutex::default(), metrics }
    }

    /// Logs that entries in a folder are lost, unless it did before.
    pub(crate) fn tell_entries(&self, folder: &Path, problem: &str) {
        let mut told = self.told_folders.lock();
        if told.len() < TOLD_MAX && told.insert(folder.to_owned()) {
            drop(told);
            tracing::error!(folder = %folder.display(), problem, "an entry of a queue is lost");
        }
    }

    /// Counts and logs the damaged record at `position` of `file`, unless it was reported before.
    pub(crate) fn tell(&self, log_offset: LogOffset, file: &Path, position: u64, problem: &str) {
        let mut told = self.told.lock();
        if told.len() < TOLD_MAX && told.insert(log_offset) {
            drop(told);
            self.metrics.records_damaged.add(1);
            tracing::error!(
                %log_offset, file = %file.display(), position, problem,
                "a record of the log is damaged and will not be served"
            );
        }
    }
}

/// Why a record cannot be the one at `log_offset`; `None` if it can.
pub(crate) fn problem_of(
    bytes: &[u8],
    parts: &Parts<'_>,
    log_offset: LogOffset,
    has_checksum: bool,
) -> Option<&'static str> {
    if parts.log_offset() != log_offset {
        Some("it says that it is elsewhere")
    } else if !parts.body_is_intact() {
        Some("its body does not have its checksum")
    } else if has_checksum && !record::checksum_holds(bytes) {
        Some("it does not have its checksum")
    } else {
        None
    }
}

/// Why `bytes` cannot be the record of the entry at `offset` of `queue`; `None` if they can.
pub(crate) fn problem_of_record(
    bytes: &[u8],
    queue: &QueueIndex,
    (offset, entry): &(QueueOffset, Entry),
    has_checksum: bool,
) -> Option<&'static str> {
    let Ok(parts) = Parts::split(bytes) else { return Some("it is no record") };
    if parts.size != entry.size as usize {
        return Some("it has another size than its queue says");
    }
    let is_listed = || match queue.lane() {
        Some(lane) => is_routed_to(&parts, lane, *offset, entry),
        None => is_of_queue(bytes, &parts, queue, *offset) && has_tag_of(&parts, entry),
    };
    problem_of(bytes, &parts, entry.log_offset, has_checksum)
        .or_else(|| (!is_listed()).then_some("its topic, queue, queue offset or tag is not what its queue says"))
}

/// Whether a record has an entry at `offset` of `queue`.
fn is_of_queue(bytes: &[u8], parts: &Parts<'_>, queue: &QueueIndex, offset: QueueOffset) -> bool {
    let (topic, number) = (queue.topic().as_str(), queue.queue());
    let is_own = parts.queue_offset() == offset && parts.queue() == number && parts.topic == topic.as_bytes();
    is_own || {
        let wanted = QueueRef { topic, queue: number, offset };
        Record::decode(bytes).is_ok_and(|record| record.queue_refs().any(|queue_ref| queue_ref == wanted))
    }
}

/// Whether a record is a routed message that may have this entry at `offset` of a lane. Where many lanes list it this is not looked for.
fn is_routed_to(parts: &Parts<'_>, (queue, lane): (QueueNumber, u8), offset: QueueOffset, entry: &Entry) -> bool {
    if !is_routed(parts.topic, parts.system_flag()) {
        return false;
    }
    Routed::parse(parts.body).is_ok_and(|routed| {
        let around = routed.around(parts.size);
        let is_own = |reference: Reference| {
            let at = reference.destination;
            (at.queue, at.lane, reference.offset) == (queue, lane, offset)
                && reference.code(around).at(parts.store_timestamp()) == entry.tag_code
        };
        routed.reference_count() > REFERENCES_SEARCHED_MAX || routed.references().any(is_own)
    })
}

/// Whether the entry's tag code is that of the record. Not checked for values above 32 bits, which are due times.
fn has_tag_of(parts: &Parts<'_>, entry: &Entry) -> bool {
    i32::try_from(entry.tag_code).is_err() || TAGS.find(parts.properties).map_or(0, tag_code) == entry.tag_code
}
