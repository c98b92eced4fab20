//! Where a group's pops of a topic take from: its lanes in the topic, and in the topics where a Java broker has put what comes again.
//!
//! What a Sluice broker takes back comes again from where it is; a directory that a Java broker wrote has retry topics too.

use std::sync::{Arc, Weak};

use base::{QueueId, Refusal};
use broker::{Beginning, Broker, Lane};
use wire::rocketmq::pop::answer::PoppedQueue;
use wire::rocketmq::pop::origin::Origin;

use super::pop::Pop;

const ORIGINS: [Origin; 3] = [Origin::Topic, Origin::Retry, Origin::RetryV2];

/// A lane, and how answers name its queue.
#[derive(Clone)]
pub(super) struct PopLane {
    pub(super) queue: PoppedQueue,
    pub(super) lane: Arc<Lane>,
}

/// Those that a connection has used, by origin and queue. Kept weakly: what is gone from the broker's table does not stay for the sake of an
/// idle connection.
#[derive(Default)]
pub(super) struct PopLanes {
    lanes: [Vec<Weak<Lane>>; ORIGINS.len()],
    is_known: bool,
}

/// Which lanes are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct LanesWanted {
    /// All queues of the topic, if none.
    pub(super) queue: Option<QueueId>,
    /// Whether what comes again is wanted too.
    pub(super) with_retries: bool,
}

impl LanesWanted {
    fn has(self, origin: Origin, queue: usize) -> bool {
        if origin == Origin::Topic {
            self.queue.is_none_or(|wanted| wanted.0 as usize == queue)
        } else {
            self.with_retries
        }
    }
}

impl PopLanes {
    /// Those wanted, if all are known.
    pub(super) fn find(&self, wanted: LanesWanted) -> Option<Vec<PopLane>> {
        if !self.is_known {
            return None;
        }
        let mut found = Vec::new();
        for (origin, lanes) in ORIGINS.into_iter().zip(&self.lanes) {
            for (number, lane) in lanes.iter().enumerate().filter(|(number, _)| wanted.has(origin, *number)) {
                let lane = lane.upgrade().filter(|lane| lane.is_in_use())?;
                found.push(PopLane { queue: PoppedQueue { origin, queue_id: number as i32 }, lane });
            }
        }
        Some(found)
    }

    /// Notes lanes that were looked up by `make`.
    pub(super) fn note(&mut self, made: &MadeLanes) {
        for (lanes, count) in self.lanes.iter_mut().zip(made.counts) {
            lanes.resize_with(count, Weak::new);
        }
        for PopLane { queue, lane } in &made.lanes {
            let lanes = ORIGINS.iter().position(|origin| *origin == queue.origin).and_then(|at| self.lanes.get_mut(at));
            if let Some(known) = lanes.and_then(|lanes| lanes.get_mut(queue.queue_id as usize)) {
                *known = Arc::downgrade(lane);
            }
        }
        self.is_known = true;
    }

    /// The lane of a queue of the topic itself, if it is known.
    pub(super) fn get(&self, queue: QueueId) -> Option<Arc<Lane>> {
        let [of_topic, ..] = &self.lanes;
        of_topic.get(queue.0 as usize)?.upgrade().filter(|lane| lane.is_in_use())
    }

    /// Notes the lane of a queue that the topic has.
    pub(super) fn put(&mut self, queue: QueueId, lane: &Arc<Lane>) {
        let [of_topic, ..] = &mut self.lanes;
        let place = queue.0 as usize;
        if of_topic.len() <= place {
            of_topic.resize_with(place + 1, Weak::new);
        }
        if let Some(known) = of_topic.get_mut(place) {
            *known = Arc::downgrade(lane);
        }
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Lanes, and how many queues each origin has.
pub(super) struct MadeLanes {
    pub(super) lanes: Vec<PopLane>,
    counts: [usize; ORIGINS.len()],
}

/// Whether a queue that a pop asks for has messages, and the group never took any of it.
pub(super) fn has_unbegun(broker: &Broker, pop: &Pop) -> bool {
    let (topic, group) = (pop.topic.as_str(), pop.group.as_str());
    let Some(known) = broker.catalog.topic(topic) else { return false };
    known.queues.iter().take(known.settings.read_queue_nums as usize).any(|queue| {
        let committed = broker.offsets.committed(topic, group, queue.id());
        let begin = committed.map_or(queue.first().0, |offset| offset.max(0) as u64);
        pop.lanes.has(Origin::Topic, queue.id().0 as usize)
            && queue.end().0 > begin
            && broker.lanes.lane(topic, group, queue.id().0).is_none()
    })
}

/// Looks lanes up, and makes those that are not there. Waits for the disk.
pub(super) fn make(
    broker: &Broker,
    (topic, group): (&str, &str),
    wanted: LanesWanted,
    beginning: Beginning,
) -> Result<MadeLanes, Refusal> {
    let mut made = MadeLanes { lanes: Vec::new(), counts: [0; ORIGINS.len()] };
    for (origin, count) in ORIGINS.into_iter().zip(&mut made.counts) {
        let stored = origin.stored_topic(topic, group);
        let Some(known) = broker.catalog.topic(&stored) else {
            if origin == Origin::Topic {
                return Err(Refusal::NoSuchTopic(topic.to_owned()));
            }
            continue;
        };
        *count = known.settings.read_queue_nums.min(known.queues.len() as u32) as usize;
        // What comes again was taken before: nobody begins behind it.
        let beginning = if origin == Origin::Topic { beginning } else { Beginning::First };
        for number in (0..*count).filter(|number| wanted.has(origin, *number)) {
            let lane = broker.offsets.lane(&stored, group, QueueId(number as u32), beginning)?;
            made.lanes.push(PopLane { queue: PoppedQueue { origin, queue_id: number as i32 }, lane });
        }
    }
    Ok(made)
}
