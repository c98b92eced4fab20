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
        if self.core.is_paused || self.core.publishing.is_held(&self.core.link) {
            // It may have sent any number of them that were not read.
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

    /// When `watch_life` has something to do.
    pub(super) fn life_deadline(&self) -> Option<Monotonic> {
        let is_alive = self.heartbeat_ms > 0 && self.phase == Phase::Running;
        let life = is_alive.then(|| self.beat.min(self.heard.plus_ms(2 * self.heartbeat_ms)));
        self.patience.into_iter().chain(life).min()
    }
}
