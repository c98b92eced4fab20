//! One pop or notification: what its request asks for, checked when it comes and again when it goes on.

use std::borrow::Cow;

use base::{GroupName, Monotonic, Now, Refusal, TopicName};
use broker::{Beginning, Broker, Filter, GrantName, HandOut, Holder, Wanted};
use format::document::GroupDocument;
use wire::rocketmq::code::response;
use wire::rocketmq::frame::Command;
use wire::rocketmq::pop::header::{NotificationRequest, PopRequest};
use wire::rocketmq::pop::origin::Origin;
use wire::rocketmq::pop::receipt::ORDER_REVIVE_QUEUE_ID;

use super::answer::{Answer, Asked, header};
use super::context::Context;
use super::pop_lanes::{LanesWanted, PopLane};
use super::queue::queue_of;
use super::readings::{Reading, Readings};
use super::subscription::check_expression_type;

/// Longest wait a client may ask for, as of pulls.
const WAIT_MS_MAX: u64 = 60_000;

/// Messages one pop may ask for.
const COUNT_MAX: i32 = 32;

/// A longer name for an attempt is no client's.
const ATTEMPT_SIZE_MAX: usize = 256;

/// Of so many pops one takes what comes again from retry topics first, as RocketMQ does.
const RETRIES_FIRST_EVERY: usize = 5;

/// What a request asks for.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Messages.
    Messages {
        count_max: usize,
        invisible_ms: u64,
        filter: Filter,
        /// In order, by this name for the attempt.
        attempt: Option<Box<str>>,
        beginning: Beginning,
    },
    /// Whether there are any.
    Notice {
        /// That may be taken in order.
        in_order: bool,
    },
}

/// A pop, as far as it has come. It keeps nothing of the broker's tables: what it names may go or change while it waits.
#[derive(Clone, Debug)]
pub(super) struct Pop {
    pub(super) asked: Asked,
    pub(super) topic: TopicName,
    pub(super) group: GroupName,
    pub(super) lanes: LanesWanted,
    pub(super) kind: Kind,
    /// Until when it may wait; `None` if it may not.
    pub(super) wait_until: Option<Monotonic>,
    /// Whether it has waited for messages.
    pub(super) has_waited: bool,
}

impl Pop {
    /// Checks a request for messages.
    pub(super) fn of(
        command: &Command<'_>,
        asked: Asked,
        context: &Context<'_>,
        readings: &mut Readings,
    ) -> Result<Self, Answer> {
        let request: PopRequest<'_> = header(command)?;
        let count_max = match usize::try_from(request.max_message_count) {
            Ok(count) if (1..=COUNT_MAX as usize).contains(&count) => count,
            _ => {
                let count = request.max_message_count;
                return Err(bad_parameter(format!("maxMsgNums is {count}; expected 1 to {COUNT_MAX}")));
            }
        };
        check_expression_type(request.expression_type.as_ref())?;
        let filter = Filter::parse(request.expression.as_deref().unwrap_or_default())?;
        let is_ordered = request.order.unwrap_or_default();
        let attempt = request.attempt_id.unwrap_or(Cow::Borrowed(""));
        if attempt.len() > ATTEMPT_SIZE_MAX {
            return Err(bad_parameter(format!("attemptId has more than {ATTEMPT_SIZE_MAX} bytes")));
        }
        let kind = Kind::Messages {
            count_max,
            invisible_ms: u64::try_from(request.invisible_ms).unwrap_or_default(),
            filter,
            attempt: is_ordered.then(|| attempt.into()),
            beginning: if request.init_mode == 1 { Beginning::Last } else { Beginning::First },
        };
        let (topic, group) = (&*request.topic, &*request.consumer_group);
        let reading = readings.find(topic, group, context.broker)?;
        let lanes = (request.queue_id, !is_ordered);
        Self::checked(asked, kind, lanes, request.poll_timeout_ms, reading, context)
    }

    /// Checks a request to be told of messages.
    pub(super) fn of_notice(
        command: &Command<'_>,
        asked: Asked,
        context: &Context<'_>,
        readings: &mut Readings,
    ) -> Result<Self, Answer> {
        let request: NotificationRequest<'_> = header(command)?;
        let reading = readings.find(&request.topic, &request.consumer_group, context.broker)?;
        let in_order = request.order.unwrap_or_default();
        let with_retries = !in_order && request.queue_id < 0;
        let lanes = (request.queue_id, with_retries);
        Self::checked(asked, Kind::Notice { in_order }, lanes, request.poll_timeout_ms, reading, context)
    }

    fn checked(
        asked: Asked,
        kind: Kind,
        (queue_id, with_retries): (i32, bool),
        poll_ms: i64,
        reading: &mut Reading,
        context: &Context<'_>,
    ) -> Result<Self, Answer> {
        let topic = check(reading, context)?;
        let queue = if queue_id < 0 { None } else { Some(queue_of(&topic, queue_id).map_err(bad_queue)?) };
        let (group, _) = reading.group(context.broker, context.now)?;
        let wait_ms = u64::try_from(poll_ms).unwrap_or_default().min(WAIT_MS_MAX);
        Ok(Self {
            asked,
            topic: topic.name.clone(),
            group: group.clone(),
            lanes: LanesWanted { queue, with_retries },
            kind,
            wait_until: (wait_ms > 0).then(|| context.now.monotonic.plus_ms(wait_ms)),
            has_waited: false,
        })
    }

    /// Checks anew what may have changed while it waited: as if it came now.
    pub(super) fn look_again(&self, context: &Context<'_>, readings: &mut Readings) -> Result<(), Answer> {
        let reading = readings.find(self.topic.as_str(), self.group.as_str(), context.broker)?;
        let topic = check(reading, context)?;
        if let Some(queue) = self.lanes.queue {
            queue_of(&topic, i32::try_from(queue.0).unwrap_or(i32::MAX)).map_err(bad_queue)?;
        }
        Ok(())
    }

    /// Messages of these lanes, for a connection's pop of this number; `None` if it asks whether there are any.
    pub(super) fn hand_out(
        &self,
        lanes: &mut [PopLane],
        turn: usize,
        settings: &GroupDocument,
        size_max: usize,
        broker: &Broker,
        now: Now,
    ) -> Option<HandOut> {
        let Kind::Messages { count_max, invisible_ms, filter, attempt, .. } = &self.kind else { return None };
        // Who asks again by the name of an attempt looks at the same queues first.
        let is_named = |name: &&str| !name.is_empty();
        take_turns(lanes, attempt.as_deref().filter(is_named).map_or(turn, turn_of));
        let filter_of = |lane: &PopLane| {
            // What comes again has passed the filter before.
            if lane.queue.origin == Origin::Topic { filter.clone() } else { Filter::All }
        };
        Some(HandOut::of(Wanted {
            lanes: lanes.iter().map(|lane| (lane.lane.clone(), filter_of(lane))).collect(),
            count_max: *count_max,
            size_max,
            holder: Holder::Grant(name_of_grant(attempt.is_some(), broker, now), now.monotonic.plus_ms(*invisible_ms)),
            attempt: attempt.clone(),
            redeliveries_max: u32::try_from(settings.retry_max_times).unwrap_or_default(),
            expiry: None,
        }))
    }

    /// Whether it takes in order.
    pub(super) const fn is_in_order(&self) -> bool {
        match &self.kind {
            Kind::Messages { attempt, .. } => attempt.is_some(),
            Kind::Notice { in_order } => *in_order,
        }
    }

    /// Bytes that what it asks for takes.
    pub(super) fn size(&self) -> usize {
        match &self.kind {
            Kind::Messages { filter, attempt, .. } => filter.size() + attempt.as_ref().map_or(0, |name| name.len()),
            Kind::Notice { .. } => 0,
        }
    }
}

/// A name for a grant. The number is the queue of the revive topic that receipts name, of which one marks what is popped in order.
pub(super) fn name_of_grant(is_ordered: bool, broker: &Broker, now: Now) -> GrantName {
    let name = broker.leasing.name_grant(now);
    let of_order = ORDER_REVIVE_QUEUE_ID as u32;
    match (is_ordered, name.number == of_order) {
        (true, _) => GrantName { number: of_order, ..name },
        (false, true) => broker.leasing.name_grant(now),
        (false, false) => name,
    }
}

/// Any, but the same for a name.
fn turn_of(name: &str) -> usize {
    name.bytes().fold(1, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)))
}

/// Has pops begin at another queue each time, so that none is always last; now and then with what comes again.
fn take_turns(lanes: &mut [PopLane], turn: usize) {
    let count = lanes.iter().take_while(|lane| lane.queue.origin == Origin::Topic).count();
    if let Some(first) = turn.checked_rem(count) {
        lanes.get_mut(..count).into_iter().for_each(|lanes| lanes.rotate_left(first));
    }
    if turn.is_multiple_of(RETRIES_FIRST_EVERY) {
        lanes.rotate_left(count);
    }
}

/// Whether the group may take messages of the topic now.
fn check(reading: &mut Reading, context: &Context<'_>) -> Result<std::sync::Arc<broker::Topic>, Answer> {
    let broker = context.broker;
    if broker.follows() {
        return Err(Refusal::NotPermitted(
            "a slave hands no messages out one by one: what is settled is for its master to keep; pop there".to_owned(),
        )
        .into());
    }
    broker.leasing.check_may_read()?;
    let topic = reading.topic(broker)?;
    if !topic.permission().read {
        return Err(Refusal::NotPermitted(format!("the topic[{}] peeking message is forbidden", topic.name)).into());
    }
    let (group, settings) = reading.group(broker, context.now)?;
    if !settings.consume_enable {
        return Err(Refusal::NotPermitted(format!("subscription group no permission, {group}")).into());
    }
    Ok(topic)
}

fn bad_queue(refusal: Refusal) -> Answer {
    bad_parameter(refusal.to_string())
}

fn bad_parameter(remark: String) -> Answer {
    Answer { code: response::INVALID_PARAMETER, remark: Some(remark), ..Answer::default() }
}
