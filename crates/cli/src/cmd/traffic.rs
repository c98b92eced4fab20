//! What `sluice produce` and `sluice consume` share: how they end (as `sluice admin` does), when they are asked to, and what is wrong with
//! their options.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use client::{ClientError, Target};

use crate::say;

/// Exit code when it was begun and not all of it done, or the broker refused it.
pub(super) const NOT_ALL: u8 = 1;
/// Exit code when the command line is wrong.
pub(super) const WRONG: u8 = 2;
/// Exit code when nobody could be asked.
pub(super) const UNASKED: u8 = 3;
/// Exit code of who is stopped by a second Ctrl-C.
const INTERRUPTED: i32 = 130;

static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// How both end, for their help.
macro_rules! exit_codes {
    () => {
        "Ends with 0 if all of it was done, 1 if not, 2 if the command line is wrong, 3 if no broker could\nbe asked."
    };
}
pub(super) use exit_codes;

/// Why not all was done.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command line is wrong.
    Wrong(String),
    /// A broker has refused, or something has failed on the way.
    NotAll(String),
    /// Nobody could be asked.
    Unasked(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unreachable { .. } => Self::Unasked(error.to_string()),
            ClientError::WrongTarget { .. } | ClientError::Unusable { .. } => Self::Wrong(error.to_string()),
            _ => Self::NotAll(error.to_string()),
        }
    }
}

/// Ends with the code of what became of it; says why not all was done.
pub(super) fn ended(done: Result<(), Failure>) -> ExitCode {
    let (code, text) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::NotAll(text)) => (NOT_ALL, text),
        Err(Failure::Wrong(text)) => (WRONG, text),
        Err(Failure::Unasked(text)) => (UNASKED, text),
    };
    say::problem(text);
    ExitCode::from(code)
}

/// From here on Ctrl-C asks to end in order, and the second one ends at once.
pub(super) fn watch_for_stop() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        if IS_STOPPED.swap(true, Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    })
    .map_err(|error| Failure::NotAll(format!("Ctrl-C cannot be watched for: {error}")))
}

/// Whether it was asked to end.
pub(super) fn is_stopped() -> bool {
    IS_STOPPED.load(Relaxed)
}

/// Refuses options that the protocol of the target has no meaning for: each with whether it was given.
pub(super) fn refuse(target: &Target, amqp: &[(&str, bool)], rocketmq: &[(&str, bool)]) -> Result<(), Failure> {
    let (protocol, options) = match target {
        Target::Amqp(_) => ("AMQP", rocketmq),
        Target::NameServer(_) | Target::Broker(_) => ("RocketMQ's protocol", amqp),
    };
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Failure::Wrong(format!("{protocol}, which the target speaks, has no {name}"))),
        None => Ok(()),
    }
}

/// A number with blanks between thousands.
pub(super) fn grouped(number: u64) -> impl Display {
    let digits = number.to_string();
    let parts: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    parts.join(" ")
}
