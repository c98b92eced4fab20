//! Offsets: commit, query, bounds, by time, reset.

use base::{GroupName, Refusal, Timestamp};
use broker::Boundary;
use serde_json::json;
use wire::rocketmq::body::client::queue_keyed_object;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{
    CloneGroupOffsetRequest, QueryConsumerOffsetRequest, QueueRequest, ResetOffsetRequest, SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
};

use super::administering::{Administrator, Reset, ResetTo};
use super::answer::{Answer, Answered, header};
use super::connection::Connection;
use super::context::Context;
use super::queue::{message_queue, queue_id, queue_of};
use super::slave::table;

pub(super) fn commit(connection: &mut Connection, command: &Command<'_>) -> Result<(), Refusal> {
    let request: UpdateConsumerOffsetRequest<'_> = header(command)?;
    let Connection { broker, readings, .. } = connection;
    let reading = readings.find(&request.topic, &request.consumer_group, broker)?;
    let queue = queue_of(&*reading.topic(broker)?, request.queue_id)?;
    if request.only_forward == Some(true) {
        return broker.offsets.advance(&request.topic, &request.consumer_group, queue, request.commit_offset);
    }
    reading.commit(queue, request.commit_offset, broker)
}

pub(super) fn max(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let (broker, request): (_, QueueRequest<'_>) = (context.broker, header(command)?);
    let queue = queue_id(&request.topic, request.queue_id, broker)?;
    let queues = broker.catalog.queues_of(&request.topic)?;
    Ok(Answer::ok().field("offset", queues.get(queue.0 as usize).map_or(0, |queue| queue.end().0)))
}

pub(super) fn min(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let (broker, request): (_, QueueRequest<'_>) = (context.broker, header(command)?);
    let queue = queue_id(&request.topic, request.queue_id, broker)?;
    let queues = broker.catalog.queues_of(&request.topic)?;
    Ok(Answer::ok().field("offset", queues.get(queue.0 as usize).map_or(0, |queue| queue.first().0)))
}

pub(super) fn query(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: QueryConsumerOffsetRequest<'_> = header(command)?;
    let queue = queue_id(&request.topic, request.queue_id, context.broker)?;
    let zero_if_new = request.set_zero_if_not_found != Some(false);
    // This shows where a reset leads and leaves the reset to a pull: a tool may ask, or a member that does not pull.
    match context.broker.offsets.start_of(&request.topic, &request.consumer_group, queue, zero_if_new)? {
        Some(offset) => Ok(Answer::ok().field("offset", offset)),
        None => Err(Refusal::NotFound("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first".to_owned())),
    }
}

pub(super) fn search(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: SearchOffsetRequest<'_> = header(command)?;
    let queue = queue_id(&request.topic, request.queue_id, context.broker)?;
    let boundary = match request.boundary_type.as_deref() {
        Some(text) if text.eq_ignore_ascii_case("UPPER") => Boundary::Upper,
        _ => Boundary::Lower,
    };
    let queues = context.broker.catalog.queues_of(&request.topic)?;
    let known = queues.get(queue.0 as usize).ok_or_else(|| Refusal::no_queue_id(&request.topic, queue, 0))?;
    let time = Timestamp(u64::try_from(request.timestamp).unwrap_or_default());
    Ok(Answer::ok().field("offset", context.broker.offsets.search(known, time, boundary)?))
}

pub(super) fn earliest(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: QueueRequest<'_> = header(command)?;
    let queue = queue_id(&request.topic, request.queue_id, context.broker)?;
    let earliest = context.broker.snapshots.earliest_stored(&request.topic, queue)?;
    // Java says -1 where there is nothing.
    let shown = if earliest == Timestamp(0) { -1 } else { earliest.0 as i64 };
    Ok(Answer::ok().field("timestamp", shown))
}

/// Sets a group back or forth in every queue of a topic, by time or to one offset; its consumers hear of it with their
/// next pull, or the one that waits.
pub(super) fn reset(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: ResetOffsetRequest<'_> = header(command)?;
    let to = match request.offset.and_then(|offset| u64::try_from(offset).ok()) {
        Some(offset) => ResetTo::Offset(offset),
        None => u64::try_from(request.timestamp).map_or(ResetTo::End, |time| ResetTo::Time(Timestamp(time))),
    };
    let moves = Administrator::new(context.broker, context.now).reset(&Reset {
        group: &request.group,
        topic: &request.topic,
        queue: request.queue_id.and_then(|number| u32::try_from(number).ok()),
        to,
        // Without force a group is only ever set back.
        only_back: !request.is_force,
    })?;
    let moved = moves.iter().map(|done| (message_queue(context.broker, &request.topic, done.queue), done.to));
    let moved: Vec<_> = moved.collect();
    let table = queue_keyed_object(moved.iter().map(|(queue, offset)| (queue, json!(offset))));
    Ok(Answer::body(format!("{{\"offsetTable\":{table}}}")))
}

pub(super) fn clone_group(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: CloneGroupOffsetRequest<'_> = header(command)?;
    let target = GroupName::checked(&request.target_group)?;
    let topics = match request.topic.as_deref().filter(|topic| !topic.is_empty()) {
        Some(topic) => vec![topic.to_owned()],
        None => context.broker.offsets.topics_of(&request.source_group),
    };
    context.broker.offsets.copy(&topics, &request.source_group, target.as_str(), context.now)?;
    context.broker.keep(context.now).map_err(|error| Refusal::Internal(error.to_string()))?;
    Ok(Answer::ok())
}

pub(super) fn all(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    table(context, || Ok(Answer::json(&context.broker.offsets.document())))
}

pub(super) fn all_delayed(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    table(context, || Ok(Answer::json(&context.broker.delay.document())))
}
