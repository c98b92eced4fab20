//! When each send of one sender thread was due and when it was answered, for whoever receives its message.
//!
//! A ring with a slot for each value of the counter in a message's id. What was overwritten since is not found: the id's
//! milliseconds tell. All threads of a run read one monotonic clock, so differences mean something.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use client::rocketmq::unique_key::IdNumbers;

/// Values of the counter: so many messages of one thread have different ones.
const COUNTER_VALUES: usize = 1 << 16;

/// The times of the last sends.
#[derive(Debug)]
pub struct AnswerTimes {
    slots: Box<[Slot]>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Milliseconds in the id of the send that has this slot.
    milliseconds: AtomicU32,
    due_ns: AtomicU64,
    /// 0 while there is no answer.
    answered_ns: AtomicU64,
}

/// The times of one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendTimes {
    /// When it was due.
    pub due_ns: u64,
    /// When its answer was read, if it has been.
    pub answered_ns: Option<u64>,
}

impl AnswerTimes {
    /// Knows of no send yet.
    pub fn new() -> Self {
        Self { slots: (0..COUNTER_VALUES).map(|_| Slot::default()).collect() }
    }

    /// A send with this id goes out.
    pub fn sent(&self, id: IdNumbers, due_ns: u64) {
        let Some(slot) = self.slots.get(usize::from(id.counter)) else { return };
        slot.answered_ns.store(0, Relaxed);
        slot.due_ns.store(due_ns, Relaxed);
        slot.milliseconds.store(id.milliseconds, Relaxed);
    }

    /// The last send with this counter was answered.
    pub fn answered(&self, counter: u16, now_ns: u64) {
        if let Some(slot) = self.slots.get(usize::from(counter)) {
            slot.answered_ns.store(now_ns, Relaxed);
        }
    }

    /// The times of the send with this id, unless another has its slot.
    pub fn find(&self, id: IdNumbers) -> Option<SendTimes> {
        let slot = self.slots.get(usize::from(id.counter))?;
        let answered_ns = slot.answered_ns.load(Relaxed);
        let times =
            SendTimes { due_ns: slot.due_ns.load(Relaxed), answered_ns: (answered_ns > 0).then_some(answered_ns) };
        (slot.milliseconds.load(Relaxed) == id.milliseconds).then_some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_is_found_until_another_has_its_slot() {
        let times = AnswerTimes::new();
        let (first, later) = (IdNumbers { milliseconds: 5, counter: 7 }, IdNumbers { milliseconds: 90, counter: 7 });
        assert_eq!(times.find(first), None);
        times.sent(first, 100);
        assert_eq!(times.find(first), Some(SendTimes { due_ns: 100, answered_ns: None }));
        times.answered(7, 130);
        assert_eq!(times.find(first), Some(SendTimes { due_ns: 100, answered_ns: Some(130) }));
        times.sent(later, 500);
        assert_eq!(times.find(first), None);
        assert_eq!(times.find(later), Some(SendTimes { due_ns: 500, answered_ns: None }));
    }
}
