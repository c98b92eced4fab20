//! Consumer groups: who is in them, how far they have come, and where they are to go on.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use base::{Now, Timestamp, TopicName};
use broker::{Broker, RESENDER, Resend, ResendTo};
use dialect::rocketmq::{Administrator, Move, Reset, ResetTo, client_kind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::list::Piece;
use super::nearest;
use super::problem::Problem;
use super::topic;
use super::{Admin, Answer};

/// Dead letters that one request resends.
const RESENT_MAX: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum To {
    First,
    End,
    /// ms since 1970.
    Time(u64),
    Offset(u64),
}

impl From<To> for ResetTo {
    fn from(to: To) -> Self {
        match to {
            To::First => Self::First,
            To::End => Self::End,
            To::Time(time) => Self::Time(Timestamp(time)),
            To::Offset(offset) => Self::Offset(offset),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedReset {
    topic: String,
    to: To,
    /// This broker alone.
    broker: Option<String>,
    /// This queue alone.
    queue: Option<u32>,
    /// Tells where it would lead, and does nothing.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Removal {
    /// Whether to keep how far it has come.
    keep_offsets: bool,
}

fn names(brokers: &[Arc<Broker>]) -> BTreeSet<String> {
    brokers.iter().flat_map(|broker| broker.catalog.groups()).map(|group| group.group_name.clone()).collect()
}

fn check_is_there(name: &str, brokers: &[Arc<Broker>]) -> Result<(), Problem> {
    if brokers.iter().any(|broker| broker.catalog.group(name).is_some()) {
        return Ok(());
    }
    let like = nearest::likest(name, names(brokers).into_iter());
    Err(Problem::not_found(format!("group '{name}' not found")).near(like))
}

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    let work = move |brokers: &[Arc<Broker>], _| {
        let lags: Vec<_> = brokers.iter().map(|broker| broker.snapshots.lag_by_group()).collect();
        piece.of(names(brokers), |name| {
            let lag: u64 = lags.iter().filter_map(|lags| lags.get(&name)).sum();
            let ids = brokers.iter().filter_map(|broker| broker.groups.member_ids(&name)).flatten();
            let members = ids.collect::<BTreeSet<_>>().len();
            json!({"name": name, "members": members, "lag": lag})
        })
    };
    admin.read_all(work).await
}

pub(super) async fn show(State(admin): State<Admin>, Path(name): Path<String>) -> Answer {
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        check_is_there(&name, brokers)?;
        let (mut members, mut progress, mut lag) = (Vec::new(), Vec::new(), 0);
        for broker in brokers {
            let settled = queues_of(broker, &name, now)?;
            lag += settled.iter().filter_map(|row| row["lag"].as_u64()).sum::<u64>();
            progress.extend(settled);
            for member in broker.groups.snapshot(&name).map(|group| group.members).unwrap_or_default() {
                let (language, version) = client_kind(&member);
                members.push(json!({
                    "client": member.client_id,
                    "address": member.address.to_string(),
                    "broker": broker.options().broker_name,
                    "language": language,
                    "version": version,
                    "seen_ms": member.seen.wall.0,
                }));
            }
        }
        let letters: Vec<_> = brokers.iter().map(|broker| dead_letters(broker, &name)).collect();
        let [kept, unsent] = [0, 1].map(|of| letters.iter().map(|counts| counts[of]).sum::<u64>());
        Ok(json!({
            "name": name,
            "lag": lag,
            "dead_letters": kept,
            "dead_letters_not_resent": unsent,
            "members": members,
            "queues": progress,
        }))
    };
    admin.read_all(work).await
}

/// How many dead letters of a group a broker keeps, and how many of them were not resent.
fn dead_letters(broker: &Broker, group: &str) -> [u64; 2] {
    let name = TopicName::dead_letters_of(group);
    let mut counts = [0, 0];
    for queue in broker.catalog.queues_of(name.as_str()).unwrap_or_default() {
        let resent = broker.offsets.committed(name.as_str(), RESENDER, queue.id()).unwrap_or_default();
        let resent = u64::try_from(resent).unwrap_or_default().max(queue.first().0);
        counts[0] += queue.end().0.saturating_sub(queue.first().0);
        counts[1] += queue.end().0.saturating_sub(resent);
    }
    counts
}

/// How far a group has come at a broker, a row a queue.
fn queues_of(broker: &Broker, group: &str, now: Now) -> Result<Vec<Value>, Problem> {
    let mut rows = Vec::new();
    for topic in broker.snapshots.topics_of_group(group) {
        if broker.catalog.topic(&topic).is_none() {
            continue;
        }
        let progress = broker.snapshots.progress(&topic, group)?;
        let rate = broker.snapshots.consume_rate(&topic, group, now);
        for queue in progress {
            rows.push(json!({
                "topic": topic,
                "broker": broker.options().broker_name,
                "queue": queue.queue.0,
                "committed": queue.committed,
                "end": queue.end.0,
                "lag": queue.lag,
                "consumed_time_ms": Some(queue.consumed_time.0).filter(|time| *time > 0),
                "topic_messages_out_per_second": rate,
            }));
        }
    }
    Ok(rows)
}

pub(super) async fn reset(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(asked): Body<AskedReset>,
) -> Answer {
    let AskedReset { topic, to, broker: only, queue, dry_run } = asked;
    let to = ResetTo::from(to);
    let how = if dry_run { "would be reset" } else { "is reset" };
    let in_queue = queue.map(|queue| format!(", queue {queue}")).unwrap_or_default();
    let at_broker = only.as_ref().map(|only| format!(", broker [{only}]")).unwrap_or_default();
    let what = format!("group [{name}] {how} in topic [{topic}]{in_queue}{at_broker} to {to:?}");
    let work =
        move |brokers: &[Arc<Broker>], now: Now| {
            check_is_there(&name, brokers)?;
            let asked = Reset { group: &name, topic: &topic, queue, to, only_back: false };
            let mut places = topic::found_at(&topic, brokers, only.as_deref())?;
            let is_about_one = queue.is_some() || matches!(to, ResetTo::Offset(_));
            if is_about_one && places.len() > 1 {
                return Err(topic::ambiguous(&topic, &places));
            }
            let names = topic::names(&places);
            places.retain(|(broker, _)| broker.catalog.group(&name).is_some());
            if places.is_empty() {
                return Err(Problem::not_found(format!(
                    "group '{name}' is not at [{names}], where the topic '{topic}' is"
                )));
            }
            let mut items = Vec::new();
            for (broker, _) in places {
                let at = &broker.options().broker_name;
                let administrator = Administrator::new(broker, now);
                let moves = if dry_run { administrator.plan(&asked)? } else { administrator.reset(&asked)? };
                items.extend(moves.iter().map(
                    |Move { queue, from, to, .. }| json!({"broker": at, "queue": queue.0, "from": from, "to": to}),
                ));
            }
            if items.is_empty() {
                let which = queue.map_or_else(|| "queues".to_owned(), |queue| format!("queue {queue}"));
                return Err(Problem::not_found(format!("topic '{topic}' has no {which} at [{names}]")));
            }
            Ok(json!({"group": name, "topic": topic, "dry_run": dry_run, "items": items}))
        };
    admin.change_all(caller, what, work).await
}

/// Which dead letters of a group are to be resent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resending {
    #[serde(default)]
    to: Way,
    /// Those that died then or later, ms since 1970.
    since: Option<u64>,
    /// Goes back to the oldest: those too that were resent before. What is `left` then is asked for without this.
    #[serde(default)]
    again: bool,
    /// Passes over those whose topic is gone: they stay where they are, and count as resent.
    #[serde(default)]
    pass_over: bool,
    /// So many at most, of each broker; no more than [`RESENT_MAX`].
    count: Option<usize>,
    /// Counts them, and does nothing.
    #[serde(default)]
    dry_run: bool,
}

/// Where they go.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Way {
    #[default]
    Group,
    Topics,
}

/// Sends dead letters once more; `left` says whether to ask again.
pub(super) async fn resend(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(asked): Body<Resending>,
) -> Answer {
    let (to, whither) = match asked.to {
        Way::Group => (ResendTo::Group, "to the group"),
        Way::Topics => (ResendTo::Topics, "to their topics"),
    };
    let how = if asked.dry_run { "are counted" } else { "are resent" };
    let what = format!("dead letters of group [{name}] {how} {whither}");
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        check_is_there(&name, brokers)?;
        let count_max = if asked.dry_run { 0 } else { asked.count.unwrap_or(RESENT_MAX).min(RESENT_MAX) };
        let (mut count, mut left, mut passed_over) = (0, 0, 0);
        for broker in brokers.iter().filter(|broker| broker.catalog.group(&name).is_some()) {
            let since = asked.since.map(Timestamp);
            let resend =
                Resend { group: &name, to, since, again: asked.again, passes_over: asked.pass_over, count_max };
            let resent = broker.copies.resend(&resend, now)?;
            broker.keep(now).map_err(|error| Problem::failed(error.to_string()))?;
            (count, left) = (count + resent.count, left + resent.left);
            passed_over += resent.passed_over;
            if let Some((queue, offset, refusal)) = resent.failure {
                let broker = &broker.options().broker_name;
                return Err(Problem::from(refusal).after(&format!(
                    "{count} dead letters were resent; the one at offset {offset} of queue {queue} of broker '{broker}' was not"
                )));
            }
        }
        Ok(json!({
            "group": name,
            "dry_run": asked.dry_run,
            "resent": count,
            "left": left,
            "passed_over": passed_over,
        }))
    };
    admin.change_all(caller, what, work).await
}

pub(super) async fn remove(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Query(Removal { keep_offsets }): Query<Removal>,
) -> Answer {
    let what = format!("group [{name}] is removed");
    let work = move |brokers: &[Arc<Broker>], now: Now| {
        check_is_there(&name, brokers)?;
        for broker in brokers {
            Administrator::new(broker, now).remove_group(&name, !keep_offsets)?;
        }
        Ok(json!({"name": name}))
    };
    admin.change_all(caller, what, work).await
}
