//! Dead letters: messages that a queue gives up go on to an exchange, with a note of how they died.
//!
//! **Always holds**: the log is told at once of the copies and that the message is settled, so that a crash neither loses it nor makes a second
//! copy. What full queues refuse costs no more than a bounded number of dead letters, however their exchanges lead to each other.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::{BATCH_RECORDS_SIZE_MAX, STAGED_SIZE_MAX};
use base::{Now, Refusal, Timestamp};
use format::model::{Overflow, Text};
use format::record::Record;
use format::routed::{Routed, RoutedError};

use super::Model;
use super::commit::Settling;
use super::message_queue::MessageQueue;
use super::publish::RoutedMessage;
use super::sweep::LOOK_AGAIN_MS;
use crate::error::internal;
use crate::leasing::{DoomReason, Doomed};
use crate::publish::PublishBatch;
use crate::routing::Headers;

/// What the dead letters of one message may cost that full queues refuse: one for each, for each queue to which it is offered, and for each KiB
/// that it says of itself, which grows with each death.
const REFUSED_COST_MAX: usize = 4096;

/// How a message died.
#[derive(Clone, Copy, Debug)]
pub struct Death<'a> {
    /// Why.
    pub reason: DoomReason,
    /// In which queue.
    pub queue: &'a [u8],
    /// By which exchange it came there.
    pub exchange: &'a [u8],
    /// By which key.
    pub key: &'a [u8],
    /// When.
    pub time: Timestamp,
    /// How often it has died before: at 0 what it says of that is its producer's own.
    pub deaths_before: u32,
    /// By which key it goes on; none: by those it came by.
    pub next_key: Option<&'a [u8]>,
}

/// A message that says how it died.
#[derive(Debug, Default)]
pub struct Noted {
    /// What it says of itself now.
    pub header: Vec<u8>,
    /// By which keys it goes on.
    pub keys: Vec<Box<[u8]>>,
    /// Queues to which it must not go: it would go round for ever.
    pub closed: Vec<Box<[u8]>>,
    /// Its priority.
    pub priority: u8,
    /// Whether it is to survive a power cut.
    pub is_persistent: bool,
}

/// How a message says that it died: for the dialect that reads what a message says of itself.
pub trait DeadLetterForm: Debug + Send + Sync {
    /// A message with this said of itself, once it has died; `None` if that cannot be read.
    fn note(&self, header: &[u8], death: &Death<'_>) -> Option<Noted>;

    /// Its headers, for exchanges that route by them.
    fn headers<'a>(&self, header: &'a [u8]) -> Box<dyn Headers + 'a>;
}

/// Says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Headers for Plain {
    fn get(&self, _name: &[u8]) -> Option<&[u8]> {
        None
    }
}

impl DeadLetterForm for Plain {
    fn note(&self, header: &[u8], death: &Death<'_>) -> Option<Noted> {
        let keys = vec![death.next_key.unwrap_or(death.key).into()];
        Some(Noted { header: header.to_vec(), keys, ..Noted::default() })
    }

    fn headers<'a>(&self, _header: &'a [u8]) -> Box<dyn Headers + 'a> {
        Box::new(Plain)
    }
}

/// The message that a record is; `None`: it is damaged. One of a newer version is another program's to deal with.
fn readable(bytes: &[u8]) -> Result<Option<Routed<'_>>, Refusal> {
    match Routed::decode(bytes) {
        Ok(routed) => Ok(Some(routed)),
        Err(error @ RoutedError::Newer(_)) => Err(internal(error)),
        Err(_) => Ok(None),
    }
}

/// A message that has died, on its way to queues.
#[derive(Debug)]
struct DeadLetter {
    exchange: Text,
    noted: Noted,
    deaths: u32,
    queues: Vec<Arc<MessageQueue>>,
}

impl DeadLetter {
    /// As it is published; `died` has its body.
    fn of<'a>(&'a self, died: &RoutedMessage<'a>) -> RoutedMessage<'a> {
        RoutedMessage {
            exchange: &self.exchange,
            key: self.noted.keys.first().map_or(&[], |key| key),
            header: &self.noted.header,
            priority: self.noted.priority,
            is_persistent: self.noted.is_persistent,
            time_to_live_ms: None,
            deaths: self.deaths,
            ..*died
        }
    }
}

impl Model {
    /// Has messages of a queue go on as dead letters, if it has an exchange for them. What fails is told, and tried again after a while;
    /// gives whether nothing did. Waits for the disk.
    pub fn give_up(&self, queue: &Arc<MessageQueue>, doomed: Vec<Doomed>, now: Now) -> bool {
        let mut failed = false;
        for doomed in doomed {
            let Err(error) = self.give_up_one(queue, &doomed, now) else { continue };
            doomed.postpone(now.monotonic);
            if !failed {
                let queue = super::error::Shown(queue.name());
                tracing::warn!(%error, %queue, "a message cannot be made a dead letter; it is tried again");
            }
            failed = true;
        }
        if failed {
            self.timers.watch_messages(queue, now.wall.plus_ms(LOOK_AGAIN_MS));
        }
        !failed
    }

    fn give_up_one(&self, queue: &MessageQueue, doomed: &Doomed, now: Now) -> Result<(), Refusal> {
        if self.store.staged_size() >= STAGED_SIZE_MAX {
            return Err(Refusal::Busy("the log is behind".to_owned()));
        }
        if queue.rules().dead_letter_exchange.is_some()
            && let Some(bytes) = doomed.read(&self.store)?
            && let Ok(record) = Record::decode(&bytes)
            && let Some(routed) = readable(&bytes)?
        {
            let mut batch = self.begin_batch(bytes.len(), now);
            let message = RoutedMessage {
                exchange: routed.exchange,
                key: routed.key,
                header: routed.header,
                body: &[routed.body],
                priority: 0,
                time_to_live_ms: None,
                is_persistent: false,
                born_host: record.born_host,
                deaths: u32::try_from(record.reconsume_times).unwrap_or_default(),
            };
            if let Some(letter) = self.letter_of(queue, &message, doomed.reason, now.wall) {
                self.add(&mut batch, &letter.queues, &letter.of(&message))?;
            }
            if !batch.is_empty() {
                let settling =
                    Settling { lane: doomed.lane.clone(), owner: doomed.owner, offsets: vec![doomed.offset] };
                return self.commit(batch, &[settling], now).map(drop);
            }
        }
        doomed.lane.settle(doomed.owner, [doomed.offset]);
        Ok(())
    }

    /// Adds the dead letters of a message that queues refuse for being full, and those of dead letters that are refused in turn. Each queue
    /// has one of it go on, whatever ways lead there; those beyond what one message may cost are lost.
    pub(super) fn bury_refused(
        &self,
        batch: &mut PublishBatch,
        message: &RoutedMessage<'_>,
        refused_by: Vec<Arc<MessageQueue>>,
    ) -> Result<(), Refusal> {
        let mut known = BTreeSet::new();
        let mut is_first = |queue: &Arc<MessageQueue>| {
            queue.rules().overflow == Overflow::RejectAndDeadLetter && known.insert(queue.number())
        };
        let refused_by = refused_by.into_iter().filter(&mut is_first);
        let mut refusals: VecDeque<_> = refused_by.map(|queue| (queue, None::<Rc<DeadLetter>>)).collect();
        let (before, mut cost) = (batch.size(), 0);
        while let Some((queue, refused)) = refusals.pop_front() {
            if cost >= REFUSED_COST_MAX || batch.size() - before >= BATCH_RECORDS_SIZE_MAX {
                break;
            }
            let refused = refused.as_ref().map_or(*message, |letter| letter.of(message));
            let Some(letter) = self.letter_of(&queue, &refused, DoomReason::TooMany, batch.now().wall) else {
                continue;
            };
            cost += 1 + letter.queues.len() + letter.noted.header.len() / 1024;
            let (refused_by, letter) = (self.place(batch, &letter.queues, &letter.of(message))?, Rc::new(letter));
            let refused_by = refused_by.into_iter().filter(&mut is_first);
            refusals.extend(refused_by.map(|queue| (queue, Some(letter.clone()))));
        }
        Ok(())
    }

    /// What becomes of a message that died in a queue; `None`: nothing.
    fn letter_of(
        &self,
        queue: &MessageQueue,
        message: &RoutedMessage<'_>,
        reason: DoomReason,
        time: Timestamp,
    ) -> Option<DeadLetter> {
        let rules = queue.rules();
        let exchange = rules.dead_letter_exchange.as_ref()?;
        let host = self.host(queue.host()).ok()?;
        let death = Death {
            reason,
            queue: queue.name(),
            exchange: message.exchange,
            key: message.key,
            time,
            deaths_before: message.deaths,
            next_key: rules.dead_letter_key.as_deref(),
        };
        let form = &self.options.death_form;
        let noted = form.note(message.header, &death)?;
        let keys: Vec<&[u8]> = noted.keys.iter().map(|key| &**key).collect();
        let headers = form.headers(&noted.header);
        let mut queues: Vec<Arc<MessageQueue>> = Vec::new();
        host.route(exchange, &keys, Some(&*headers), &mut queues);
        drop((keys, headers));
        queues.retain(|target| !noted.closed.iter().any(|closed| **closed == *target.name()));
        self.metrics.dead_letters.add(1);
        Some(DeadLetter { exchange: exchange.clone(), noted, deaths: message.deaths.saturating_add(1), queues })
    }
}
