//! Who consumes from a message queue: who may, who comes first, and who is told when it goes.
//!
//! **Always holds**: to come, to go and to look whose turn it is takes no longer for there being many.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::group::mailbox::{Mailbox, Signal};

/// Somebody who wants messages of a queue.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its connection.
    pub mailbox: Arc<Mailbox>,
    /// By which that knows it: signals carry this.
    pub number: u64,
    /// Whether nobody else may consume.
    pub is_exclusive: bool,
    /// Higher ones get messages first.
    pub priority: i32,
}

/// A consumer's place at its queue.
#[derive(Debug)]
pub struct Seat {
    id: u64,
    priority: i32,
    /// Whether it takes what is there: as long as it does, those of a lower priority wait.
    has_room: bool,
    /// How many of its priority do.
    with_room: Arc<AtomicUsize>,
}

/// The consumers of one queue.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    /// In the order they came.
    by_id: BTreeMap<u64, Consumer>,
    /// By priority.
    levels: BTreeMap<i32, Level>,
    last_id: u64,
}

/// Those of one priority.
#[derive(Debug, Default)]
struct Level {
    count: usize,
    with_room: Arc<AtomicUsize>,
}

/// What a consumer's going means.
#[derive(Debug)]
pub(super) struct Left {
    /// Who gets messages now and did not before.
    pub(super) next: Option<Consumer>,
    /// Whether some came before others until then.
    pub(super) had_priorities: bool,
    /// Whether nobody is left.
    pub(super) is_last: bool,
}

impl Seat {
    /// Says whether it takes what is there.
    pub fn note_room(&mut self, has_room: bool) {
        match (std::mem::replace(&mut self.has_room, has_room), has_room) {
            (false, true) => _ = self.with_room.fetch_add(1, Ordering::AcqRel),
            (true, false) => _ = self.with_room.fetch_sub(1, Ordering::AcqRel),
            (false, false) | (true, true) => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.note_room(false);
    }
}

impl Consumers {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds one; `None` if it wants the queue alone and is not, or another one does.
    pub(super) fn add(&mut self, consumer: Consumer) -> Option<Seat> {
        // Who has it alone is the first.
        let first = self.by_id.first_key_value();
        if first.is_some_and(|(_, first)| first.is_exclusive || consumer.is_exclusive) {
            return None;
        }
        self.last_id += 1;
        let (id, priority) = (self.last_id, consumer.priority);
        let level = self.levels.entry(priority).or_default();
        level.count += 1;
        let with_room = level.with_room.clone();
        self.by_id.insert(id, consumer);
        Some(Seat { id, priority, has_room: false, with_room })
    }

    /// Takes one out, if it is there.
    pub(super) fn remove(&mut self, seat: Seat) -> Option<Left> {
        let (was_first, had_priorities) = (self.is_first(&seat), self.have_priorities());
        self.by_id.remove(&seat.id)?;
        if let Some(level) = self.levels.get_mut(&seat.priority) {
            level.count -= 1;
            if level.count == 0 {
                self.levels.remove(&seat.priority);
            }
        }
        let next = self.by_id.first_key_value().filter(|_| was_first).map(|(_, next)| next.clone());
        Some(Left { next, had_priorities, is_last: self.by_id.is_empty() })
    }

    /// Whether it is the one that has waited longest: the only one that gets messages, where only one does.
    pub(super) fn is_first(&self, seat: &Seat) -> bool {
        self.by_id.first_key_value().is_some_and(|(first, _)| *first == seat.id)
    }

    /// Whether some come before others.
    pub(super) fn have_priorities(&self) -> bool {
        self.levels.len() > 1
    }

    /// Whether none of a higher priority takes what is there.
    pub(super) fn is_next(&self, seat: &Seat) -> bool {
        let higher = self.levels.range((Bound::Excluded(seat.priority), Bound::Unbounded));
        higher.map(|(_, level)| level).all(|level| level.with_room.load(Ordering::Acquire) == 0)
    }

    /// Tells all that the queue has gone; they are none of its any more.
    pub(super) fn dismiss(&mut self) {
        self.levels.clear();
        for Consumer { mailbox, number, .. } in std::mem::take(&mut self.by_id).into_values() {
            mailbox.send(Signal::QueueGone(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn consumer(number: u64, is_exclusive: bool) -> Consumer {
        Consumer { mailbox: Mailbox::new(Waker::noop().clone()), number, is_exclusive, priority: 0 }
    }

    #[test]
    fn who_wants_a_queue_alone_has_it_alone() {
        let mut consumers = Consumers::default();
        let alone = consumers.add(consumer(1, true)).expect("the first");
        assert!(consumers.add(consumer(2, false)).is_none());
        assert!(consumers.remove(alone).expect("was there").is_last);
        consumers.add(consumer(2, false)).expect("free again");
        assert!(consumers.add(consumer(3, true)).is_none(), "there is another");
    }

    #[test]
    fn the_next_is_told_when_the_first_goes() {
        let mut consumers = Consumers::default();
        let [first, second, third] = [1, 2, 3].map(|number| consumers.add(consumer(number, false)).expect("added"));
        assert!(consumers.is_first(&first) && !consumers.is_first(&second));
        assert!(consumers.remove(second).expect("was there").next.is_none(), "it had nothing");
        assert_eq!(consumers.remove(first).expect("was there").next.map(|next| next.number), Some(3));
        assert!(consumers.is_first(&third));
        let watched = consumer(4, false);
        consumers.add(watched.clone()).expect("added");
        consumers.dismiss();
        assert_eq!((watched.mailbox.take(), consumers.len()), (vec![Signal::QueueGone(4)], 0));
        assert!(consumers.remove(third).is_none(), "it is none of them any more");
    }

    #[test]
    fn who_has_a_lower_priority_waits_while_somebody_of_a_higher_one_has_room() {
        let mut consumers = Consumers::default();
        let mut of_priority = |priority| consumers.add(Consumer { priority, ..consumer(1, false) }).expect("added");
        let (low, mut one, mut other) = (of_priority(0), of_priority(5), of_priority(5));
        assert!(consumers.have_priorities() && consumers.is_next(&low), "nobody has room yet");
        one.note_room(true);
        other.note_room(true);
        one.note_room(false);
        assert!(!consumers.is_next(&low) && consumers.is_next(&one), "the other has room");
        assert!(consumers.remove(other).expect("was there").had_priorities);
        assert!(consumers.is_next(&low));
        consumers.remove(one);
        assert!(!consumers.have_priorities());
    }
}
