//! Locks on queues, so that one client at a time consumes a queue in order.
//!
//! A lock holds for 60 s unless renewed. After a crash all are gone: clients lock again, and none is granted twice since
//! they must ask anew.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::limits::{CLIENT_ID_SIZE_MAX, INTERNAL_TOPIC_NAME_SIZE_MAX, QUEUE_LOCKS_MAX};
use base::{Monotonic, Now};
use parking_lot::Mutex;

/// How long a lock holds without being renewed.
const LOCK_EXPIRY_MS: u64 = 60_000;

/// A queue by its topic and number, as clients name it.
pub type QueueKey = (String, u32);

#[derive(Debug)]
struct Holder {
    client_id: Arc<str>,
    renewed: Monotonic,
}

impl Holder {
    const fn holds(&self, now: Now) -> bool {
        now.monotonic.ms_since(self.renewed) <= LOCK_EXPIRY_MS
    }
}

/// One group's locks.
type Held = HashMap<QueueKey, Holder>;

/// The locks of all groups.
#[derive(Debug, Default)]
pub struct Locks(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_group: HashMap<String, Held>,
    /// Locks of all groups.
    count: usize,
}

impl Table {
    /// Changes one group's locks; a group without any is forgotten.
    fn change<T>(&mut self, group: &str, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        let held = self.by_group.get_mut(group)?;
        let before = held.len();
        let changed = change(held);
        self.count = self.count - before + held.len();
        if held.is_empty() {
            self.by_group.remove(group);
        }
        Some(changed)
    }
}

impl Locks {
    /// Locks or renews what can be had; returns the queues the client now holds. More than `QUEUE_LOCKS_MAX` are not to be
    /// had.
    pub fn lock(&self, group: &str, client_id: &str, queues: Vec<QueueKey>, now: Now) -> HashSet<QueueKey> {
        let mut table = self.0.lock();
        if client_id.len() > CLIENT_ID_SIZE_MAX {
            return HashSet::new();
        }
        let client_id: Arc<str> = client_id.into();
        let mut room = QUEUE_LOCKS_MAX.saturating_sub(table.count);
        table.by_group.entry(group.to_owned()).or_default();
        let granted = table.change(group, |held| {
            let mut grant = |queue: &QueueKey| {
                let is_known = match held.get(queue) {
                    Some(holder) if *holder.client_id != *client_id && holder.holds(now) => return false,
                    Some(_) => true,
                    None => false,
                };
                if !is_known {
                    if room == 0 || queue.0.len() > INTERNAL_TOPIC_NAME_SIZE_MAX {
                        return false;
                    }
                    room -= 1;
                }
                held.insert(queue.clone(), Holder { client_id: client_id.clone(), renewed: now.monotonic });
                true
            };
            queues.into_iter().filter(|queue| grant(queue)).collect()
        });
        granted.unwrap_or_default()
    }

    /// Gives up locks the client holds.
    pub fn unlock(&self, group: &str, client_id: &str, queues: &HashSet<QueueKey>) {
        self.0.lock().change(group, |held| {
            for queue in queues {
                if held.get(queue).is_some_and(|holder| *holder.client_id == *client_id) {
                    held.remove(queue);
                }
            }
        });
    }

    /// Whether a client holds a queue of the group.
    pub fn is_consumed_in_order(&self, group: &str, now: Now) -> bool {
        let table = self.0.lock();
        let mut holders = table.by_group.get(group).into_iter().flat_map(HashMap::values);
        holders.any(|holder| holder.holds(now))
    }

    pub(crate) fn release_all_of(&self, group: &str, client_id: &str) {
        self.0.lock().change(group, |held| held.retain(|_, holder| *holder.client_id != *client_id));
    }

    /// Forgets locks that were not renewed.
    pub fn expire(&self, now: Now) {
        let mut table = self.0.lock();
        table.by_group.retain(|_, held| {
            held.retain(|_, holder| holder.holds(now));
            !held.is_empty()
        });
        table.count = table.by_group.values().map(HashMap::len).sum();
    }
}
