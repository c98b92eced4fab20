//! Signals, as a Java virtual machine has them: INT, TERM and HUP stop the process in order, QUIT has it tell its state and go on.
//! USR1, which would end it, tells its state too.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Number of HUP in the kernel's sets of signals.
const HANG_UP: u32 = 1;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To stop in order.
    Stop,
    /// To tell its state.
    Dump,
}

/// The signals that no longer end the process by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None if whoever started the process has it ignored, as `nohup` does: then it outlives its terminal.
    hang_up: Option<Signal>,
    quit: Signal,
    user: Signal,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hang_up = if is_ignored(&status, HANG_UP) { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
            quit: signal(SignalKind::quit())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Asked {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = hang_up => Asked::Stop,
            _ = self.quit.recv() => Asked::Dump,
            _ = self.user.recv() => Asked::Dump,
        }
    }
}

/// Whether `/proc/self/status` names the signal among those that are ignored.
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
