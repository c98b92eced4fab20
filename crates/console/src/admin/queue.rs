//! Message queues of a virtual host.

use axum::extract::State;
use broker::{Broker, MessageQueue, OnlyIf, Shown};
use dialect::amqp::{AskedQueue, shown_arguments};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::exchange::yes;
use super::list::Piece;
use super::{Admin, Answer, host, within};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    name: String,
    #[serde(default = "yes")]
    durable: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub(super) struct Condition {
    if_unused: bool,
    if_empty: bool,
}

/// A queue, as it is shown.
fn shown(queue: &MessageQueue) -> Value {
    let (wish, counts) = (queue.wish(), queue.counts());
    json!({
        "name": Shown(queue.name()).to_string(),
        "ready": counts.ready,
        "unacknowledged": counts.leased,
        "consumers": queue.consumer_count(),
        "durable": wish.is_durable,
        "auto_delete": wish.auto_delete,
        "exclusive": wish.owner.is_some(),
        "arguments": shown_arguments(&wish.arguments),
    })
}

pub(super) async fn list(State(admin): State<Admin>, Path(vhost): Path<String>, Query(piece): Query<Piece>) -> Answer {
    let work = move |broker: &Broker, _| {
        let host = host(broker, &vhost)?;
        piece.of(host.queues(), |queue| shown(&queue))
    };
    admin.read(work).await
}

pub(super) async fn show(State(admin): State<Admin>, Path((vhost, name)): Path<(String, String)>) -> Answer {
    let work = move |broker: &Broker, now| {
        within((broker, &vhost), now, |administrator| administrator.queue(&name)).map(|queue| shown(&queue))
    };
    admin.read(work).await
}

pub(super) async fn add(
    State(admin): State<Admin>,
    caller: Caller,
    Path(vhost): Path<String>,
    Body(new): Body<New>,
) -> Answer {
    let what = format!("queue [{}] is made in [{vhost}]", new.name);
    let work = move |broker: &Broker, now| {
        let New { name, durable, auto_delete, arguments } = &new;
        let asked = AskedQueue { name, durable: *durable, auto_delete: *auto_delete, arguments };
        within((broker, &vhost), now, |administrator| administrator.declare_queue(&asked)).map(|queue| shown(&queue))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn remove(
    State(admin): State<Admin>,
    caller: Caller,
    Path((vhost, name)): Path<(String, String)>,
    Query(Condition { if_unused, if_empty }): Query<Condition>,
) -> Answer {
    let what = format!("queue [{name}] is removed from [{vhost}]");
    let work = move |broker: &Broker, now| {
        let only_if = OnlyIf { unused: if_unused, empty: if_empty };
        let removed = within((broker, &vhost), now, |administrator| administrator.delete_queue(&name, only_if))?;
        Ok(json!({"vhost": vhost, "name": name, "messages": removed.ready}))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn purge(
    State(admin): State<Admin>,
    caller: Caller,
    Path((vhost, name)): Path<(String, String)>,
) -> Answer {
    let what = format!("queue [{name}] of [{vhost}] is emptied");
    let work = move |broker: &Broker, now| {
        let queue = within((broker, &vhost), now, |administrator| administrator.queue(&name))?;
        let count = broker.purge(&queue, now)?;
        Ok(json!({"vhost": vhost, "name": name, "messages": count}))
    };
    admin.change(caller, what, work).await
}
