//! Which message lies at which offset of which queue, as far as answers and pulls have told.

use std::collections::{BTreeMap, BTreeSet};

use super::{ByName, Checked, Moment, Rule, Scene, Stopped, Violation, check};
use crate::node::Bounds;
use crate::request::Queue;

/// Bytes a record takes beside its body, at most.
const RECORD_OVERHEAD_MAX: u64 = 700;

/// Which message something is: its number, and how often it was tried.
pub(super) type Identity = (u64, i32);

/// A message at its offset.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) identity: Identity,
    pub(super) log_offset: u64,
    /// Bytes of its body.
    pub(super) body_size: u64,
    is_durable: bool,
}

/// The queues of a topic by number, each with the messages by offset.
type ByNumber = BTreeMap<u32, BTreeMap<u64, Known>>;

/// A topic between two removals.
#[derive(Debug, Default)]
struct Topic {
    epoch: u64,
    /// It is being removed, or a removal has failed: nothing is sure.
    is_unsure: bool,
    queues: ByNumber,
    /// Below these offsets messages were on the disk: none of them is given again.
    durable_ends: BTreeMap<u32, u64>,
    /// Where queues ended when they were last looked at, and when each offset came to be.
    ends: BTreeMap<u32, u64>,
    appeared: BTreeMap<(u32, u64), Moment>,
}

/// All queues.
#[derive(Debug, Default)]
pub(super) struct Queues {
    topics: ByName<Topic>,
}

impl Known {
    /// Whether retention has taken it, or the disk cannot read it.
    pub(super) fn is_excused(&self, scene: &Scene) -> bool {
        let end = self.log_offset + self.body_size + RECORD_OVERHEAD_MAX;
        let touches = |range: &std::ops::Range<u64>| range.start < end && self.log_offset < range.end;
        self.log_offset < scene.log_first || scene.unreadable.iter().any(touches)
    }
}

impl Queues {
    /// Which life of the topic this is; `None` while that is not sure.
    pub(super) fn epoch_of(&self, topic: Option<&str>) -> Option<u64> {
        let known = topic.and_then(|topic| self.topics.get(topic));
        known.map_or(Some(0), |topic| (!topic.is_unsure).then_some(topic.epoch))
    }

    /// One past the last message that is known of a queue.
    pub(super) fn end_of(&self, (topic, queue): Queue) -> u64 {
        let queue = self.topics.get(topic).and_then(|topic| topic.queues.get(&queue));
        queue.and_then(|queue| queue.last_key_value()).map_or(0, |(offset, _)| offset + 1)
    }

    pub(super) fn at(&self, (topic, queue): Queue, offset: u64) -> Option<&Known> {
        self.topics.get(topic)?.queues.get(&queue)?.get(&offset)
    }

    /// When the message at an offset came to be there, at the latest.
    pub(super) fn appeared(&self, (topic, queue): Queue, offset: u64) -> Option<Moment> {
        self.topics.get(topic)?.appeared.get(&(queue, offset)).copied()
    }

    /// Messages known before `offset`.
    pub(super) fn before(&self, (topic, queue): Queue, offset: u64) -> impl Iterator<Item = (&u64, &Known)> {
        let queue = self.topics.get(topic).and_then(|topic| topic.queues.get(&queue));
        queue.into_iter().flat_map(move |queue| queue.range(..offset))
    }

    pub(super) fn removal_taken(&mut self, topic: &'static str) {
        self.topics.entry(topic).or_default().is_unsure = true;
    }

    pub(super) fn removed(&mut self, topic: &'static str) {
        let known = self.topics.entry(topic).or_default();
        *known = Topic { epoch: known.epoch + 1, ..Topic::default() };
    }

    /// A message was seen, or said to be, at an offset.
    pub(super) fn put(
        &mut self,
        (topic, queue): Queue,
        offset: u64,
        (identity, body_size): (Identity, u64),
        log_offset: u64,
        is_durable: bool,
    ) -> Checked {
        let known = self.topics.entry(topic).or_default();
        let shown = || format!("offset {offset} of {topic}/{queue}");
        if let Some(before) = known.queues.get_mut(&queue).and_then(|queue| queue.get_mut(&offset)) {
            before.is_durable |= is_durable;
            let is_same = before.identity == identity && before.log_offset == log_offset;
            return check(is_same, Rule::OffsetsNameOneMessage, || {
                let (was, was_at) = (before.identity, before.log_offset);
                format!(
                    "{} was m{} ({} tries) at {was_at} of the log, and is m{} ({} tries) at {log_offset}",
                    shown(),
                    was.0,
                    was.1,
                    identity.0,
                    identity.1
                )
            });
        }
        let messages = known.queues.entry(queue).or_default();
        let earlier = messages.range(..offset).next_back();
        let later = messages.range(offset..).next();
        let is_ordered = earlier.is_none_or(|(_, one)| one.log_offset < log_offset)
            && later.is_none_or(|(_, one)| log_offset < one.log_offset);
        check(is_ordered, Rule::QueuesKeepTheirOrder, || {
            format!("{} lies at {log_offset} of the log, its neighbours at {earlier:?} and {later:?}", shown())
        })?;
        messages.insert(offset, Known { identity, log_offset, body_size, is_durable });
        Ok(())
    }

    /// How often a message is there.
    pub(super) fn count_of(&self, topic: &str, identity: Identity) -> usize {
        let queues = self.topics.get(topic).into_iter().flat_map(|topic| topic.queues.values());
        queues.flat_map(|queue| queue.values()).filter(|known| known.identity == identity).count()
    }

    pub(super) fn synced(&mut self) {
        for topic in self.topics.values_mut() {
            for (queue, messages) in &mut topic.queues {
                messages.values_mut().for_each(|known| known.is_durable = true);
                if let Some((last, _)) = messages.last_key_value() {
                    let end = topic.durable_ends.entry(*queue).or_default();
                    *end = (*end).max(last + 1);
                }
            }
        }
    }

    /// Notes where queues end: they never go back while the node runs.
    pub(super) fn looked(&mut self, bounds: &Bounds, scene: &Scene) -> Checked {
        for ((name, queue), (_, end)) in bounds {
            let Some(name) = super::messages::known_topic(name) else { continue };
            let topic = self.topics.entry(name).or_default();
            let before = topic.ends.insert(*queue, *end).unwrap_or_default();
            if topic.is_unsure {
                continue;
            }
            check(before <= *end, Rule::OffsetsNameOneMessage, || {
                format!("{name}/{queue} ended at {before} and ends at {end}")
            })?;
            (before..*end).for_each(|offset| {
                topic.appeared.insert((*queue, offset), scene.now);
            });
        }
        Ok(())
    }

    /// What was written is there after a kill, what was synced after a power cut; a power cut takes from the log's end only. Gives
    /// what it took.
    pub(super) fn restarted(
        &mut self,
        how: Stopped,
        bounds: &Bounds,
        scene: &Scene,
    ) -> Result<BTreeSet<(&'static str, Identity)>, Violation> {
        let mut lost = BTreeMap::new();
        let mut last_kept = None;
        for (name, topic) in self.topics.iter_mut().filter(|(_, topic)| !topic.is_unsure) {
            for (queue, messages) in &mut topic.queues {
                let (first, end) = bounds.get(&((*name).to_owned(), *queue)).copied().unwrap_or_default();
                let shown = format!("{name}/{queue}");
                let durable_end = topic.durable_ends.get(queue).copied().unwrap_or_default();
                check(end >= durable_end, Rule::NothingAcknowledgedIsLost, || {
                    format!(
                        "{shown} ends at {end} after it was started again, and {durable_end} messages were on the disk"
                    )
                })?;
                if let Some((offset, known)) =
                    messages.range(..first).find(|(_, known)| known.log_offset >= scene.log_first)
                {
                    return Err(Violation::of(
                        Rule::NothingAcknowledgedIsLost,
                        format!(
                            "{shown} begins at {first} though m{} at {offset} is in the log still",
                            known.identity.0
                        ),
                    ));
                }
                for (offset, known) in messages.split_off(&end) {
                    check(how == Stopped::PowerCut && !known.is_durable, Rule::NothingAcknowledgedIsLost, || {
                        format!(
                            "m{} at {offset} of {shown} is gone, which ends at {end} after the node was {how:?}",
                            known.identity.0
                        )
                    })?;
                    lost.insert(known.log_offset, (*name, known.identity, *queue, offset));
                }
                last_kept = last_kept.max(messages.last_key_value().map(|(_, known)| known.log_offset));
            }
            let end_of = |queue: u32| bounds.get(&((*name).to_owned(), queue)).map_or(0, |(_, end)| *end);
            topic.ends.iter_mut().for_each(|(queue, end)| *end = end_of(*queue));
            topic.appeared.retain(|(queue, offset), _| *offset < end_of(*queue));
        }
        if let Some((log_offset, (name, identity, queue, offset))) = lost.first_key_value() {
            check(last_kept < Some(*log_offset), Rule::NothingAcknowledgedIsLost, || {
                format!(
                    "the power cut took m{} at {offset} of {name}/{queue}, {log_offset} in the log, and left what lies at {last_kept:?}",
                    identity.0
                )
            })?;
        }
        Ok(lost.into_values().map(|(name, identity, ..)| (name, identity)).collect())
    }

    /// Numbers of messages that are in a topic and can be read.
    pub(super) fn expected_in(&self, topic: &str, scene: &Scene) -> Vec<u64> {
        let Some(topic) = self.topics.get(topic).filter(|topic| !topic.is_unsure) else { return Vec::new() };
        let known = topic.queues.values().flat_map(|queue| queue.values());
        known.filter(|known| !known.is_excused(scene)).map(|known| known.identity.0).collect()
    }
}
