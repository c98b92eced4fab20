//! What consumers give back: stored again by a job, which reads the message; answered once it is as safe as a send.
//!
//! Its answer cannot say, as a send's can, that replicas lack it: where they are out of reach or take too long it is answered once it is
//! safe here.

use std::collections::VecDeque;

use base::offset::AckPolicy;
use base::{GroupName, LogOffset, Monotonic, Refusal};
use broker::{Awaited, Published, SendBack};
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
    end: LogOffset,
    /// Replicas are not waited for any longer.
    deadline: Monotonic,
    awaited: Awaited,
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
                let deadline = connection.now.monotonic.plus_ms(connection.options.replica_timeout_ms);
                let end = published.end();
                let policy = connection.broker.options().ack_policy;
                let awaited = connection.broker.durability.when(policy, end, &connection.peer.mailbox.waker());
                if policy == AckPolicy::REPLICATED {
                    // Should replicas not answer in time, it is enough that it is written.
                    connection.broker.durability.when(AckPolicy::WRITTEN, end, &connection.peer.mailbox.waker());
                }
                self.waiting.push_back(Waiting { asked, end, deadline, awaited });
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
        let now = connection.now.monotonic;
        let (broker, policy) = (connection.broker.clone(), connection.broker.options().ack_policy);
        let (durability, here) = (&broker.durability, AckPolicy { replicated: false, ..policy });
        let waker = connection.peer.mailbox.waker();
        self.waiting.retain_mut(|Waiting { asked, end, deadline, awaited }| {
            let are_in_reach = policy.replicated && durability.replicas().are_in_reach(*end);
            let waits_for_replicas = are_in_reach && *deadline > now;
            let refusal = durability.poisoned();
            if durability.is_kept(if waits_for_replicas { policy } else { here }, *end) {
                connection.reply_with(*asked, Ok(Answer::ok()));
            } else if let Some(refusal) = refusal {
                connection.refuse(*asked, &refusal);
            } else {
                durability.when_still(awaited, are_in_reach, *end, &waker);
                return true;
            }
            false
        });
    }

    /// When one of them waits for replicas no longer.
    pub(super) fn deadline(&self, now: Monotonic) -> Option<Monotonic> {
        self.waiting.iter().map(|waiting| waiting.deadline).find(|deadline| *deadline > now)
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
