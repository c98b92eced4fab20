//! Contents of a connection that have begun and are not all there.
//!
//! **Always holds**: what they announce is counted from their headers on. Together they announce no more than [`SIZE_MAX`], unless one
//! alone does; while the memory that connections share is used up, none begins that takes more than a read. Such a one waits: its
//! connection is not read on. Since others that the same connection has begun cannot end meanwhile, it waits with these for a while only,
//! and who has begun contents and does not go on with them is not waited for.

use base::Monotonic;
use base::budget::Room;
use base::limits::READ_SIZE;
use wire::amqp::frame::{Frame, Kind};

use super::content::announced_size;
use super::error::{Fault, code};
use super::session::AmqpSession;

/// Bytes that contents under way on a connection may announce together.
const SIZE_MAX: u64 = 64 << 20;

/// How often is looked whether there is room, ms.
const LOOK_INTERVAL_MS: u64 = 100;

/// How long memory that others want is kept for contents that do not go on, ms.
const PATIENCE_MS: u64 = 15_000;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// Bytes that are announced.
    size: u64,
    /// When a frame of content came last.
    moved_at: Monotonic,
    /// One waits for room: when that is looked for again.
    look_at: Option<Monotonic>,
}

impl Unfinished {
    /// A content that had announced `before` bytes has these `now` to come.
    pub(super) const fn changes(&mut self, before: u64, announced: u64, now: Monotonic) {
        self.size = (self.size + announced).saturating_sub(before);
        self.moved_at = now;
    }

    /// A content is given up.
    pub(super) const fn ends(&mut self, announced: u64) {
        self.size = self.size.saturating_sub(announced);
    }

    /// Whether one waits for room.
    pub(super) const fn waits(&self) -> bool {
        self.look_at.is_some()
    }

    /// When something may have to be done.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let given_up_at = (self.size > READ_SIZE as u64).then(|| self.moved_at.plus_ms(PATIENCE_MS));
        self.look_at.into_iter().chain(given_up_at).min()
    }

    /// Whether a content of so many bytes may begin now; if not, it waits.
    fn may_begin(&mut self, body_size: u64, room: Room, now: Monotonic) -> Result<bool, Fault> {
        let all = self.size.saturating_add(body_size);
        if all <= READ_SIZE as u64 || room != Room::None && (all <= SIZE_MAX || self.size == 0) {
            return Ok(true);
        }
        if room != Room::None {
            let text = format!(
                "contents of {all} bytes would be under way on this connection; {SIZE_MAX} may be: finish some first"
            );
            return Err(Fault::new(code::RESOURCE_ERROR, text));
        }
        self.look_at = Some(now.plus_ms(LOOK_INTERVAL_MS));
        Ok(false)
    }

    /// Has who waits look again; tells whether memory is kept for too long for what does not go on.
    fn look(&mut self, room: Room, now: Monotonic) -> bool {
        self.look_at.take_if(|at| *at <= now);
        let is_kept = self.size > READ_SIZE as u64 && self.moved_at.plus_ms(PATIENCE_MS) <= now;
        if is_kept && room != Room::None {
            self.moved_at = now;
        }
        is_kept && room == Room::None
    }
}

impl AmqpSession {
    /// Whether a frame may be taken now, as far as contents under way allow it.
    pub(super) fn has_room_for(&mut self, frame: &Frame<'_>) -> bool {
        if frame.kind != Kind::Header {
            return true;
        }
        let link = &self.core.link;
        let (room, now) = (link.budget.room(), link.now.monotonic);
        match self.core.unfinished.may_begin(announced_size(frame.payload), room, now) {
            Ok(may_begin) => may_begin,
            Err(fault) => {
                self.fail(0, &fault);
                true
            }
        }
    }

    /// Looks whether there is room again, and gives up on who keeps memory for nothing.
    pub(super) fn watch_unfinished(&mut self) {
        let link = &self.core.link;
        let (room, now) = (link.budget.room(), link.now.monotonic);
        if self.core.unfinished.look(room, now) {
            let text = "contents were begun and do not go on, and others want their memory";
            self.fail(0, &Fault::new(code::RESOURCE_ERROR, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u64 = READ_SIZE as u64;

    #[test]
    fn contents_under_way_are_bounded_and_one_alone_is_not() {
        let mut unfinished = Unfinished::default();
        let now = Monotonic::default();
        assert_eq!(unfinished.may_begin(2 * SIZE_MAX, Room::Plenty, now), Ok(true), "one alone");
        unfinished.changes(0, SIZE_MAX - 10, now);
        assert_eq!(unfinished.may_begin(10, Room::Little, now), Ok(true));
        assert_eq!(unfinished.may_begin(11, Room::Little, now).map_err(|fault| fault.code), Err(code::RESOURCE_ERROR));
        unfinished.changes(SIZE_MAX - 10, 0, now);
        assert_eq!(unfinished.deadline(), None);
    }

    #[test]
    fn without_room_a_large_one_waits_and_a_little_one_does_not() {
        let mut unfinished = Unfinished::default();
        let now = Monotonic::default();
        assert_eq!(unfinished.may_begin(READ, Room::None, now), Ok(true));
        assert_eq!(unfinished.may_begin(READ + 1, Room::None, now), Ok(false));
        assert!(unfinished.waits());
        assert!(!unfinished.look(Room::None, now.plus_ms(LOOK_INTERVAL_MS - 1)) && unfinished.waits());
        assert!(!unfinished.look(Room::None, now.plus_ms(LOOK_INTERVAL_MS)) && !unfinished.waits());
        assert_eq!(unfinished.may_begin(READ + 1, Room::Little, now), Ok(true));
    }

    #[test]
    fn who_does_not_go_on_is_given_up_once_others_want_the_memory() {
        let mut unfinished = Unfinished::default();
        let begun = Monotonic::default();
        unfinished.changes(0, READ + 1, begun);
        let late = begun.plus_ms(PATIENCE_MS);
        assert_eq!(unfinished.deadline(), Some(late));
        assert!(!unfinished.look(Room::Plenty, late), "nobody wants it");
        assert!(!unfinished.look(Room::None, late));
        assert!(unfinished.look(Room::None, late.plus_ms(PATIENCE_MS)));
        unfinished.changes(READ + 1, READ + 1, late.plus_ms(PATIENCE_MS));
        assert!(!unfinished.look(Room::None, late.plus_ms(PATIENCE_MS)), "it goes on");
    }
}
