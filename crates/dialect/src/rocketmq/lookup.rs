//! Finding messages: by key, by id, and looking at a queue's entries.

use base::{LogOffset, QueueOffset, Refusal, Timestamp};
use broker::KeyKind;
use serde_json::json;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{QueryConsumeQueueRequest, QueryMessageRequest, ViewMessageRequest};

use super::answer::{Answer, Answered, BODY_SIZE_MAX, header};
use super::context::Context;
use super::queue::queue_id;
use super::subscription::subscription_data;

/// Entries one look at a queue gives at most.
const ENTRIES_MAX: usize = 1000;

pub(super) fn by_key(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: QueryMessageRequest<'_> = header(command)?;
    let kind = if request.unique_key_query == Some(true) { KeyKind::Unique } else { KeyKind::Key };
    let time = |ms: i64| Timestamp(u64::try_from(ms).unwrap_or_default());
    let times = (time(request.begin_timestamp), time(request.end_timestamp));
    // Whoever asks by unique id names no number that counts: copies of one message are few.
    let count = match kind {
        KeyKind::Unique => context.options.query_count_max.min(context.options.query_key_count_max),
        KeyKind::Key => usize::try_from(request.max_count).unwrap_or_default().min(context.options.query_key_count_max),
    };
    let count = count.max(1);
    let found = context.broker.lookup.by_key(&request.topic, &request.key, kind, times, (count, BODY_SIZE_MAX));
    let (last_time, last_offset) = context.broker.lookup.last_indexed();
    let answer = match found {
        Ok(messages) => Answer::body(messages.concat()),
        Err(Refusal::NoSuchMessage(text)) => return Err(Refusal::NotFound(text)),
        Err(refusal) => return Err(refusal),
    };
    Ok(answer.field("indexLastUpdateTimestamp", last_time.0).field("indexLastUpdatePhyoffset", last_offset))
}

pub(super) fn by_id(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: ViewMessageRequest<'_> = header(command)?;
    let offset = LogOffset(u64::try_from(request.offset).unwrap_or(u64::MAX));
    Ok(Answer::body(context.broker.lookup.at(offset)?))
}

pub(super) fn consume_queue(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: QueryConsumeQueueRequest<'_> = header(command)?;
    let queue = queue_id(&request.topic, request.queue_id, context.broker)?;
    let queues = context.broker.catalog.queues_of(&request.topic)?;
    let known = queues.get(queue.0 as usize).ok_or_else(|| Refusal::no_queue_id(&request.topic, queue, 0))?;
    let group = request.consumer_group.as_deref().unwrap_or_default();
    let subscription = context.broker.groups.subscription(group, &request.topic).ok();
    let count = usize::try_from(request.count).unwrap_or_default().min(ENTRIES_MAX);
    let from = QueueOffset(u64::try_from(request.index).unwrap_or_default()).max(known.first());
    let data: Vec<_> = known
        .entries(from, count)?
        .iter()
        .map(|entry| {
            let passes = subscription.as_ref().is_none_or(|wanted| wanted.filter.matches(entry.tag_code));
            json!({
                "physicOffset": entry.log_offset.0,
                "physicSize": entry.size,
                "tagsCode": entry.tag_code,
                "eval": passes,
            })
        })
        .collect();
    Ok(Answer::json(&json!({
        "subscriptionData": subscription.map(|wanted| subscription_data(&wanted)),
        "queueData": data,
        "maxQueueIndex": known.end().0,
        "minQueueIndex": known.first().0,
    })))
}
