//! Topics for administrators: make, change, remove, list, figures.

use std::collections::BTreeMap;

use base::Refusal;
use format::document::TopicDocument;
use serde::Deserialize;
use serde_json::json;
use wire::rocketmq::body::client::{decode, queue_keyed_object};
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{CreateTopicRequest, TopicRequest};

use super::administering::{Administrator, check_attribute};
use super::answer::{Answer, Answered, bad_body, header};
use super::context::Context;
use super::queue::message_queue;
use super::slave::table;

pub(super) fn put(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: CreateTopicRequest<'_> = header(command)?;
    let known = context.broker.catalog.topic(&request.topic);
    let mut attributes = known.map(|topic| topic.settings.attributes.clone()).unwrap_or_default();
    change_attributes(&mut attributes, request.attributes.as_deref().unwrap_or_default())?;
    let settings = TopicDocument {
        attributes,
        order: request.order,
        perm: request.permission as u32,
        read_queue_nums: queue_count(&request.topic, request.read_queue_nums)?,
        write_queue_nums: queue_count(&request.topic, request.write_queue_nums)?,
        topic_filter_type: request.topic_filter_type.to_string(),
        topic_sys_flag: request.topic_system_flag.unwrap_or_default(),
        topic_name: request.topic.to_string(),
    };
    keep(context, vec![settings])
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TopicList {
    topic_config_list: Vec<TopicDocument>,
}

pub(super) fn put_list(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let list: TopicList = decode("topic list", command.body).map_err(bad_body)?;
    keep(context, list.topic_config_list)
}

fn keep(context: &Context<'_>, topics: Vec<TopicDocument>) -> Answered {
    Administrator::new(context.broker, context.now).put_topics(topics)?;
    Ok(Answer::ok())
}

fn queue_count(topic: &str, count: i32) -> Result<u32, Refusal> {
    u32::try_from(count)
        .map_err(|_| Refusal::BadRequest(format!("topic [{topic}]: {count} queues; 0 or more are possible")))
}

/// Applies `+key=value,-key` to attributes.
fn change_attributes(attributes: &mut BTreeMap<String, String>, changes: &str) -> Result<(), Refusal> {
    for change in changes.split(',').map(str::trim).filter(|change| !change.is_empty()) {
        match (change.strip_prefix('+').and_then(|set| set.split_once('=')), change.strip_prefix('-')) {
            (Some((key, value)), _) => {
                check_attribute(key, value)?;
                attributes.insert(key.to_owned(), value.to_owned());
            }
            (None, Some(key)) => {
                attributes.remove(key);
            }
            (None, None) => {
                return Err(Refusal::BadRequest(format!(
                    "the attribute change [{change}] is neither +key=value nor -key"
                )));
            }
        }
    }
    Ok(())
}

pub(super) fn delete(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: TopicRequest<'_> = header(command)?;
    Administrator::new(context.broker, context.now).remove_topic(&request.topic)?;
    Ok(Answer::ok())
}

/// Queues that their topic does not have any more, without a message left.
pub(super) fn remove_expired_queues(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    context.broker.removals.expired_queues()?;
    Ok(Answer::ok())
}

/// Removes what of the log is old enough, without waiting for the hour of the day.
pub(super) fn remove_expired_log(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    let removed = context.broker.retention.apply_at_once(context.now);
    removed.map(|_| Answer::ok()).map_err(|error| Refusal::Internal(error.to_string()))
}

/// Queues of topics that are not there.
pub(super) fn remove_unknown(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    context.broker.removals.unknown_topics(context.now)?;
    Ok(Answer::ok())
}

pub(super) fn all(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    table(context, || {
        let table = context.broker.catalog.topic_table();
        let text = serde_json::to_vec(&table).map_err(|error| Refusal::Internal(error.to_string()))?;
        Ok(Answer::body(text))
    })
}

pub(super) fn get(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: TopicRequest<'_> = header(command)?;
    let topic = context.broker.catalog.topic(&request.topic);
    let topic = topic.ok_or_else(|| Refusal::NoSuchTopic(request.topic.to_string()))?;
    let text = serde_json::to_vec(&topic.settings).map_err(|error| Refusal::Internal(error.to_string()))?;
    Ok(Answer::body(text))
}

pub(super) fn stats(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: TopicRequest<'_> = header(command)?;
    let snapshots = context.broker.snapshots.topic(&request.topic)?;
    let rows: Vec<_> = snapshots
        .iter()
        .map(|queue| {
            let value = json!({
                "lastUpdateTimestamp": queue.last_stored.0,
                "maxOffset": queue.end.0,
                "minOffset": queue.first.0,
            });
            (message_queue(context.broker, &request.topic, queue.queue), value)
        })
        .collect();
    let table = queue_keyed_object(rows.iter().map(|(queue, value)| (queue, value.clone())));
    Ok(Answer::body(format!(
        "{{\"offsetTable\":{table},\"topicPutTps\":{:?}}}",
        context.broker.snapshots.put_rate(&request.topic, context.now)
    )))
}

pub(super) fn groups(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: TopicRequest<'_> = header(command)?;
    Ok(Answer::json(&json!({"groupList": context.broker.snapshots.groups_of_topic(&request.topic)})))
}

pub(super) fn system(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    Ok(Answer::json(&json!({"topicList": context.broker.catalog.system_topics()})))
}
