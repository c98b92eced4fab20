//! Who consumes from a message queue: who may, who comes first, and who is told when it goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Whether it takes what is there: as long as it does, those of a lower priority wait.
    pub has_room: Arc<AtomicBool>,
}

/// The consumers of one queue, in the order they came.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    list: Vec<(u64, Consumer)>,
    last_id: u64,
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

impl Consumers {
    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds one; `None` if it wants the queue alone and is not, or another one does.
    pub(super) fn add(&mut self, consumer: Consumer) -> Option<u64> {
        let is_taken = self.list.iter().any(|(_, known)| known.is_exclusive);
        if is_taken || consumer.is_exclusive && !self.list.is_empty() {
            return None;
        }
        self.last_id += 1;
        self.list.push((self.last_id, consumer));
        Some(self.last_id)
    }

    /// Takes one out, if it is there.
    pub(super) fn remove(&mut self, id: u64) -> Option<Left> {
        let at = self.list.iter().position(|(known, _)| *known == id)?;
        let had_priorities = self.have_priorities();
        self.list.remove(at);
        let next = if at == 0 { self.list.first().map(|(_, consumer)| consumer.clone()) } else { None };
        Some(Left { next, had_priorities, is_last: self.list.is_empty() })
    }

    /// Whether it is the one that has waited longest: the only one that gets messages, where only one does.
    pub(super) fn is_first(&self, id: u64) -> bool {
        self.list.first().is_some_and(|(first, _)| *first == id)
    }

    /// Whether some come before others.
    pub(super) fn have_priorities(&self) -> bool {
        let mut priorities = self.list.iter().map(|(_, consumer)| consumer.priority);
        let first = priorities.next();
        priorities.any(|priority| Some(priority) != first)
    }

    /// Whether none of a higher priority takes what is there.
    pub(super) fn is_next(&self, id: u64) -> bool {
        let own = self.list.iter().find(|(known, _)| *known == id).map(|(_, consumer)| consumer.priority);
        let comes_before = |consumer: &Consumer| {
            own.is_some_and(|own| consumer.priority > own) && consumer.has_room.load(Ordering::Acquire)
        };
        !self.list.iter().any(|(_, consumer)| comes_before(consumer))
    }

    /// Tells all that the queue has gone; they are none of its any more.
    pub(super) fn dismiss(&mut self) {
        for (_, Consumer { mailbox, number, .. }) in self.list.drain(..) {
            mailbox.send(Signal::QueueGone(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn consumer(number: u64, is_exclusive: bool) -> Consumer {
        let has_room = Arc::default();
        Consumer { mailbox: Mailbox::new(Waker::noop().clone()), number, is_exclusive, priority: 0, has_room }
    }

    #[test]
    fn who_wants_a_queue_alone_has_it_alone() {
        let mut consumers = Consumers::default();
        let alone = consumers.add(consumer(1, true)).expect("the first");
        assert!(consumers.add(consumer(2, false)).is_none());
        assert!(consumers.remove(alone).expect("was there").is_last);
        assert!(consumers.remove(alone).is_none(), "once");
        consumers.add(consumer(2, false)).expect("free again");
        assert!(consumers.add(consumer(3, true)).is_none(), "there is another");
    }

    #[test]
    fn the_next_is_told_when_the_first_goes() {
        let mut consumers = Consumers::default();
        let [first, second, third] = [1, 2, 3].map(|number| consumers.add(consumer(number, false)).expect("added"));
        assert!(consumers.is_first(first) && !consumers.is_first(second));
        assert!(consumers.remove(second).expect("was there").next.is_none(), "it had nothing");
        assert_eq!(consumers.remove(first).expect("was there").next.map(|next| next.number), Some(3));
        assert!(consumers.is_first(third));
        let watched = consumer(4, false);
        consumers.add(watched.clone()).expect("added");
        consumers.dismiss();
        assert_eq!((watched.mailbox.take(), consumers.len()), (vec![Signal::QueueGone(4)], 0));
    }
}
