//! Signs of life: the broker's own, and what becomes of who gives none.

use base::Monotonic;
use base::session::CloseReason;

use super::session::{AmqpSession, Phase};

impl AmqpSession {
    /// Signs of life: sends one when it is time, and gives up on who sends none.
    pub(super) fn watch_life(&mut self) {
        let now = self.core.link.now.monotonic;
        if self.patience.is_some_and(|end| end <= now) {
            if self.phase != Phase::Closing {
                self.reason = Some(CloseReason("the client takes too long to begin its connection".to_owned()));
            }
            self.phase = Phase::Over;
        }
        if self.heartbeat_ms == 0 || self.phase != Phase::Running {
            return;
        }
        if self.is_unread() {
            // It may have sent any number of them.
            self.heard = now;
        }
        if self.heard.plus_ms(2 * self.heartbeat_ms) <= now {
            self.reason =
                Some(CloseReason(format!("missed heartbeats from client, timeout: {}s", self.heartbeat_ms / 1000)));
            self.phase = Phase::Over;
        }
        if self.beat <= now {
            self.beat = now.plus_ms(self.heartbeat_ms / 2);
            self.link().send_heartbeat();
        }
    }

    /// Whether the client is not read, and is there as far as can be told: one that takes none of its answers may be gone.
    fn is_unread(&mut self) -> bool {
        let untaken_size = self.core.link.waiting_size();
        let has_taken = untaken_size < std::mem::replace(&mut self.untaken_size, untaken_size);
        !self.may_read() && (self.core.link.has_room_for_answers() || has_taken)
    }

    /// When `watch_life` has something to do.
    pub(super) fn life_deadline(&self) -> Option<Monotonic> {
        let is_alive = self.heartbeat_ms > 0 && self.phase == Phase::Running;
        let life = is_alive.then(|| self.beat.min(self.heard.plus_ms(2 * self.heartbeat_ms)));
        self.patience.into_iter().chain(life).min()
    }
}
