//! Checks whether bytes of the log are the record they should be, and reports each that is not, once.
//!
//! The CRC of a record covers its body only. Other damage shows by comparison with the record's log offset and with the entry that
//! points at it. With `Options::record_checksums` a record has a checksum over all of it. **Always holds**: what is
//! found damaged is not served. Nothing here survives a restart: damage is told again by each process that meets it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use base::metric::Metrics;
use base::{LogOffset, QueueOffset};
use format::hash::tag_code;
use format::properties::{Search, names};
use format::queue_entry::Entry;
use format::record::{self, Parts, QueueRef, Record};
use parking_lot::Mutex;

use crate::queue_index::QueueIndex;

/// Damaged records told of at most; a disk with more has been reported.
const TOLD_MAX: usize = 10_000;

static TAGS: LazyLock<Search> = LazyLock::new(|| Search::new(names::TAGS));

/// What was told already.
#[derive(Debug)]
pub(crate) struct Damage {
    told: Mutex<HashSet<LogOffset>>,
    metrics: Arc<Metrics>,
}

impl Damage {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { told: Mutex::default(), metrics }
    }

    /// Counts and logs the record at `log_offset`, which is at `position` of `file`, if that was not done before.
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

/// What keeps a whole record from being the one that belongs at `log_offset`, if anything does.
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

/// What keeps `bytes` from being the record that the entry at `offset` of `queue` means, if anything does.
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
    let is_listed = || is_of_queue(bytes, &parts, queue, *offset) && has_tag_of(&parts, entry);
    problem_of(bytes, &parts, entry.log_offset, has_checksum)
        .or_else(|| (!is_listed()).then_some("its topic, queue, queue offset or tag is not what its queue says"))
}

/// Whether a record belongs at `offset` of `queue`.
fn is_of_queue(bytes: &[u8], parts: &Parts<'_>, queue: &QueueIndex, offset: QueueOffset) -> bool {
    let (topic, number) = (queue.topic().as_str(), queue.queue());
    let is_own = parts.queue_offset() == offset && parts.queue() == number && parts.topic == topic.as_bytes();
    // Nearly always its own.
    is_own || {
        let wanted = QueueRef { topic, queue: number, offset };
        Record::decode(bytes).is_ok_and(|record| record.queue_refs().any(|queue_ref| queue_ref == wanted))
    }
}

/// Whether the entry has the code of the record's tag, if it has one at all: due times and other uses of the field are no
/// 32-bit numbers.
fn has_tag_of(parts: &Parts<'_>, entry: &Entry) -> bool {
    i32::try_from(entry.tag_code).is_err() || TAGS.find(parts.properties).map_or(0, tag_code) == entry.tag_code
}
