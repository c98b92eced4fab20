//! What is promised of message queues, and what was seen of them.
//!
//! **Always holds**: it asks for nothing that a crash may have taken. A settlement, and that a message was handed out, are in the log once
//! that was told what has changed (`told`); a crash that the log outlives up to there takes neither.

use std::collections::BTreeMap;

use crate::oracle::{Checked, Rule, Violation, check};

/// The queues, by number.
pub(super) const QUEUES: [&str; 4] = ["plain", "work", "dead", "passing"];
pub(super) const PLAIN: usize = 0;
pub(super) const WORK: usize = 1;
/// Dead letters of `WORK`.
pub(super) const DEAD: usize = 2;
/// One that goes with the process: nobody consumes from it.
pub(super) const PASSING: usize = 3;

/// How far a fact is on its way into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    NotYet,
    /// It is below this.
    Below(u64),
}

impl Told {
    fn is_below(self, end: u64) -> bool {
        matches!(self, Self::Below(at) if at <= end)
    }
}

/// What is known of how often a message was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Never,
    Once(Told),
    /// It was, and a crash came before the log was told: who starts after that takes every message for handed out, until it stops.
    BeforeCrash,
    /// A crash may have come in between.
    Perhaps,
}

/// A message in one queue.
#[derive(Clone, Debug)]
struct Copy {
    /// The connection that has it, and by which number.
    held: Option<(usize, u64)>,
    given: Given,
    /// It was acknowledged.
    over: Option<Told>,
    /// An acknowledgement of it may outlive a crash: it need not be there any more.
    may_be_over: bool,
    /// It was rejected at some time: it may be among the dead letters.
    was_rejected: bool,
}

/// A message.
#[derive(Clone, Debug)]
struct Message {
    publisher: usize,
    is_persistent: bool,
    /// It must be there: this was confirmed.
    is_confirmed: bool,
    copies: BTreeMap<usize, Copy>,
    /// It was seen among the dead letters.
    was_dead: bool,
}

/// What ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// It stopped in good order.
    Stopped,
    /// The page cache stays.
    Killed,
    /// What was not synced may be gone.
    PowerCut,
    /// Another has the log now, which ends where its own ended, or earlier.
    Promoted {
        /// Whether it ends earlier.
        lacks_some: bool,
    },
}

/// The oracle.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    messages: BTreeMap<u64, Message>,
    /// What a client has published and not heard of, by the number of its confirm.
    unconfirmed: BTreeMap<(usize, u64), u64>,
    /// Messages of a publisher that a connection was given last, not having been given before, by queue.
    last: BTreeMap<(usize, usize, usize), u64>,
}

fn broken(rule: Rule, what: impl Into<String>) -> Violation {
    Violation::of(rule, what)
}

impl Oracle {
    /// A client publishes a message to some queues; its confirm has that number.
    pub(super) fn published(&mut self, id: u64, (publisher, tag): (usize, u64), is_persistent: bool, to: &[usize]) {
        let copy = Copy { held: None, given: Given::Never, over: None, may_be_over: false, was_rejected: false };
        let copies = to.iter().map(|queue| (*queue, copy.clone())).collect();
        let message = Message { publisher, is_persistent, is_confirmed: false, copies, was_dead: false };
        self.messages.insert(id, message);
        self.unconfirmed.insert((publisher, tag), id);
    }

    /// A client hears that messages are kept, or may not be.
    pub(super) fn confirmed(&mut self, client: usize, tag: u64, multiple: bool, is_kept: bool) -> Checked {
        let first = if multiple { 0 } else { tag };
        let known: Vec<_> =
            self.unconfirmed.range((client, first)..=(client, tag)).map(|(key, id)| (*key, *id)).collect();
        check(!known.is_empty(), Rule::AnswersAreWhole, || format!("client {client} hears of {tag} again"))?;
        for (key, id) in known {
            self.unconfirmed.remove(&key);
            if let Some(message) = self.messages.get_mut(&id) {
                message.is_confirmed |= is_kept;
            }
        }
        Ok(())
    }

    /// A client is given a message.
    pub(super) fn delivered(&mut self, client: usize, tag: u64, queue: usize, is_again: bool, id: u64) -> Checked {
        let nowhere = || broken(Rule::NothingComesFromNowhere, format!("message {id} in queue {queue}"));
        let message = self.messages.get_mut(&id).ok_or_else(nowhere)?;
        let publisher = message.publisher;
        if queue == DEAD {
            message.was_dead = true;
            let was_rejected = message.copies.get(&WORK).is_some_and(|copy| copy.was_rejected);
            return check(was_rejected, Rule::DeadLettersAreEarned, || format!("message {id} was never rejected"));
        }
        let copy = message.copies.get_mut(&queue).ok_or_else(nowhere)?;
        check(copy.over.is_none(), Rule::AcknowledgedIsOver, || {
            format!("message {id} of queue {queue} comes again after an acknowledgement: {copy:?}")
        })?;
        check(copy.held.is_none(), Rule::OneHasIt, || {
            format!("message {id} of queue {queue} is with {:?}", copy.held)
        })?;
        let is_right = match copy.given {
            Given::Never => !is_again,
            Given::Once(_) | Given::BeforeCrash => is_again,
            Given::Perhaps => true,
        };
        check(is_right, Rule::RedeliveryIsTold, || {
            format!("message {id} of queue {queue} comes, redelivered: {is_again}, and it was given: {:?}", copy.given)
        })?;
        copy.held = Some((client, tag));
        if !matches!(copy.given, Given::Once(_)) {
            copy.given = Given::Once(Told::NotYet);
        }
        if !is_again {
            let last = self.last.insert((client, queue, publisher), id);
            check(last.is_none_or(|last| last < id), Rule::QueuesKeepTheirOrder, || {
                format!("message {id} of queue {queue} comes after {last:?} of the same publisher")
            })?;
        }
        Ok(())
    }

    fn held_mut(&mut self, client: usize) -> impl Iterator<Item = (u64, &mut Copy)> {
        let copies = self.messages.values_mut().flat_map(|message| message.copies.values_mut());
        copies.filter_map(move |copy| match copy.held {
            Some((holder, tag)) if holder == client => Some((tag, copy)),
            _ => None,
        })
    }

    /// A client acknowledges what it was given by numbers from `first` to `last`.
    pub(super) fn acknowledged(&mut self, client: usize, first: u64, last: u64) {
        for (_, copy) in self.held_mut(client).filter(|(tag, _)| (first..=last).contains(tag)) {
            (copy.held, copy.over) = (None, Some(Told::NotYet));
        }
    }

    /// It gives something back, or rejects it.
    pub(super) fn returned(&mut self, client: usize, tag: u64, is_rejected: bool) {
        for (_, copy) in self.held_mut(client).filter(|(held, _)| *held == tag) {
            copy.held = None;
            copy.was_rejected |= is_rejected;
        }
    }

    /// A client's connection is gone.
    pub(super) fn lost(&mut self, client: usize) {
        self.held_mut(client).for_each(|(_, copy)| copy.held = None);
        self.last.retain(|(of, ..), _| *of != client);
        self.unconfirmed.retain(|(of, _), _| *of != client);
    }

    /// The log, up to `end`, tells what has happened so far.
    pub(super) fn told(&mut self, end: u64) {
        let tell = |told: &mut Told| {
            if *told == Told::NotYet {
                *told = Told::Below(end);
            }
        };
        for copy in self.messages.values_mut().flat_map(|message| message.copies.values_mut()) {
            copy.over.as_mut().into_iter().for_each(tell);
            if let Given::Once(told) = &mut copy.given {
                tell(told);
            }
        }
    }

    /// The process has ended. Of its log, all below `end` is there.
    pub(super) fn crashed(&mut self, crash: Crash, end: u64) {
        (self.last, self.unconfirmed) = (BTreeMap::new(), BTreeMap::new());
        for message in self.messages.values_mut() {
            message.is_confirmed &= match crash {
                Crash::Stopped | Crash::Killed | Crash::Promoted { lacks_some: false } => true,
                Crash::PowerCut | Crash::Promoted { lacks_some: true } => message.is_persistent,
            };
            for copy in message.copies.values_mut() {
                copy.held = None;
                if copy.over.is_some_and(|over| !over.is_below(end)) {
                    (copy.over, copy.may_be_over) = (None, true);
                }
                copy.given = match (copy.given, crash) {
                    (Given::Once(told), _) if told.is_below(end) => Given::Once(told),
                    (Given::Once(_) | Given::BeforeCrash, Crash::Killed | Crash::PowerCut) => Given::BeforeCrash,
                    _ => Given::Perhaps,
                };
            }
        }
    }

    /// Nothing keeps confirms from coming any more.
    pub(super) fn check_answered(&self) -> Checked {
        check(self.unconfirmed.is_empty(), Rule::RequestsAreAnswered, || {
            format!("nobody hears of {:?}", self.unconfirmed)
        })
    }

    /// Everything was given to somebody who settles nothing: what has to be there was there.
    pub(super) fn check_all_given(&self) -> Checked {
        for (id, message) in self.messages.iter().filter(|(_, message)| message.is_confirmed) {
            for (queue, copy) in &message.copies {
                let is_there = copy.held.is_some() || copy.over.is_some() || (copy.was_rejected && message.was_dead);
                check(is_there || copy.may_be_over, Rule::NothingAcknowledgedIsLost, || {
                    format!("message {id} of queue {queue} was confirmed, and is not there: {message:?}")
                })?;
            }
        }
        Ok(())
    }
}
