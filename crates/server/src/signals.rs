//! Signals, as in a Java virtual machine: INT and TERM stop the process in an orderly way, QUIT logs its state. So does USR1,
//! which would kill it by default. HUP has the settings read again; to a process in a terminal it says that this is gone, and ends it.

use std::io::{self, IsTerminal as _};

use tokio::signal::unix::{Signal, SignalKind, signal};

const HANG_UP: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Stop,
    Dump,
    ReadSettings,
}

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// HUP says that the terminal is gone; not if the process was started with HUP ignored, as by `nohup`, so that it outlives that.
    ends_with_terminal: bool,
    quit: Signal,
    user: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            ends_with_terminal: std::io::stdin().is_terminal() && !is_ignored(&status, HANG_UP),
            quit: signal(SignalKind::quit())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.hang_up.recv() => if self.ends_with_terminal { Asked::Stop } else { Asked::ReadSettings },
            _ = self.quit.recv() => Asked::Dump,
            _ = self.user.recv() => Asked::Dump,
        }
    }
}

/// Whether `/proc/self/status` lists the signal as ignored.
fn is_ignored(status: &str, number: u32) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> (number - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernels_set() {
        let status = |set: &str| format!("Name:\tsluice\nSigBlk:\tffffffffffffffff\nSigIgn:\t{set}\nSigCgt:\t0\n");
        assert!(is_ignored(&status("0000000000001001"), HANG_UP));
        assert!(!is_ignored(&status("0000000000001000"), HANG_UP));
        assert!(!is_ignored("", HANG_UP));
    }
}
