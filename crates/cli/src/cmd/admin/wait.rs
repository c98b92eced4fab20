//! What takes long does not take it in silence.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::say;

/// How long nothing is said.
const SILENCE: Duration = Duration::from_secs(5);

/// Does something, and says so on standard error if it takes long.
pub(super) fn patiently<T>(text: &str, act: impl FnOnce() -> T) -> T {
    let (doing, done) = mpsc::channel::<()>();
    let text = text.to_owned();
    // Where there is no thread for it, it is not said.
    let _ = thread::Builder::new().spawn(move || {
        if done.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
            say::note(text);
        }
    });
    let did = act();
    drop(doing);
    did
}
