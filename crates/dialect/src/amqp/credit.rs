//! How many messages a channel may have that are not settled, and who waits until it may have more.
//!
//! **Always holds**: whoever waits is looked after when the channel has settled some, and if memory was short, once a second too: then it
//! is others who make room.

use base::budget::Room;

use super::channel::Channel;
use super::error::Fault;
use super::link::Link;
use super::methods::Core;
use super::session::AmqpSession;

/// Messages that a channel may have unsettled, whatever its prefetch: about 60 MB.
const UNSETTLED_MAX: u32 = 1 << 20;

/// The same while connections together hold as much as they may.
const UNSETTLED_FEW: u32 = 1 << 11;

/// How often is looked for memory where there was none, ms.
const MEMORY_LOOK_MS: u64 = 1000;

/// Messages that a channel may have unsettled now.
const fn unsettled_max(room: Room) -> u32 {
    match room {
        Room::None => UNSETTLED_FEW,
        Room::Little | Room::Plenty => UNSETTLED_MAX,
    }
}

impl Channel {
    fn credit_in_memory(&self, room: Room) -> u32 {
        let unsettled = u32::try_from(self.unacked.count()).unwrap_or(u32::MAX).max(self.given);
        unsettled_max(room).saturating_sub(unsettled)
    }

    /// Refuses one more to who asks for one while it has as many as it may.
    pub(super) fn check_credit(&self, room: Room) -> Result<(), Fault> {
        if self.credit_in_memory(room) > 0 {
            return Ok(());
        }
        let most = unsettled_max(room);
        Err(Fault::precondition(format!("a channel has at most {most} messages now that it has not acknowledged")))
    }

    /// How many messages more its consumers may have unsettled. What was asked for one by one counts for memory alone.
    pub(super) fn credit(&self, room: Room) -> u32 {
        let in_memory = self.credit_in_memory(room);
        match self.shared_prefetch {
            0 => in_memory,
            most => in_memory.min(most.saturating_sub(self.given)),
        }
    }

    /// Some consumer waits for what all of them together may have unsettled: until they settle some, and if there was no `room` in memory,
    /// until there may be some again.
    pub(super) fn hold_back(&mut self, room: Room, link: &mut Link) {
        self.is_held_back = true;
        if room == Room::None {
            link.memory_look_at.get_or_insert(link.now.monotonic.plus_ms(MEMORY_LOOK_MS));
        }
    }

    /// A read has ended for which so much was promised: gives those that were held back, and may have room now.
    pub(super) fn take_back(&mut self, promised: u32) -> impl Iterator<Item = u64> {
        self.given = self.given.saturating_sub(promised);
        self.take_held_back()
    }

    /// Consumers that were held back and may have room now.
    pub(super) fn take_held_back(&mut self) -> impl Iterator<Item = u64> {
        let are_held_back = std::mem::take(&mut self.is_held_back);
        are_held_back.then(|| self.consumers.take_stalled()).into_iter().flatten()
    }
}

impl AmqpSession {
    /// Looks after consumers that have waited for memory when it is time for that.
    pub(super) fn watch_memory(&mut self) {
        let Core { link, ready, .. } = &mut self.core;
        if link.memory_look_at.take_if(|at| *at <= link.now.monotonic).is_some() {
            ready.extend(self.channels.values_mut().flat_map(Channel::take_held_back));
        }
    }
}
