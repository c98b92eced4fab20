//! The queues of a batch, each once, by the order in which they were first named.

use std::collections::HashMap;
use std::sync::Arc;

use crate::queue_index::QueueIndex;

/// Queues that are searched one by one: few are found sooner so.
const SEARCHED_MAX: usize = 16;

/// Queues by number.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    queues: Vec<Arc<QueueIndex>>,
    /// Numbers by address, once there are more than `SEARCHED_MAX`.
    by_address: Option<HashMap<usize, u32>>,
}

impl Slots {
    /// The number of `queue`, which is added if new.
    #[inline]
    pub(crate) fn slot_of(&mut self, queue: &Arc<QueueIndex>) -> u32 {
        let known = match &self.by_address {
            None => self.queues.iter().rposition(|known| Arc::ptr_eq(known, queue)).map(|slot| slot as u32),
            Some(slots) => slots.get(&address_of(queue)).copied(),
        };
        known.unwrap_or_else(|| self.add(queue))
    }

    fn add(&mut self, queue: &Arc<QueueIndex>) -> u32 {
        let slot = self.queues.len() as u32;
        self.queues.push(queue.clone());
        match &mut self.by_address {
            Some(slots) => _ = slots.insert(address_of(queue), slot),
            None if self.queues.len() > SEARCHED_MAX => {
                let slots = self.queues.iter().map(address_of).zip(0..);
                self.by_address = Some(slots.collect());
            }
            None => {}
        }
        slot
    }

    /// The queues in the order of their numbers.
    pub(crate) fn into_queues(self) -> Vec<Arc<QueueIndex>> {
        self.queues
    }
}

/// Queues stay where they are for as long as somebody has them, as the batch does.
fn address_of(queue: &Arc<QueueIndex>) -> usize {
    Arc::as_ptr(queue).addr()
}
