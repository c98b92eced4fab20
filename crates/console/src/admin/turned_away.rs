//! Callers who may not ask: the log tells of them, so that whoever guesses at the token is seen.

use std::net::SocketAddr;

use base::{Monotonic, Now};
use parking_lot::Mutex;

/// The least time between two lines, ms: no caller fills the log.
const INTERVAL_MS: u64 = 1000;

/// Who was turned away.
#[derive(Debug, Default)]
pub(super) struct TurnedAway(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// When there may be a line again.
    next: Monotonic,
    /// Requests since the last line.
    untold: u64,
}

impl TurnedAway {
    /// Tells of one more, unless the last line is too near: then the next one counts it.
    pub(super) fn tell(&self, from: Option<SocketAddr>, why: &str, now: Now) {
        let Some(others) = self.0.lock().due(now.monotonic) else { return };
        let from = from.map(|address| address.to_string()).unwrap_or_default();
        tracing::warn!(%from, why, others, "somebody who may not administer was turned away");
    }
}

impl Told {
    /// How many others a line is to count, if one is due.
    fn due(&mut self, now: Monotonic) -> Option<u64> {
        if now < self.next {
            self.untold += 1;
            return None;
        }
        self.next = now.plus_ms(INTERVAL_MS);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_line_a_second_which_counts_the_others() {
        let mut told = Told::default();
        let times = [0, 1, 999, 1000, 1001, 5000, 6000];
        let due = times.map(|time| told.due(Monotonic(time)));
        assert_eq!(due, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }
}
