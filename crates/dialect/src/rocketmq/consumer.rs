//! What clients do besides sending, pulling and heartbeats: leaving, member lists, queue locks.

use base::limits::LIST_BODY_SIZE_MAX;
use base::{GroupName, Refusal};
use broker::{Filter, QueueKey};
use wire::rocketmq::body::client::{ClientConfigCheck, LockBatch, MessageQueue, decode};
use wire::rocketmq::code::response;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{ConsumerGroupRequest, UnregisterClientRequest};

use super::answer::{Answer, Answered, bad_body, header};
use super::context::Context;
use super::subscription::check_expression_type;

/// Decodes a body that lists a client's groups or queues.
pub(super) fn decode_list<T: serde::de::DeserializeOwned>(
    what: &'static str,
    command: &Command<'_>,
) -> Result<T, Refusal> {
    let size = command.body.len();
    if size > LIST_BODY_SIZE_MAX {
        return Err(Refusal::BadRequest(format!(
            "the {what} is {size} bytes long; at most {LIST_BODY_SIZE_MAX} are allowed: name fewer in one request"
        )));
    }
    decode(what, command.body).map_err(bad_body)
}

pub(super) fn unregister(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: UnregisterClientRequest<'_> = header(command)?;
    if let Some(group) = &request.producer_group {
        context.broker.groups.unregister_producer(group, &request.client_id, &context.peer.mailbox);
    }
    if let Some(group) = &request.consumer_group {
        context.broker.groups.unregister_consumer(group, &request.client_id, &context.peer.mailbox);
    }
    Ok(Answer::ok())
}

pub(super) fn list_members(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: ConsumerGroupRequest<'_> = header(command)?;
    match context.broker.groups.member_ids(&request.consumer_group) {
        Some(ids) => Ok(Answer::json(&serde_json::json!({"consumerIdList": ids}))),
        None => Err(Refusal::Internal(format!("no consumer for this group, {}", request.consumer_group))),
    }
}

pub(super) fn check_client(_context: &Context<'_>, command: &Command<'_>) -> Answered {
    let check: ClientConfigCheck = decode_list("client configuration", command)?;
    let subscription = check.subscription_data;
    match check_expression_type(Some(&subscription.expression_type.into())) {
        Ok(()) => Filter::parse(&subscription.sub_string).map(|_| Answer::ok()),
        // The code a Java broker gives while property filters are switched off.
        Err(refusal) => {
            Ok(Answer { code: response::SYSTEM_ERROR, remark: Some(refusal.to_string()), ..Answer::default() })
        }
    }
}

fn queue_key(queue: &MessageQueue) -> Option<QueueKey> {
    Some((queue.topic.clone(), u32::try_from(queue.queue_id).ok()?))
}

pub(super) fn lock_queues(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let batch: LockBatch = decode_list("queue lock", command)?;
    GroupName::checked(&batch.consumer_group)?;
    let wanted = batch.mq_set.iter().filter_map(queue_key).collect();
    let held = context.broker.locks.lock(&batch.consumer_group, &batch.client_id, wanted, context.now);
    let is_held = |queue: &&MessageQueue| queue_key(queue).is_some_and(|key| held.contains(&key));
    let locked: Vec<_> = batch.mq_set.iter().filter(is_held).collect();
    Ok(Answer::json(&serde_json::json!({"lockOKMQSet": locked})))
}

pub(super) fn unlock_queues(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let batch: LockBatch = decode_list("queue lock", command)?;
    let given_up = batch.mq_set.iter().filter_map(queue_key).collect();
    context.broker.locks.unlock(&batch.consumer_group, &batch.client_id, &given_up);
    Ok(Answer::ok())
}
