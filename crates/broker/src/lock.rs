//! Locks on queues, so that one client at a time consumes a queue in order.
//!
//! A lock holds for 60 s unless renewed. After a crash all are gone: clients lock again, and none is granted twice since
//! they must ask anew.

use std::collections::HashMap;

use base::Timestamp;
use parking_lot::Mutex;

use crate::broker::Broker;

/// How long a lock holds without being renewed.
const LOCK_EXPIRY_MS: u64 = 60_000;

/// A queue by its topic and number, as clients name it.
pub type QueueKey = (String, u32);

#[derive(Debug)]
struct Holder {
    client_id: String,
    renewed: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Locks {
    by_group: Mutex<HashMap<String, HashMap<QueueKey, Holder>>>,
}

impl Broker {
    /// Locks or renews what can be had; returns the queues the client now holds.
    pub fn lock_queues(&self, group: &str, client_id: &str, queues: Vec<QueueKey>, now: Timestamp) -> Vec<QueueKey> {
        let mut by_group = self.locks.by_group.lock();
        let held = by_group.entry(group.to_owned()).or_default();
        queues
            .into_iter()
            .filter(|queue| {
                let holder = held.get(queue);
                let is_free = holder.is_none_or(|holder| {
                    holder.client_id == client_id || now.ms_since(holder.renewed) > LOCK_EXPIRY_MS
                });
                if is_free {
                    held.insert(queue.clone(), Holder { client_id: client_id.to_owned(), renewed: now });
                }
                is_free
            })
            .collect()
    }

    /// Gives up locks the client holds.
    pub fn unlock_queues(&self, group: &str, client_id: &str, queues: &[QueueKey]) {
        let mut by_group = self.locks.by_group.lock();
        if let Some(held) = by_group.get_mut(group) {
            held.retain(|queue, holder| holder.client_id != client_id || !queues.contains(queue));
            if held.is_empty() {
                by_group.remove(group);
            }
        }
    }

    pub(crate) fn release_locks_of(&self, group: &str, client_id: &str) {
        if let Some(held) = self.locks.by_group.lock().get_mut(group) {
            held.retain(|_, holder| holder.client_id != client_id);
        }
    }

    /// Forgets locks that were not renewed.
    pub fn expire_locks(&self, now: Timestamp) {
        self.locks.by_group.lock().retain(|_, held| {
            held.retain(|_, holder| now.ms_since(holder.renewed) <= LOCK_EXPIRY_MS);
            !held.is_empty()
        });
    }
}
