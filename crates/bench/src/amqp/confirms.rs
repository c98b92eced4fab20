//! What one channel has published that the broker has not confirmed: delivery tags count up from 1, and confirms come for one of them, or
//! for all up to one.

use std::collections::VecDeque;

use client::rocketmq::unique_key::IdNumbers;

#[derive(Clone, Copy, Debug)]
struct Published {
    due_ns: u64,
    sent_ns: u64,
    counter: u16,
    is_open: bool,
}

/// A message that is not in flight any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// When it was due.
    pub due_ns: u64,
    /// The counter that tells it apart.
    pub counter: u16,
}

/// Messages in flight on one channel. It takes memory for as many as lie between the oldest and the newest.
#[derive(Debug)]
pub struct Confirms {
    /// Tag of the first of them.
    first: u64,
    published: VecDeque<Published>,
    in_flight: usize,
    size: usize,
}

impl Confirms {
    /// Room for `size` messages in flight.
    pub const fn new(size: usize) -> Self {
        Self { first: 1, published: VecDeque::new(), in_flight: 0, size }
    }

    /// Messages in flight.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether there is room for one more.
    pub const fn has_room(&self) -> bool {
        self.in_flight < self.size
    }

    /// One more goes out.
    pub fn publish(&mut self, due_ns: u64, sent_ns: u64, id: IdNumbers) {
        self.published.push_back(Published { due_ns, sent_ns, counter: id.counter, is_open: true });
        self.in_flight += 1;
    }

    /// The message with that tag, or all up to it, are confirmed: tells each that was in flight.
    pub fn settle(&mut self, tag: u64, multiple: bool, mut confirmed: impl FnMut(Confirmed)) {
        let Some(index) = tag.checked_sub(self.first).and_then(|index| usize::try_from(index).ok()) else { return };
        let first = if multiple { 0 } else { index };
        let end = self.published.len().min(index + 1);
        for published in self.published.range_mut(first.min(end)..end) {
            if published.is_open {
                published.is_open = false;
                self.in_flight -= 1;
                confirmed(Confirmed { due_ns: published.due_ns, counter: published.counter });
            }
        }
        self.forget();
    }

    /// Gives up what was sent at or before `until_ns`; tells each.
    pub fn expire(&mut self, until_ns: u64, mut given_up: impl FnMut(Confirmed)) {
        // They were sent in this order.
        for published in self.published.iter_mut().take_while(|published| published.sent_ns <= until_ns) {
            if published.is_open {
                published.is_open = false;
                self.in_flight -= 1;
                given_up(Confirmed { due_ns: published.due_ns, counter: published.counter });
            }
        }
        self.forget();
    }

    fn forget(&mut self) {
        while self.published.front().is_some_and(|published| !published.is_open) {
            self.published.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(counter: u16) -> IdNumbers {
        IdNumbers { milliseconds: 0, counter }
    }

    fn settled(confirms: &mut Confirms, tag: u64, multiple: bool) -> Vec<u16> {
        let mut counters = Vec::new();
        confirms.settle(tag, multiple, |confirmed| counters.push(confirmed.counter));
        counters
    }

    #[test]
    fn each_message_is_told_once_whatever_the_order_of_confirms() {
        let mut confirms = Confirms::new(6);
        for counter in 1..=6 {
            confirms.publish(10, u64::from(counter), id(counter));
        }
        assert!(!confirms.has_room());
        assert_eq!(settled(&mut confirms, 3, false), [3]);
        assert_eq!(settled(&mut confirms, 3, false), [0_u16; 0], "once");
        assert_eq!(settled(&mut confirms, 4, true), [1, 2, 4]);
        assert_eq!(settled(&mut confirms, 2, true), [0_u16; 0], "long settled");
        assert_eq!(settled(&mut confirms, 99, false), [0_u16; 0], "never published");
        assert_eq!((confirms.in_flight(), confirms.has_room()), (2, true));
        assert_eq!(settled(&mut confirms, u64::MAX, true), [5, 6]);
        confirms.publish(10, 7, id(7));
        assert_eq!(settled(&mut confirms, 7, false), [7], "tags go on");
    }

    #[test]
    fn what_is_given_up_is_not_confirmed_later() {
        let mut confirms = Confirms::new(4);
        for counter in 1..=4 {
            confirms.publish(u64::from(counter) * 100, u64::from(counter), id(counter));
        }
        assert_eq!(settled(&mut confirms, 2, false), [2]);
        let mut given_up = Vec::new();
        confirms.expire(3, |message| given_up.push(message.due_ns));
        assert_eq!((given_up, confirms.in_flight()), (vec![100, 300], 1));
        assert_eq!(settled(&mut confirms, 4, true), [4]);
    }
}
