//! A broker of a test's own that is killed and started again on the same directory and ports.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use conformance::sluice::{Setup, Sluice};

/// A kill by the machine's clock, in milliseconds: it was not before, and not after. `after` is the end of time until it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kill {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

pub(crate) struct Mortal {
    pub(crate) name_server: String,
    pub(crate) broker: String,
    setup: Setup,
    running: Mutex<Sluice>,
    kills: Mutex<Vec<Kill>>,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

impl Mortal {
    /// Small files, so that some of them are crossed.
    pub(crate) fn start(scratch: &Path) -> Self {
        let setup = Setup::serve(&scratch.join("data")).set("storage.segment_size", "1MiB");
        let running = setup.start();
        let (name_server, broker) = (running.name_server.clone(), running.broker.clone());
        Self { name_server, broker, setup, running: Mutex::new(running), kills: Mutex::default() }
    }

    /// Kills it as a crash would, and starts it again.
    pub(crate) fn kill_and_start(&self) {
        let mut running = self.running.lock().expect("nobody else kills it");
        self.kills.lock().expect("a list").push(Kill { before: now(), after: u64::MAX });
        running.kill();
        let after = now();
        self.kills.lock().expect("a list").last_mut().expect("this one").after = after;
        *running = self.setup.start();
    }

    /// The first kill that what was handed out then may not have outlived.
    pub(crate) fn kill_after(&self, handed_out: u64) -> Option<Kill> {
        let kills = self.kills.lock().unwrap_or_else(PoisonError::into_inner);
        kills.iter().find(|kill| kill.after >= handed_out).copied()
    }
}
