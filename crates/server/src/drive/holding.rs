//! What a connection holds of the memory budget that all share.

use std::sync::Arc;

use base::budget::{self, Budget, Held, Room};
use base::session::Session;
use bytes::BytesMut;

use super::{READ_SIZE, give_back};

/// The share of the memory budget that a connection holds.
pub(super) struct Holding {
    pub(super) held: Held,
    /// Whether the budget has granted the memory of the large frame being read; it is not read without.
    is_admitted: bool,
    pub(super) may_read: bool,
}

impl Holding {
    pub(super) const fn of(budget: Arc<Budget>) -> Self {
        Self { held: Held::of(budget), is_admitted: false, may_read: true }
    }

    /// Updates the share, and decides whether the frame at the front of `input` may be read further.
    pub(super) fn update(&mut self, session: &mut impl Session, input: &mut BytesMut, room: Room) {
        let announced = session.frame_size(input);
        let answers = session.held_size();
        if announced <= READ_SIZE || announced <= input.len() {
            (self.is_admitted, self.may_read) = (false, true);
            if room != Room::Plenty {
                shrink(input);
            }
            self.held.set(input.capacity() + answers);
            return;
        }
        if !self.is_admitted && self.held.try_set(announced + answers) {
            self.is_admitted = true;
            // A session that takes all of its input gathers the frame itself.
            if !input.is_empty() {
                input.reserve(announced - input.len());
            }
        }
        if !self.is_admitted {
            shrink(input);
        }
        self.may_read = self.is_admitted;
        self.held.set(answers + if self.is_admitted { announced } else { input.capacity() });
    }
}

/// Copies a few bytes out of a large buffer, so that it can be reused.
fn shrink(input: &mut BytesMut) {
    if input.len() < budget::STEP && input.capacity() > 2 * budget::STEP {
        let little = BytesMut::from(&**input);
        give_back(std::mem::replace(input, little));
    }
}
