//! What a channel was given and has not settled, by delivery tag.

use std::collections::VecDeque;
use std::sync::Arc;

use base::QueueOffset;
use broker::{Lane, MessageQueue};

/// A message that a channel has.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    pub(super) queue: Arc<MessageQueue>,
    pub(super) lane: Arc<Lane>,
    pub(super) offset: QueueOffset,
    /// Whose it is; none: it was asked for alone.
    pub(super) consumer: Option<u64>,
}

/// Of one channel. Tags go up by one from 1.
#[derive(Debug)]
pub(super) struct Unacked {
    /// From this tag on; what was settled in between is empty.
    entries: VecDeque<Option<Delivered>>,
    first_tag: u64,
    count: usize,
}

impl Default for Unacked {
    fn default() -> Self {
        Self { entries: VecDeque::new(), first_tag: 1, count: 0 }
    }
}

impl Unacked {
    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Adds one; gives its tag.
    pub(super) fn push(&mut self, delivered: Delivered) -> u64 {
        self.entries.push_back(Some(delivered));
        self.count += 1;
        self.first_tag + self.entries.len() as u64 - 1
    }

    /// A tag for a message that nobody acknowledges.
    pub(super) fn skip(&mut self) -> u64 {
        if self.entries.is_empty() {
            self.first_tag += 1;
            return self.first_tag - 1;
        }
        self.entries.push_back(None);
        self.first_tag + self.entries.len() as u64 - 1
    }

    /// Takes the one of that tag out, or with `multiple` all up to it; of tag 0 all there are. `None` if there is none of that tag.
    pub(super) fn take(&mut self, tag: u64, multiple: bool) -> Option<Vec<Delivered>> {
        if multiple && tag == 0 {
            return Some(self.take_all());
        }
        let at = usize::try_from(tag.checked_sub(self.first_tag)?).ok()?;
        self.entries.get(at)?.as_ref()?;
        let taken: Vec<_> = if multiple {
            self.first_tag = tag + 1;
            self.entries.drain(..=at).flatten().collect()
        } else {
            self.entries.get_mut(at).and_then(Option::take).into_iter().collect()
        };
        self.count -= taken.len();
        while self.entries.front().is_some_and(Option::is_none) {
            self.entries.pop_front();
            self.first_tag += 1;
        }
        Some(taken)
    }

    /// Takes all out, the oldest first.
    pub(super) fn take_all(&mut self) -> Vec<Delivered> {
        self.first_tag += self.entries.len() as u64;
        self.count = 0;
        self.entries.drain(..).flatten().collect()
    }
}
