//! What a channel was given and has not settled, by delivery tag.
//!
//! **Always holds**: what was settled in between takes no more room than what was not, so that one message which is held for long keeps
//! nothing else in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Monotonic, QueueOffset};
use broker::{Lane, MessageQueue};

/// Settled ones that may lie between the others before there are as many of them.
const SETTLED_MIN: usize = 64;

/// A message that a channel has.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    pub(super) tag: u64,
    pub(super) queue: Arc<MessageQueue>,
    pub(super) lane: Arc<Lane>,
    pub(super) offset: QueueOffset,
    /// Whose it is; none: it was asked for alone.
    pub(super) consumer: Option<u64>,
    /// When it was sent to the client.
    pub(super) at: Monotonic,
}

/// A tag, and what it stands for until that is settled.
#[derive(Debug)]
struct Entry {
    tag: u64,
    delivered: Option<Delivered>,
}

/// Of one channel. Tags go up by one from 1.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    /// In the order of their tags; the first is not settled.
    entries: VecDeque<Entry>,
    last_tag: u64,
    count: usize,
}

impl Unacked {
    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Bytes it holds.
    pub(super) fn size(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Delivered> {
        self.entries.iter().filter_map(|entry| entry.delivered.as_ref())
    }

    /// The tag of the next message.
    pub(super) const fn next_tag(&mut self) -> u64 {
        self.last_tag += 1;
        self.last_tag
    }

    /// Adds one, whose tag is the last that was given out.
    pub(super) fn push(&mut self, delivered: Delivered) {
        self.entries.push_back(Entry { tag: delivered.tag, delivered: Some(delivered) });
        self.count += 1;
    }

    fn position(&self, tag: u64) -> Option<usize> {
        let first = self.entries.front()?.tag;
        // Where none in between was left out.
        let likely = usize::try_from(tag.checked_sub(first)?).ok()?;
        if self.entries.get(likely).is_some_and(|entry| entry.tag == tag) {
            return Some(likely);
        }
        self.entries.binary_search_by_key(&tag, |entry| entry.tag).ok()
    }

    /// Takes the one of that tag out, or with `multiple` all up to it; of tag 0 all there are. `None` if there is none of that tag.
    pub(super) fn take(&mut self, tag: u64, multiple: bool) -> Option<Vec<Delivered>> {
        if multiple && tag == 0 {
            return Some(self.take_all());
        }
        let at = self.position(tag)?;
        self.entries.get(at)?.delivered.as_ref()?;
        let taken: Vec<_> = if multiple {
            self.entries.drain(..=at).filter_map(|entry| entry.delivered).collect()
        } else {
            self.entries.get_mut(at).and_then(|entry| entry.delivered.take()).into_iter().collect()
        };
        self.count -= taken.len();
        self.forget_settled();
        Some(taken)
    }

    fn forget_settled(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.delivered.is_none()) {
            self.entries.pop_front();
        }
        if self.entries.len() > 2 * self.count + SETTLED_MIN {
            self.entries.retain(|entry| entry.delivered.is_some());
        }
        if self.entries.capacity() > 4 * self.entries.len() + 4 * SETTLED_MIN {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    /// Takes all out, the oldest first.
    pub(super) fn take_all(&mut self) -> Vec<Delivered> {
        self.count = 0;
        std::mem::take(&mut self.entries).into_iter().filter_map(|entry| entry.delivered).collect()
    }

    /// Has some again that were taken out.
    pub(super) fn put_back(&mut self, taken: impl Iterator<Item = Delivered>) {
        self.entries.retain(|entry| entry.delivered.is_some());
        self.entries.extend(taken.map(|delivered| Entry { tag: delivered.tag, delivered: Some(delivered) }));
        self.entries.make_contiguous().sort_unstable_by_key(|entry| entry.tag);
        self.count = self.entries.len();
    }
}
