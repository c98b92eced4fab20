//! What clients do besides sending and pulling: heartbeats, leaving, member lists, queue locks, sending back.

use base::limits::LIST_BODY_SIZE_MAX;
use base::{GroupName, LogOffset, Refusal};
use broker::{ConsumerRegistration, Filter, Member, QueueKey, SendBack};
use wire::rocketmq::body::client::{ClientConfigCheck, ConsumerData, Heartbeat, LockBatch, MessageQueue, decode};
use wire::rocketmq::code::response;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{ConsumerGroupRequest, SendBackRequest, UnregisterClientRequest};

use super::answer::{Answer, Answered, bad_body, header};
use super::context::Context;
use super::description::{ClientDescription, GroupDescription};
use super::subscription::{check_expression_type, subscription_of};

/// Registers what can be registered, as a Java broker does: a group that cannot does not keep the others away. The answer's
/// remark says what was left out, and so does the log, once a connection.
pub(super) fn heartbeat(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let heartbeat: Heartbeat = decode_list("heartbeat", command)?;
    if heartbeat.client_id.is_empty() {
        return Err(Refusal::BadRequest("the heartbeat has no clientID".to_owned()));
    }
    let (broker, peer) = (context.broker, context.peer);
    let member = Member {
        client_id: heartbeat.client_id,
        address: peer.address,
        description: ClientDescription::of_request(&command.header),
        mailbox: peer.mailbox.clone(),
        seen: context.now,
    };
    let mut left_out = LeftOut::default();
    for producer in &heartbeat.producers {
        let group = GroupName::checked(&producer.group_name);
        left_out.note("producer", group.and_then(|group| broker.groups.register_producer(&group, &member)));
    }
    let names = heartbeat.consumers.iter().filter_map(|consumer| GroupName::checked(&consumer.group_name).ok());
    broker.catalog.prepare_groups(&names.collect::<Vec<_>>(), context.now);
    for consumer in heartbeat.consumers {
        let registration = registration_of(consumer, heartbeat.without_subscriptions);
        let registered =
            registration.and_then(|registration| broker.groups.register_consumer(&member, registration, context.now));
        left_out.note("consumer", registered);
    }
    // Clients of 5.1.3 and later may leave unchanged subscriptions out if told that they can.
    let answer = Answer::ok().field("IS_SUPPORT_HEART_BEAT_V2", true).field("IS_SUB_CHANGE", true);
    let remark = left_out.remark();
    if let Some(reason) = &remark {
        broker.groups.note_left_out(&member, reason);
    }
    Ok(Answer { remark, ..answer })
}

/// Groups of a heartbeat that were not registered.
#[derive(Default)]
struct LeftOut {
    count: usize,
    first: Option<String>,
}

impl LeftOut {
    fn note(&mut self, kind: &str, registered: Result<(), Refusal>) {
        if let Err(refusal) = registered {
            self.count += 1;
            self.first.get_or_insert_with(|| format!("{kind}: {refusal}"));
        }
    }

    fn remark(self) -> Option<String> {
        let first = self.first?;
        Some(if self.count == 1 {
            format!("left out: {first}")
        } else {
            format!("left out: {} groups; {first}", self.count)
        })
    }
}

/// Decodes a body that lists a client's groups or queues.
fn decode_list<T: serde::de::DeserializeOwned>(what: &'static str, command: &Command<'_>) -> Result<T, Refusal> {
    let size = command.body.len();
    if size > LIST_BODY_SIZE_MAX {
        return Err(Refusal::BadRequest(format!(
            "the {what} is {size} bytes long; at most {LIST_BODY_SIZE_MAX} are allowed: name fewer in one request"
        )));
    }
    decode(what, command.body).map_err(bad_body)
}

fn registration_of(consumer: ConsumerData, keeps_subscriptions: bool) -> Result<ConsumerRegistration, Refusal> {
    if consumer.consume_type == "CONSUME_POP" {
        return Err(Refusal::NotSupported(format!(
            "Sluice does not support pop consumers yet (group [{}])",
            consumer.group_name
        )));
    }
    let subscriptions = consumer.subscription_data_set.into_iter().map(subscription_of).collect::<Result<_, _>>()?;
    let group = GroupName::checked(&consumer.group_name)?;
    let description = GroupDescription {
        consume_type: consumer.consume_type,
        message_model: consumer.message_model,
        consume_from_where: consumer.consume_from_where,
    };
    let description = description.checked(&group)?;
    Ok(ConsumerRegistration { group, description, subscriptions, keeps_subscriptions })
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

pub(super) fn send_back(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: SendBackRequest<'_> = header(command)?;
    let offset = u64::try_from(request.offset).map_err(|_| {
        Refusal::BadRequest(format!("the header field <offset> is [{}]; expected 0 or more", request.offset))
    })?;
    let send_back = SendBack {
        group: GroupName::checked(&request.group)?,
        log_offset: LogOffset(offset),
        delay_level: request.delay_level,
        max_reconsume_times: request.max_reconsume_times,
    };
    let published = context.broker.retries.send_back(&send_back, context.now)?;
    published.map_or(Ok(()), |published| context.broker.durability.wait_until_kept(&published))?;
    Ok(Answer::ok())
}
