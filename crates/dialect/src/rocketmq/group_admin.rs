//! Groups for administrators: settings, who is connected, how far they have come.

use base::{GroupName, Refusal};
use broker::Member;
use format::document::GroupDocument;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::rocketmq::body::client::{decode, queue_keyed_object};
use wire::rocketmq::code::response;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{
    ConsumeStatsRequest, ConsumerGroupRequest, DeleteGroupRequest, GroupRequest, ProducerGroupRequest,
    TopicGroupRequest,
};

use super::administering::Administrator;
use super::answer::{Answer, Answered, bad_body, header};
use super::context::Context;
use super::description::{ClientDescription, GroupDescription};
use super::queue::message_queue;
use super::slave::table;
use super::subscription::subscription_data;

fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::Internal(error.to_string())
}

pub(super) fn put(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let settings: GroupDocument = decode("group settings", command.body).map_err(bad_body)?;
    keep(context, vec![settings])
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GroupList {
    group_config_list: Vec<GroupDocument>,
}

pub(super) fn put_list(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let list: GroupList = decode("group list", command.body).map_err(bad_body)?;
    keep(context, list.group_config_list)
}

fn keep(context: &Context<'_>, groups: Vec<GroupDocument>) -> Answered {
    let mut checked = Vec::new();
    for settings in groups {
        checked.push((GroupName::checked(&settings.group_name)?, settings));
    }
    let catalog = &context.broker.catalog;
    let new_count = checked.iter().filter(|(name, _)| catalog.group(name.as_str()).is_none()).count();
    catalog.check_room_for_groups(new_count)?;
    catalog.put_groups(checked, context.now)?;
    context.broker.keep(context.now).map_err(internal)?;
    Ok(Answer::ok())
}

pub(super) fn delete(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: DeleteGroupRequest<'_> = header(command)?;
    let forget = request.clean_offset.or(request.remove_offset).unwrap_or_default();
    Administrator::new(context.broker, context.now).remove_group(&request.group_name, forget)?;
    Ok(Answer::ok())
}

pub(super) fn all(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    table(context, || Ok(Answer::body(serde_json::to_vec(&context.broker.catalog.group_table()).map_err(internal)?)))
}

pub(super) fn get(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: GroupRequest<'_> = header(command)?;
    let group = context.broker.catalog.group(&request.group);
    let group = group.ok_or_else(|| Refusal::NoSuchGroup(request.group.to_string()))?;
    Ok(Answer::body(serde_json::to_vec(&*group).map_err(internal)?))
}

fn connection(member: &Member) -> Value {
    let client = ClientDescription::of(member);
    json!({
        "clientId": member.client_id,
        "clientAddr": member.address.to_string(),
        "language": client.language.name(),
        "version": client.version,
    })
}

pub(super) fn consumer_connections(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: ConsumerGroupRequest<'_> = header(command)?;
    let group = context.broker.groups.snapshot(&request.consumer_group);
    let group = group.ok_or_else(|| Refusal::GroupOffline(request.consumer_group.to_string()))?;
    let subscriptions: Map<String, Value> =
        group.subscriptions.iter().map(|wanted| (wanted.topic.clone(), json!(subscription_data(wanted)))).collect();
    let description = GroupDescription::of(&group);
    Ok(Answer::json(&json!({
        "connectionSet": group.members.iter().map(connection).collect::<Vec<_>>(),
        "subscriptionTable": subscriptions,
        "consumeType": description.consume_type,
        "messageModel": description.message_model,
        "consumeFromWhere": description.consume_from_where,
    })))
}

pub(super) fn producer_connections(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: ProducerGroupRequest<'_> = header(command)?;
    let producers = context.broker.groups.producers_of(&request.producer_group);
    if producers.is_empty() {
        return Ok(Answer {
            code: response::SYSTEM_ERROR,
            remark: Some(format!("the producer group[{}] not exist", request.producer_group)),
            ..Answer::default()
        });
    }
    Ok(Answer::json(&json!({"connectionSet": producers.iter().map(connection).collect::<Vec<_>>()})))
}

pub(super) fn all_producers(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    let mut data = Map::new();
    for (group, members) in context.broker.groups.all_producers() {
        let members = members.iter().map(|member| {
            let client = ClientDescription::of(member);
            json!({
                "clientId": member.client_id,
                "remoteIP": member.address.to_string(),
                "language": client.language.name(),
                "version": client.version,
                "lastUpdateTimestamp": member.seen.wall.0,
            })
        });
        data.insert(group.as_str().to_owned(), members.collect());
    }
    Ok(Answer::json(&json!({"data": data})))
}

/// Messages of a group, in several topics.
#[derive(Default)]
struct Behind {
    /// Not consumed.
    unconsumed: u64,
    /// Of these, fetched.
    fetched: u64,
}

/// One group's progress in topics, as the body of 208 has it; adds to `behind` what it has not consumed.
fn stats_of(context: &Context<'_>, group: &str, topics: &[String], behind: &mut Behind) -> Result<String, Refusal> {
    let mut rows = Vec::new();
    let mut rate = 0.0;
    for topic in topics {
        if context.broker.catalog.topic(topic).is_none() {
            continue;
        }
        rate += context.broker.snapshots.consume_rate(topic, group, context.now);
        for queue in context.broker.snapshots.progress(topic, group)? {
            behind.unconsumed += queue.end.0.saturating_sub(queue.committed.max(0) as u64);
            behind.fetched += (queue.fetched - queue.committed).max(0) as u64;
            let value = json!({
                "brokerOffset": queue.end.0,
                "consumerOffset": queue.committed,
                "lastTimestamp": queue.consumed_time.0,
                "pullOffset": queue.fetched,
            });
            rows.push((message_queue(context.broker, topic, queue.queue), value));
        }
    }
    let table = queue_keyed_object(rows.iter().map(|(queue, value)| (queue, value.clone())));
    Ok(format!("{{\"consumeTps\":{rate:?},\"offsetTable\":{table}}}"))
}

pub(super) fn consume_stats(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: ConsumeStatsRequest<'_> = header(command)?;
    let named = |text: Option<&str>| -> Vec<String> {
        text.unwrap_or_default().split(';').filter(|topic| !topic.is_empty()).map(str::to_owned).collect()
    };
    let mut topics = named(request.topic.as_deref());
    topics.extend(named(request.topic_list.as_deref()));
    if topics.is_empty() {
        topics = context.broker.snapshots.topics_of_group(&request.consumer_group);
    }
    Ok(Answer::body(stats_of(context, &request.consumer_group, &topics, &mut Behind::default())?))
}

pub(super) fn all_consume_stats(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    let mut groups = Vec::new();
    let mut behind = Behind::default();
    for group in context.broker.catalog.groups() {
        let name = &group.group_name;
        let topics = context.broker.snapshots.topics_of_group(name);
        let stats = stats_of(context, name, &topics, &mut behind)?;
        groups.push(format!("{{{}:[{stats}]}}", Value::from(name.as_str())));
    }
    let address = Value::from(context.broker.options().store_host.to_string());
    Ok(Answer::body(format!(
        "{{\"brokerAddr\":{address},\"consumeStatsList\":[{}],\"totalDiff\":{},\"totalInflightDiff\":{}}}",
        groups.join(","),
        behind.unconsumed,
        behind.fetched
    )))
}

pub(super) fn topics(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: GroupRequest<'_> = header(command)?;
    Ok(Answer::json(&json!({"topicList": context.broker.snapshots.topics_of_group(&request.group)})))
}

pub(super) fn subscription(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: TopicGroupRequest<'_> = header(command)?;
    let known = context.broker.groups.subscription(&request.group, &request.topic).ok();
    Ok(Answer::json(&json!({
        "group": request.group,
        "topic": request.topic,
        "subscriptionData": known.map(|wanted| subscription_data(&wanted)),
    })))
}

pub(super) fn time_span(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: TopicGroupRequest<'_> = header(command)?;
    let queues = context.broker.snapshots.topic(&request.topic)?;
    let progress = context.broker.snapshots.progress(&request.topic, &request.group)?;
    let spans = queues.iter().zip(&progress).map(|(queue, done)| {
        let earliest = context.broker.snapshots.earliest_stored(&request.topic, queue.queue).unwrap_or_default();
        let next = context.broker.snapshots.stored_at(&request.topic, queue.queue, done.committed.max(0) as u64);
        let delay = if done.committed.max(0) as u64 >= queue.end.0 { 0 } else { context.now.wall.ms_since(next) };
        json!({
            "messageQueue": message_queue(context.broker, &request.topic, queue.queue),
            "minTimeStamp": earliest.0,
            "maxTimeStamp": queue.last_stored.0,
            "consumeTimeStamp": done.consumed_time.0,
            "delayTime": delay,
        })
    });
    Ok(Answer::json(&json!({"consumeTimeSpanSet": spans.collect::<Vec<_>>()})))
}
