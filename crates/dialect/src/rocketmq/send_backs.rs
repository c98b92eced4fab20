//! What consumers give back: stored again by a job, which reads the message; answered once it is as safe as a send.
//!
//! Its answer cannot say, as a send's can, that replicas lack it: where they are out of reach or take too long it is answered once it is
//! safe here.

use std::collections::VecDeque;

use base::{GroupName, LogOffset, Monotonic, Refusal};
use broker::{Published, SendBack, Standing, Wait};
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::SendBackRequest;

use super::answer::{Answer, Asked, header};
use super::connection::{Connection, Done};

/// Messages of one connection that may wait to be safe: more are not read.
const WAITING_MAX: usize = 4096;

/// What became of one: where it is stored, if its group keeps any.
pub(super) type SendBackOutcome = (Asked, Result<Option<Published>, Refusal>);

/// One that is stored, and not yet safe.
struct Waiting {
    asked: Asked,
    wait: Wait,
}

/// Those of one connection.
#[derive(Default)]
pub(super) struct SendBacks {
    waiting: VecDeque<Waiting>,
}

impl SendBacks {
    /// Has a message stored again; the request's job takes `size` bytes.
    pub(super) fn begin(command: &Command<'_>, size: usize, asked: Asked, connection: &mut Connection) {
        let request = connection.check_room().and_then(|()| read(command));
        let request = match request {
            Ok(request) => request,
            Err(refusal) => return connection.refuse(asked, &refusal),
        };
        let (broker, now) = (connection.broker.clone(), connection.now);
        connection.run_job(size, move || Done::SendBack(Box::new((asked, broker.retries.send_back(&request, now)))));
    }

    /// A job is done: its request is answered once the message is safe.
    pub(super) fn finish(&mut self, (asked, outcome): SendBackOutcome, connection: &mut Connection) {
        match outcome {
            Ok(Some(published)) => {
                let replicas_until = connection.now.monotonic.plus_ms(connection.options.replica_timeout_ms);
                let wait = Wait::new(connection.broker.options().ack_policy, published.end(), replicas_until, None);
                self.waiting.push_back(Waiting { asked, wait });
            }
            Ok(None) => connection.reply_with(asked, Ok(Answer::ok())),
            Err(refusal) => connection.refuse(asked, &refusal),
        }
    }

    /// Answers those that are safe, or never will be.
    pub(super) fn release(&mut self, connection: &mut Connection) {
        if self.waiting.is_empty() {
            return;
        }
        let (broker, mailbox, now) =
            (connection.broker.clone(), connection.peer.mailbox.clone(), connection.now.monotonic);
        self.waiting.retain_mut(|Waiting { asked, wait }| {
            match wait.look(&broker.durability, now, || mailbox.waker()) {
                Standing::Kept | Standing::Lacks(_) => connection.reply_with(*asked, Ok(Answer::ok())),
                Standing::Lost(refusal) => connection.refuse(*asked, &refusal),
                Standing::Waits => return true,
            }
            false
        });
    }

    /// When they are to be released though nothing has woken the session.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.waiting.iter().filter_map(|waiting| waiting.wait.deadline()).min()
    }

    /// Whether there is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    /// Bytes that those take whose answers wait.
    pub(super) fn size(&self) -> usize {
        self.waiting.len() * size_of::<Waiting>()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

fn read(command: &Command<'_>) -> Result<SendBack, Refusal> {
    let request: SendBackRequest<'_> = header(command)?;
    let offset = u64::try_from(request.offset).map_err(|_| {
        Refusal::BadRequest(format!("the header field <offset> is [{}]; expected 0 or more", request.offset))
    })?;
    Ok(SendBack {
        group: GroupName::checked(&request.group)?,
        log_offset: LogOffset(offset),
        delay_level: request.delay_level,
        redeliveries_max: request.max_reconsume_times,
    })
}
