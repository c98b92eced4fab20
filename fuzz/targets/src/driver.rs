//! Drives a session as the server does, without sockets, tasks or a clock, and watches what must hold meanwhile.

use base::Now;
use base::session::{CloseReason, Session};
use bytes::BytesMut;
use wire::rocketmq::frame::{Command, frame_len};

/// Bytes an input of a few kilobytes may be answered with: every request once with the largest answer.
const OUTPUT_SIZE_MAX: usize = 256 * 1024 * 1024;

/// Rounds of jobs and wake-ups after which a session must have come to rest.
const ROUNDS_MAX: usize = 1000;

/// What a session wrote.
#[derive(Default)]
pub struct Written {
    /// Responses.
    pub responses: usize,
    /// Requests of the server's own.
    pub requests: usize,
    size: usize,
}

/// Feeds `pieces` one after the other, goes on until nothing is left to do, and closes. Gives what was written.
pub fn drive(session: &mut dyn Session, pieces: Vec<BytesMut>, mut now: Now) -> Written {
    let mut written = Written::default();
    let mut input = BytesMut::new();
    for piece in pieces {
        input.extend_from_slice(&piece);
        if feed(session, &mut input, now, &mut written).is_err() {
            break;
        }
        now = now.plus_ms(7);
    }
    for _ in 0..4 {
        let Some(deadline) = session.deadline() else { break };
        now = now.plus_ms(deadline.ms_since(now.monotonic) + 1);
        settle(session, now, &mut written);
    }
    assert!(session.deadline().is_none_or(|deadline| deadline > now.monotonic), "a deadline that passed is dealt with");
    session.closed(now);
    written
}

/// Offers `input` as long as the session takes some of it, and does its work in between.
fn feed(session: &mut dyn Session, input: &mut BytesMut, now: Now, written: &mut Written) -> Result<(), CloseReason> {
    loop {
        let before = input.len();
        let received = session.receive(input, now);
        assert!(input.len() <= before, "a session only takes input away");
        settle(session, now, written);
        received?;
        if input.len() == before || input.is_empty() {
            return Ok(());
        }
    }
}

fn settle(session: &mut dyn Session, now: Now, written: &mut Written) {
    for _ in 0..ROUNDS_MAX {
        let mut is_quiet = true;
        while let Some(job) = session.take_job() {
            job();
            is_quiet = false;
        }
        session.wake(now);
        is_quiet &= session.output().is_empty();
        let bytes = session.output().take_all();
        written.size += bytes.len();
        assert!(written.size <= OUTPUT_SIZE_MAX, "the answers are out of all proportion");
        read(&bytes, written);
        if is_quiet {
            return;
        }
    }
    panic!("the session does not come to rest");
}

/// Everything a session writes is whole frames that decode.
fn read(mut bytes: &[u8], written: &mut Written) {
    while !bytes.is_empty() {
        let length = frame_len(bytes).expect("a frame").expect("a whole frame");
        let command = Command::decode(&bytes[..length]).expect("a frame that decodes");
        command.fields.pairs().expect("fields that decode");
        if command.header.is_response() {
            written.responses += 1;
        } else {
            written.requests += 1;
        }
        bytes = &bytes[length..];
    }
}
