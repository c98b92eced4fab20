//! Exchanges of a virtual host.

use axum::extract::State;
use broker::{Broker, Shown};
use dialect::amqp::{AskedExchange, kind_name, shown_arguments};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::list::Piece;
use super::{Admin, Answer, host, within};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default = "yes")]
    durable: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default)]
    internal: bool,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    #[serde(default)]
    if_unused: bool,
}

pub(super) const fn yes() -> bool {
    true
}

pub(super) async fn list(State(admin): State<Admin>, Path(vhost): Path<String>, Query(piece): Query<Piece>) -> Answer {
    let work = move |broker: &Broker, _| {
        let host = host(broker, &vhost)?;
        piece.of(host.exchanges(), |(name, settings)| {
            json!({
                "name": Shown(&name).to_string(),
                "type": kind_name(settings.kind),
                "durable": settings.durable,
                "auto_delete": settings.auto_delete,
                "internal": settings.internal,
                "arguments": shown_arguments(&settings.arguments),
            })
        })
    };
    admin.read(work).await
}

pub(super) async fn add(
    State(admin): State<Admin>,
    caller: Caller,
    Path(vhost): Path<String>,
    Body(new): Body<New>,
) -> Answer {
    let what = format!("exchange [{}] of type [{}] is made in [{vhost}]", new.name, new.kind);
    let work = move |broker: &Broker, now| {
        let New { name, kind, durable, auto_delete, internal, arguments } = &new;
        let asked =
            AskedExchange { name, kind, durable: *durable, auto_delete: *auto_delete, internal: *internal, arguments };
        within((broker, &vhost), now, |administrator| administrator.declare_exchange(&asked))?;
        Ok(json!({"vhost": vhost, "name": name}))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn remove(
    State(admin): State<Admin>,
    caller: Caller,
    Path((vhost, name)): Path<(String, String)>,
    Query(Condition { if_unused }): Query<Condition>,
) -> Answer {
    let what = format!("exchange [{name}] is removed from [{vhost}]");
    let work = move |broker: &Broker, now| {
        within((broker, &vhost), now, |administrator| administrator.delete_exchange(&name, if_unused))?;
        Ok(json!({"vhost": vhost, "name": name}))
    };
    admin.change(caller, what, work).await
}
