//! What pulls and look-ups by key are given.

use format::record::{self, Record};

use super::messages::known_topic;
use super::pops::group_of_dead;
use super::{Checked, Oracle, Rule, Scene, Taken, Violation, check};
use crate::connection::Reply;
use crate::request::{Pulling, number_in};

/// Answers to pulls: messages; none; none yet, come again; go on elsewhere.
const FOUND: i32 = 0;
const PULL_CODES: [i32; 4] = [FOUND, 19, 20, 21];
const NOTHING: i32 = 19;

impl Oracle {
    pub(super) fn pulled(&mut self, pulling: &Pulling, taken: &Taken, reply: &Reply, scene: &Scene) -> Checked {
        let epoch = self.queues.epoch_of(Some(pulling.queue.0));
        let Some(epoch) = epoch.filter(|epoch| taken.epoch == Some(*epoch)) else { return Ok(()) };
        if !PULL_CODES.contains(&reply.code) {
            return Ok(());
        }
        let bounds = (reply.number("nextBeginOffset"), reply.number("minOffset"), reply.number("maxOffset"));
        let (Some(next), Some(first), Some(end)) = bounds else {
            return Err(Violation::of(Rule::AnswersAreWhole, format!("{pulling:?} is answered with {reply}")));
        };
        self.check_bounds(pulling, taken, (first, end), scene)?;
        let is_at_end = reply.code == NOTHING;
        check(!is_at_end || pulling.offset >= taken.known_end as i64, Rule::NothingAcknowledgedIsLost, || {
            format!("{pulling:?} is told that there is nothing, and there are messages up to {}", taken.known_end)
        })?;
        if reply.code == FOUND {
            self.records_given(pulling, (reply, next), epoch, scene)?;
        }
        Ok(())
    }

    /// No message that is known lies outside of what the queue is said to be, unless retention took it.
    fn check_bounds(&self, pulling: &Pulling, taken: &Taken, (first, end): (i64, i64), scene: &Scene) -> Checked {
        let (topic, queue) = pulling.queue;
        check(end >= taken.known_end as i64, Rule::NothingAcknowledgedIsLost, || {
            format!("{topic}/{queue} is said to end at {end}, and had messages up to {}", taken.known_end)
        })?;
        let kept = self
            .queues
            .before(pulling.queue, first.max(0) as u64)
            .find(|(_, known)| known.log_offset >= scene.log_first);
        check(kept.is_none(), Rule::NothingAcknowledgedIsLost, || {
            format!("{topic}/{queue} is said to begin at {first}, and the log has {kept:?} still")
        })
    }

    fn records_given(&mut self, pulling: &Pulling, (reply, next): (&Reply, i64), epoch: u64, scene: &Scene) -> Checked {
        let mut expected_at = pulling.offset;
        for bytes in record::split(&reply.body) {
            let record =
                Record::decode(bytes).map_err(|error| Violation::of(Rule::AnswersAreWhole, error.to_string()))?;
            check(record.body_is_intact(), Rule::AnswersAreWhole, || {
                format!("a damaged record in the answer to {pulling:?}")
            })?;
            let offset = record.queue_offset.0;
            check(offset as i64 >= expected_at, Rule::QueuesKeepTheirOrder, || {
                format!("{pulling:?} is given {offset} where {expected_at} or a later one is next")
            })?;
            self.check_gap(pulling, (expected_at, offset as i64), scene)?;
            expected_at = offset as i64 + 1;
            self.record_given(pulling, &record, epoch)?;
        }
        check(next >= expected_at, Rule::QueuesKeepTheirOrder, || {
            format!("{pulling:?} is to go on at {next} behind {expected_at}")
        })?;
        self.check_gap(pulling, (expected_at, next), scene)
    }

    /// Nothing is passed over but what cannot be read, or went while it was read.
    fn check_gap(&self, pulling: &Pulling, (from, to): (i64, i64), scene: &Scene) -> Checked {
        for offset in from.max(0) as u64..to.max(0) as u64 {
            let known = self.queues.at(pulling.queue, offset);
            let is_excused = match known {
                Some(known) => known.is_excused(scene),
                None => !scene.unreadable.is_empty(),
            };
            check(is_excused, Rule::NothingAcknowledgedIsLost, || {
                let (topic, queue) = pulling.queue;
                format!("a pull of {topic}/{queue} from {} on passes over {offset}: {known:?}", pulling.offset)
            })?;
        }
        Ok(())
    }

    fn record_given(&mut self, pulling: &Pulling, record: &Record<'_>, epoch: u64) -> Checked {
        let (topic, queue) = pulling.queue;
        let here = || format!("{} of {topic}/{queue}", record.queue_offset);
        check(record.topic == topic && record.queue.0 == queue, Rule::OffsetsNameOneMessage, || {
            format!("{} gives a message of {}/{}", here(), record.topic, record.queue)
        })?;
        let number = number_in(record.body);
        let number = number.ok_or_else(|| Violation::of(Rule::NothingComesFromNowhere, here()))?;
        let identity = (number, record.reconsume_times);
        if let Some(group) = group_of_dead(topic) {
            self.dead_letter_given(group, number, record)?;
            let place = (record.queue_offset.0, (identity, record.body.len() as u64), record.log_offset.0);
            return self.queues.put(pulling.queue, place.0, place.1, place.2, false);
        }
        let expected = self.messages().seen(topic, identity, epoch)?.clone();
        let offset = record.queue_offset.0;
        self.queues.put(pulling.queue, offset, (identity, expected.body_size()), record.log_offset.0, false)?;
        if let (Some(due), Some(appeared)) = (expected.due(), self.queues.appeared(pulling.queue, offset)) {
            let is_early = appeared.lived < due.lived && self.latest_wall(expected.sent_lived(), appeared) < due.wall;
            check(!is_early, Rule::DelayedIsNotEarly, || {
                format!("m{number} at {} is due at {due:?} and was there at {appeared:?}", here())
            })?;
        }
        self.check_copies(topic, identity, &expected)
    }

    /// A look-up by a message's key gives that message.
    pub(super) fn found(&self, topic: &str, number: u64, reply: &Reply, scene: &Scene) -> Checked {
        let found = record::split(&reply.body).filter_map(|bytes| Record::decode(bytes).ok());
        let is_found = found.into_iter().any(|record| number_in(record.body) == Some(number));
        let is_expected =
            known_topic(topic).is_some_and(|topic| self.queues.expected_in(topic, scene).contains(&number));
        check(is_found || !is_expected, Rule::KeysAreFound, || format!("m{number} in {topic}: {reply}"))
    }
}
