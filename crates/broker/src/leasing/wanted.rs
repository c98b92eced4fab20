//! What a consumer wants of lanes, and who has it then.

use std::sync::Arc;

use base::{Monotonic, Timestamp};
use format::lane_code::LaneCode;
use format::queue_entry::Entry;

use super::GrantName;
use crate::cursor::lane::Lane;
use crate::cursor::lease::{Grant, Owner};
use crate::filter::Filter;

/// What a consumer wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// From where, in this order, each with what is let through.
    pub lanes: Vec<(Arc<Lane>, Filter)>,
    /// Messages wanted at most.
    pub count_max: usize,
    /// Bytes wanted at most; one message is always given.
    pub size_max: usize,
    /// Who has them then.
    pub holder: Holder,
    /// In order, by this name for the attempt.
    pub attempt: Option<Box<str>>,
    /// How often a message is handed out again before it is given up.
    pub redeliveries_max: u32,
    /// Whether messages expire, by the time that their entries say, and now is what time.
    pub expiry: Option<Expiry>,
}

impl Wanted {
    /// The owner of what is handed out.
    pub const fn owner(&self) -> Owner {
        self.holder.grant().owner
    }
}

/// Who has what was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Whoever names the grant, until a time. What it gets says how often it was handed out.
    Grant(GrantName, Monotonic),
    /// A channel, until that ends.
    Channel(Owner),
}

/// How messages expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// What time it is.
    pub now: Timestamp,
    /// Since when whoever takes could have taken at once: a message that has come since was its own before its time was over.
    pub awaited_since: Option<Timestamp>,
    /// Whether what has expired becomes a dead letter; else it is settled.
    pub is_given_up: bool,
}

impl Expiry {
    /// Whether the message of an entry has expired, which was handed out so often.
    pub(crate) fn is_over(self, entry: &Entry, deliveries: u32) -> bool {
        let was_awaited = |expiry| deliveries == 0 && self.awaited_since.is_some_and(|since| since <= expiry);
        LaneCode::of(entry).expiry.is_some_and(|expiry| expiry <= self.now && !was_awaited(expiry))
    }
}

impl Holder {
    /// By what the leases are known.
    pub(super) const fn grant(self) -> Grant {
        match self {
            Self::Grant(name, deadline) => Grant { owner: name.owner(), deadline: Some(deadline) },
            Self::Channel(owner) => Grant::without_end(owner),
        }
    }

    /// By what those are known that are to be given up.
    pub(super) const fn doom(self) -> Owner {
        match self {
            Self::Grant(name, _) => name.doom(),
            Self::Channel(owner) => owner.doom(),
        }
    }

    pub(super) const fn is_told_deliveries(self) -> bool {
        matches!(self, Self::Grant(..))
    }
}
