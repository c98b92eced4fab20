//! Makes written batches visible in their queues.

use crate::batch::{Appended, BatchRecord};

/// Makes a written batch visible: its entries go to their queues, whose watchers are woken once each.
pub(super) fn publish_entries(batch: &Appended) {
    if !batch.further.is_empty() {
        return publish_further_entries(batch);
    }
    for (slot, queue) in batch.queues.iter().enumerate() {
        let of_queue = batch.records.iter().filter(|record| record.queue_slot as usize == slot);
        queue.publish(of_queue.map(BatchRecord::entry));
    }
}

/// The same where records are listed in many queues each.
fn publish_further_entries(batch: &Appended) {
    let mut further = &batch.further[..];
    let mut listed = Vec::with_capacity(batch.records.len() + further.len());
    for record in &batch.records {
        let (slots, rest) = further.split_at_checked(record.further_count as usize).unwrap_or_default();
        further = rest;
        listed.push((record.queue_slot, record.entry()));
        listed.extend(slots.iter().map(|&slot| (slot, record.entry())));
    }
    // Those of one queue keep their order.
    listed.sort_by_key(|(slot, _)| *slot);
    for of_queue in listed.chunk_by(|(one, _), (other, _)| one == other) {
        if let Some(queue) = of_queue.first().and_then(|(slot, _)| batch.queues.get(*slot as usize)) {
            queue.publish(of_queue.iter().map(|(_, entry)| *entry));
        }
    }
}
