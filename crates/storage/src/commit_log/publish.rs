//! Makes written batches visible in their queues.

use crate::batch::{AppendInfo, BatchRecord};

/// Makes a written batch visible: its entries go to their queues, whose watchers are woken once each.
pub(super) fn publish_entries(batch: &AppendInfo) {
    if !batch.fan_out.is_empty() {
        return publish_fan_out(batch);
    }
    for (slot, queue) in batch.queues.iter().enumerate() {
        let of_queue = batch.records.iter().filter(|record| record.queue_slot as usize == slot);
        queue.publish(of_queue.map(BatchRecord::entry));
    }
}

/// The same where records have entries in many queues each.
fn publish_fan_out(batch: &AppendInfo) {
    let mut fan_out = &batch.fan_out[..];
    let mut entries = Vec::with_capacity(batch.records.len() + fan_out.len());
    for record in &batch.records {
        let (slots, rest) = fan_out.split_at_checked(record.fan_out_count as usize).unwrap_or_default();
        fan_out = rest;
        entries.push((record.queue_slot, record.entry()));
        entries.extend(slots.iter().map(|&slot| (slot, record.entry())));
    }
    // Those of one queue keep their order.
    entries.sort_by_key(|(slot, _)| *slot);
    for of_queue in entries.chunk_by(|(one, _), (other, _)| one == other) {
        if let Some(queue) = of_queue.first().and_then(|(slot, _)| batch.queues.get(*slot as usize)) {
            queue.publish(of_queue.iter().map(|(_, entry)| *entry));
        }
    }
}
