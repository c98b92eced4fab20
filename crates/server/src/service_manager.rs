//! Tells systemd how the process is: ready, stopping, and that it still answers. Without systemd (`NOTIFY_SOCKET` unset) nobody is told.

use std::time::Duration;

use sd_notify::NotifyState;

/// Clients find what they look for; `line` says where.
pub(crate) fn ready(line: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(line)]);
}

/// The process ends, for the reason `why`.
pub(crate) fn stopping(why: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(why)]);
}

/// Tells that the process still answers, twice as often as is asked for (`WATCHDOG_USEC`), for as long as network threads take up work.
pub(crate) async fn keep_telling() {
    let mut limit_us = 0;
    if !sd_notify::watchdog_enabled(false, &mut limit_us) {
        return;
    }
    let mut times = tokio::time::interval(Duration::from_micros((limit_us / 2).max(1)));
    loop {
        times.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, what) {
        tracing::warn!(%error, "systemd (NOTIFY_SOCKET) cannot be told how the process is");
    }
}
