//! Makes written batches visible in their queues.

use format::queue_entry::{Entry, GAP};

use crate::batch::{AppendInfo, BatchRecord, RoutedTo};

/// Queues for each of which the records are looked through: with few that takes less than to sort entries.
const LOOKED_THROUGH_MAX: usize = 8;

/// Makes a written batch visible: its entries go to their queues, whose watchers are woken once each.
pub(super) fn publish_entries(batch: &AppendInfo) {
    if !batch.fan_out.is_empty() || !batch.routed.is_empty() || batch.queues.len() > LOOKED_THROUGH_MAX {
        return publish_sorted(batch);
    }
    for (slot, queue) in batch.queues.iter().enumerate() {
        let of_queue = batch.records.iter().filter(|record| record.queue_slot as usize == slot);
        queue.publish(of_queue.map(BatchRecord::entry));
    }
}

/// The same where there are many queues, or records have entries in several.
fn publish_sorted(batch: &AppendInfo) {
    if let [queue] = &batch.queues[..] {
        return queue.publish(entries(batch).filter(|(slot, _)| *slot == 0).map(|(_, entry)| entry));
    }
    // Those of one queue keep their order.
    let mut ends = vec![0_u32; batch.queues.len()];
    for (slot, _) in entries(batch) {
        ends.get_mut(slot as usize).into_iter().for_each(|count| *count += 1);
    }
    let mut sum = 0;
    for end in &mut ends {
        (*end, sum) = (sum, sum + *end);
    }
    let mut sorted = vec![GAP; sum as usize];
    for (slot, entry) in entries(batch) {
        let next = ends.get_mut(slot as usize);
        let place = next.and_then(|next| sorted.get_mut(std::mem::replace(next, *next + 1) as usize));
        place.into_iter().for_each(|place| *place = entry);
    }
    let mut start = 0;
    for (queue, end) in batch.queues.iter().zip(ends) {
        queue.publish(sorted.get(start as usize..end as usize).unwrap_or_default().iter().copied());
        start = end;
    }
}

/// Every entry of the batch and its queue's number, in the order of the log.
fn entries(batch: &AppendInfo) -> impl Iterator<Item = (u32, Entry)> {
    let (mut fan_out, mut routed) = (&batch.fan_out[..], &batch.routed[..]);
    batch.records.iter().flat_map(move |record| {
        let (entry, count) = (record.entry(), record.fan_out_count as usize);
        let (further, lanes) =
            if record.is_routed() { (&[][..], take(&mut routed, count)) } else { (take(&mut fan_out, count), &[][..]) };
        let own = (!record.is_routed()).then_some((record.queue_slot, entry));
        let of_lane =
            move |lane: &RoutedTo| (lane.slot, Entry { tag_code: lane.code.at(batch.store_timestamp), ..entry });
        own.into_iter().chain(further.iter().map(move |&slot| (slot, entry))).chain(lanes.iter().map(of_lane))
    })
}

/// Takes the first `count` off.
fn take<'a, T>(from: &mut &'a [T], count: usize) -> &'a [T] {
    let (taken, rest) = from.split_at_checked(count).unwrap_or_default();
    *from = rest;
    taken
}
