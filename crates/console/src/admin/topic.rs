//! Topics. Each broker of the process has queues of its own for a topic; what is made here is made at all of them.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZero;
use std::sync::Arc;

use axum::extract::State;
use base::name::DEAD_LETTER_PREFIX;
use base::{Now, Timestamp};
use broker::{Boundary, Broker, Topic};
use dialect::rocketmq::Administrator;
use format::document::TopicDocument;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::list::Piece;
use super::nearest;
use super::problem::Problem;
use super::{Admin, Answer};

/// Queues of a topic that nobody says otherwise of.
const QUEUES: u32 = 8;

const READ: u32 = 4;
const WRITE: u32 = 2;

/// What clients may do with a topic.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
enum Permission {
    #[serde(rename = "rw")]
    ReadAndWrite,
    #[serde(rename = "r")]
    Read,
    #[serde(rename = "w")]
    Write,
    #[serde(rename = "none")]
    Nothing,
}

impl Permission {
    const fn bits(self) -> u32 {
        match self {
            Self::ReadAndWrite => READ | WRITE,
            Self::Read => READ,
            Self::Write => WRITE,
            Self::Nothing => 0,
        }
    }

    const fn shown(bits: u32) -> &'static str {
        match (bits & READ > 0, bits & WRITE > 0) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, true) => "w",
            (false, false) => "none",
        }
    }
}

/// How a topic is to be. What is left out stays as it is, or is as for any new topic.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// Of a new topic.
    name: Option<String>,
    /// Queues, for both directions.
    queues: Option<NonZero<u32>>,
    read_queues: Option<u32>,
    write_queues: Option<u32>,
    permission: Option<Permission>,
    /// Whether producers keep to the order of queues over several brokers.
    order: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    /// ms since 1970.
    time: u64,
}

impl Asked {
    fn applied(&self, to: TopicDocument) -> TopicDocument {
        TopicDocument {
            read_queue_nums: self.read_queues.or(self.queues.map(NonZero::get)).unwrap_or(to.read_queue_nums),
            write_queue_nums: self.write_queues.or(self.queues.map(NonZero::get)).unwrap_or(to.write_queue_nums),
            perm: self.permission.map_or(to.perm, |permission| permission.bits() | to.perm & 1),
            order: self.order.unwrap_or(to.order),
            ..to
        }
    }
}

/// A topic that is not there.
pub(super) fn none(name: &str, brokers: &[Arc<Broker>]) -> Problem {
    if let Some(group) = name.strip_prefix(DEAD_LETTER_PREFIX)
        && brokers.iter().any(|broker| broker.catalog.group(group).is_some())
    {
        return Problem::not_found(format!("topic '{name}' not found: group '{group}' has no dead letters"));
    }
    let names = brokers.iter().flat_map(|broker| broker.catalog.topics()).map(|topic| topic.name.to_string());
    Problem::not_found(format!("topic '{name}' not found")).near(nearest::likest(name, names))
}

/// A topic at each broker that has it.
pub(super) type Places<'a> = Vec<(&'a Arc<Broker>, Arc<Topic>)>;

/// The topic, at the brokers that have it.
pub(super) fn found<'a>(name: &str, brokers: &'a [Arc<Broker>]) -> Result<Places<'a>, Problem> {
    let at: Vec<_> = brokers.iter().filter_map(|broker| Some((broker, broker.catalog.topic(name)?))).collect();
    if at.is_empty() { Err(none(name, brokers)) } else { Ok(at) }
}

/// The same at the broker that is named, if one is.
pub(super) fn found_at<'a>(name: &str, brokers: &'a [Arc<Broker>], only: Option<&str>) -> Result<Places<'a>, Problem> {
    let mut places = found(name, brokers)?;
    let Some(only) = only else { return Ok(places) };
    let names = names(&places);
    places.retain(|(broker, _)| broker.options().broker_name == only);
    if places.is_empty() {
        return Err(Problem::not_found(format!(
            "no broker '{only}' has the topic '{name}' here: name one of [{names}]"
        )));
    }
    Ok(places)
}

/// Queues and offsets of several brokers have nothing to do with each other.
pub(super) fn ambiguous(name: &str, places: &Places<'_>) -> Problem {
    Problem::bad(format!("several brokers have the topic '{name}': name one of [{}]", names(places)))
}

/// The brokers' names, as a sentence has them.
pub(super) fn names(places: &Places<'_>) -> String {
    let names: Vec<_> = places.iter().map(|(broker, _)| broker.options().broker_name.as_str()).collect();
    names.join(", ")
}

fn shown(settings: &TopicDocument) -> Value {
    json!({
        "name": settings.topic_name,
        "read_queues": settings.read_queue_nums,
        "write_queues": settings.write_queue_nums,
        "permission": Permission::shown(settings.perm),
        "order": settings.order,
        "attributes": settings.attributes,
    })
}

/// The same with the settings that each broker has; they differ where somebody altered one of them alone. Those of the first come first.
fn shown_at(places: &Places<'_>) -> Value {
    let mut answer = places.first().map(|(_, topic)| shown(&topic.settings)).unwrap_or_default();
    let each = places.iter().map(|(broker, topic)| {
        let mut settings = shown(&topic.settings);
        settings["name"] = broker.options().broker_name.as_str().into();
        settings
    });
    answer["brokers"] = each.collect();
    answer
}

fn messages(topic: &Topic) -> u64 {
    topic.queues.iter().map(|queue| queue.end().0.saturating_sub(queue.first().0)).sum()
}

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    let work = move |brokers: &[Arc<Broker>], _| {
        let mut topics: BTreeMap<String, Vec<Arc<Topic>>> = BTreeMap::new();
        for topic in brokers.iter().flat_map(|broker| broker.catalog.topics()) {
            topics.entry(topic.name.to_string()).or_default().push(topic);
        }
        let system: HashSet<_> = brokers.iter().flat_map(|broker| broker.catalog.system_topics()).collect();
        piece.of(topics, |(name, at)| {
            let mut item = at.first().map(|topic| shown(&topic.settings)).unwrap_or_default();
            item["messages"] = at.iter().map(|topic| messages(topic)).sum::<u64>().into();
            item["system"] = system.contains(&name).into();
            item
        })
    };
    admin.read_all(work).await
}

pub(super) async fn show(State(admin): State<Admin>, Path(name): Path<String>) -> Answer {
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        let at = found(&name, brokers)?;
        let mut answer = shown_at(&at);
        let (mut queues, mut groups, mut rate) = (Vec::new(), Vec::new(), 0.0);
        for (broker, _) in &at {
            let snapshots = &broker.snapshots;
            for queue in snapshots.topic(&name)? {
                queues.push(json!({
                    "broker": broker.options().broker_name,
                    "queue": queue.queue.0,
                    "first": queue.first.0,
                    "end": queue.end.0,
                    "messages": queue.end.0.saturating_sub(queue.first.0),
                    "last_stored_ms": Some(queue.last_stored.0).filter(|time| *time > 0),
                }));
            }
            groups.extend(snapshots.groups_of_topic(&name));
            rate += snapshots.put_rate(&name, now);
        }
        groups.sort_unstable();
        groups.dedup();
        answer["messages_in_per_second"] = rate.into();
        answer["groups"] = groups.into();
        answer["queues"] = queues.into();
        Ok(answer)
    };
    admin.read_all(work).await
}

/// Where messages of a time begin in each queue.
pub(super) async fn offsets(
    State(admin): State<Admin>,
    Path(name): Path<String>,
    Query(At { time }): Query<At>,
) -> Answer {
    let work = move |brokers: &[Arc<Broker>], _| {
        let mut items = Vec::new();
        for (broker, topic) in found(&name, brokers)? {
            for queue in &topic.queues {
                let offset = broker.offsets.search(queue, Timestamp(time), Boundary::Lower)?.0;
                items.push(json!({
                    "broker": broker.options().broker_name,
                    "queue": queue.id().0,
                    "offset": offset,
                    "messages": queue.end().0.saturating_sub(offset),
                }));
            }
        }
        Ok(json!({"items": items}))
    };
    admin.read_all(work).await
}

pub(super) async fn add(State(admin): State<Admin>, caller: Caller, Body(asked): Body<Asked>) -> Answer {
    let name = asked.name.clone().ok_or_else(|| Problem::bad("a topic needs a name"))?;
    let what = format!("topic [{name}] is made: {asked:?}");
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        if let Ok(places) = found(&name, brokers) {
            return Err(exists(&name, &places, brokers));
        }
        let plain = TopicDocument {
            topic_name: name.clone(),
            read_queue_nums: QUEUES,
            write_queue_nums: QUEUES,
            ..TopicDocument::default()
        };
        let settings = asked.applied(plain);
        put(brokers.iter().map(|broker| (broker, settings.clone())).collect(), now)?;
        found(&name, brokers).map(|places| shown_at(&places))
    };
    admin.change_all(caller, what, work).await
}

pub(super) async fn alter(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(asked): Body<Asked>,
) -> Answer {
    if asked.name.as_ref().is_some_and(|other| *other != name) {
        return Err(Problem::bad("a topic keeps its name"));
    }
    let what = format!("topic [{name}] is altered: {asked:?}");
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        // What is left out stays as it is at each of them.
        let altered = |(broker, topic): (_, Arc<Topic>)| (broker, asked.applied(topic.settings.clone()));
        put(found(&name, brokers)?.into_iter().map(altered).collect(), now)?;
        found(&name, brokers).map(|places| shown_at(&places))
    };
    admin.change_all(caller, what, work).await
}

/// Has each of these brokers keep the settings.
fn put(wanted: Vec<(&Arc<Broker>, TopicDocument)>, now: Now) -> Result<(), Problem> {
    let are_several = wanted.len() > 1;
    for (broker, settings) in wanted {
        Administrator::new(broker, now).put_topics(vec![settings]).map_err(|refusal| {
            let problem = Problem::from(refusal);
            let at = format!("broker '{}'", broker.options().broker_name);
            if are_several { problem.after(&at) } else { problem }
        })?;
    }
    Ok(())
}

/// A topic that is not to be made: it is there, if not everywhere.
fn exists(name: &str, places: &Places<'_>, brokers: &[Arc<Broker>]) -> Problem {
    if places.len() == brokers.len() {
        return Problem::conflict(format!("topic '{name}' already exists"));
    }
    let names = names(places);
    Problem::conflict(format!(
        "topic '{name}' already exists, if at [{names}] alone: `mqadmin updateTopic -b HOST:PORT` makes it at another broker"
    ))
}

pub(super) async fn remove(State(admin): State<Admin>, caller: Caller, Path(name): Path<String>) -> Answer {
    let what = format!("topic [{name}] is removed");
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        for (broker, _) in found(&name, brokers)? {
            Administrator::new(broker, now).remove_topic(&name)?;
        }
        Ok(json!({"name": name}))
    };
    admin.change_all(caller, what, work).await
}
