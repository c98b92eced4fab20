//! What clients do besides sending and pulling: heartbeats, leaving, member lists, queue locks, sending back.

use base::{GroupName, LogOffset, Refusal};
use broker::{Broker, ConsumerRegistration, Filter, Member, QueueKey, SendBack, Subscription};
use wire::rocketmq::body::client::{
    ClientConfigCheck, ConsumerData, Heartbeat, LockBatch, MessageQueue, SubscriptionData, decode,
};
use wire::rocketmq::code::response;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{ConsumerGroupRequest, SendBackRequest, UnregisterClientRequest};

use super::answer::{Answer, Answered, bad_body, header};
use super::pull::check_expression_type;
use super::session::{Context, RocketSession};

use base::Timestamp;

pub(super) fn heartbeat(session: &RocketSession, command: &Command<'_>, now: Timestamp) -> Answered {
    let heartbeat: Heartbeat = decode("heartbeat", command.body).map_err(bad_body)?;
    if heartbeat.client_id.is_empty() {
        return Err(Refusal::BadRequest("the heartbeat has no clientID".to_owned()));
    }
    let member = Member {
        client_id: heartbeat.client_id,
        address: session.remote,
        language: command.header.language.0,
        version: command.header.version,
        mailbox: session.mailbox.clone(),
        seen: now,
    };
    for producer in &heartbeat.producers {
        session.broker.register_producer(&GroupName::checked(&producer.group_name)?, member.clone())?;
    }
    for consumer in heartbeat.consumers {
        if consumer.consume_type == "CONSUME_POP" {
            return Err(Refusal::NotSupported("Sluice does not support pop consumers yet".to_owned()));
        }
        let registration = registration_of(consumer, heartbeat.without_subscriptions)?;
        session.broker.register_consumer(member.clone(), registration, now)?;
    }
    // Clients of 5.1.3 and later may leave unchanged subscriptions out if told that they can.
    Ok(Answer::ok().field("IS_SUPPORT_HEART_BEAT_V2", true).field("IS_SUB_CHANGE", true))
}

fn registration_of(consumer: ConsumerData, keeps_subscriptions: bool) -> Result<ConsumerRegistration, Refusal> {
    let subscriptions = consumer.subscription_data_set.into_iter().map(subscription_of).collect::<Result<_, _>>()?;
    Ok(ConsumerRegistration {
        group: GroupName::checked(&consumer.group_name)?,
        consume_type: consumer.consume_type,
        message_model: consumer.message_model,
        consume_from_where: consumer.consume_from_where,
        subscriptions,
        keeps_subscriptions,
    })
}

fn subscription_of(data: SubscriptionData) -> Result<Subscription, Refusal> {
    let filter = if data.code_set.is_empty() {
        Filter::parse(&data.sub_string).unwrap_or(Filter::All)
    } else {
        Filter::from_codes(data.code_set.iter().copied())
    };
    let expression_type = if data.expression_type.is_empty() { "TAG".to_owned() } else { data.expression_type };
    Ok(Subscription {
        topic: data.topic,
        expression: data.sub_string,
        expression_type,
        tags: data.tags_set,
        codes: data.code_set,
        version: data.sub_version,
        filter,
    })
}

/// A subscription as administrators see it.
pub(super) fn subscription_data(subscription: &Subscription) -> SubscriptionData {
    SubscriptionData {
        class_filter_mode: false,
        code_set: subscription.codes.clone(),
        expression_type: subscription.expression_type.clone(),
        sub_string: subscription.expression.clone(),
        sub_version: subscription.version,
        tags_set: subscription.tags.clone(),
        topic: subscription.topic.clone(),
    }
}

pub(super) fn unregister(session: &RocketSession, command: &Command<'_>) -> Answered {
    let request: UnregisterClientRequest<'_> = header(command)?;
    if let Some(group) = &request.producer_group {
        session.broker.unregister_producer(group, &request.client_id);
    }
    if let Some(group) = &request.consumer_group {
        session.broker.unregister_consumer(group, &request.client_id);
    }
    Ok(Answer::ok())
}

pub(super) fn list_members(broker: &Broker, command: &Command<'_>) -> Answered {
    let request: ConsumerGroupRequest<'_> = header(command)?;
    match broker.member_ids(&request.consumer_group) {
        Some(ids) => Ok(Answer::json(&serde_json::json!({"consumerIdList": ids}))),
        None => Err(Refusal::Internal(format!("no consumer for this group, {}", request.consumer_group))),
    }
}

pub(super) fn check_client(command: &Command<'_>) -> Answered {
    let check: ClientConfigCheck = decode("client configuration", command.body).map_err(bad_body)?;
    let subscription = check.subscription_data;
    match check_expression_type(Some(&subscription.expression_type.into())) {
        Ok(()) => Filter::parse(&subscription.sub_string).map(|_| Answer::ok()),
        // The code a Java broker gives while property filters are switched off.
        Err(refusal) => {
            Ok(Answer { code: response::SYSTEM_ERROR, remark: Some(refusal.to_string()), ..Answer::default() })
        }
    }
}

fn queue_keys(batch: &LockBatch) -> Vec<QueueKey> {
    let keys = batch.mq_set.iter();
    keys.filter_map(|queue| Some((queue.topic.clone(), u32::try_from(queue.queue_id).ok()?))).collect()
}

pub(super) fn lock_queues(broker: &Broker, command: &Command<'_>, now: Timestamp) -> Answered {
    let batch: LockBatch = decode("queue lock", command.body).map_err(bad_body)?;
    GroupName::checked(&batch.consumer_group)?;
    let held = broker.lock_queues(&batch.consumer_group, &batch.client_id, queue_keys(&batch), now);
    let is_held = |queue: &&MessageQueue| {
        held.iter().any(|(topic, number)| *topic == queue.topic && i64::from(*number) == i64::from(queue.queue_id))
    };
    let locked: Vec<_> = batch.mq_set.iter().filter(is_held).collect();
    Ok(Answer::json(&serde_json::json!({"lockOKMQSet": locked})))
}

pub(super) fn unlock_queues(broker: &Broker, command: &Command<'_>) -> Answered {
    let batch: LockBatch = decode("queue lock", command.body).map_err(bad_body)?;
    broker.unlock_queues(&batch.consumer_group, &batch.client_id, &queue_keys(&batch));
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
    let appended = context.broker.send_back(&send_back, context.now)?;
    appended.map_or(Ok(()), |appended| context.broker.wait_until_kept(&appended))?;
    Ok(Answer::ok())
}
