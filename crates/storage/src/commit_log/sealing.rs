//! Gives the records of a batch their offsets, under the append lock.

use std::sync::Arc;

use base::{LogOffset, QueueOffset, Timestamp};
use format::record;
use format::routed::seal_routed;

use crate::batch::{BatchRecord, RoutedTo};
use crate::queue_index::QueueIndex;

/// What the records of one batch have in common.
pub(super) struct Sealing<'a> {
    pub(super) queues: &'a [Arc<QueueIndex>],
    pub(super) store_timestamp: Timestamp,
    pub(super) has_checksums: bool,
}

impl Sealing<'_> {
    /// Completes all `records`, which lie in `bytes`: from `start` on, and where `plan` says in a new segment. Gives where they end.
    #[inline]
    pub(super) fn all(
        &self,
        bytes: &mut [u8],
        records: &mut [BatchRecord],
        (mut fan_out, mut routed): (&[u32], &[RoutedTo]),
        start: u64,
        plan: &[(usize, u64)],
    ) -> u64 {
        let mut segment_starts = plan.iter().copied().peekable();
        let mut offset = start;
        for (number, record) in records.iter_mut().enumerate() {
            if let Some((_, segment)) = segment_starts.next_if(|(first, _)| *first == number) {
                offset = segment;
            }
            record.log_offset = LogOffset(offset);
            if let Some(queue) = self.queues.get(record.queue_slot as usize) {
                record.queue_offset = QueueOffset(queue.take_next());
            }
            let sealed = &mut bytes[record.start as usize..][..record.size as usize];
            record::seal(sealed, record.queue_offset, record.log_offset, self.store_timestamp);
            if record.fan_out_count > 0 {
                let count = record.fan_out_count as usize;
                if record.is_routed()
                    && let Some((lanes, rest)) = routed.split_at_checked(count)
                {
                    seal_routed(sealed, lanes.iter().map(|lane| self.next_of(lane.slot)));
                    routed = rest;
                } else if let Some((slots, rest)) = fan_out.split_at_checked(count) {
                    record::seal_fan_out(sealed, slots.iter().map(|&slot| self.next_of(slot)));
                    fan_out = rest;
                }
            }
            if self.has_checksums {
                record::seal_checksum(sealed);
            }
            offset += u64::from(record.size);
        }
        offset
    }

    /// The next offset of a queue of the batch.
    fn next_of(&self, slot: u32) -> QueueOffset {
        self.queues.get(slot as usize).map_or_else(QueueOffset::default, |queue| QueueOffset(queue.take_next()))
    }
}
