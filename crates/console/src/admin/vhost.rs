//! Virtual hosts.

use axum::extract::State;
use broker::{Broker, VirtualHost};
use format::model::{HostLimits, VirtualHostSettings};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::list::Piece;
use super::problem::Problem;
use super::{Admin, Answer};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    name: String,
    #[serde(default)]
    description: String,
}

/// Most that there may be from now on; none: as much as there is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    connections: Option<u32>,
    queues: Option<u32>,
}

/// A virtual host, as it is shown.
fn shown(host: &VirtualHost) -> Value {
    let HostLimits { connections_max, queues_max } = host.limits();
    json!({
        "name": &**host.name(),
        "description": host.settings().description,
        "queues": host.queue_count(),
        "connections_max": connections_max,
        "queues_max": queues_max,
    })
}

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    admin.read(move |broker, _| piece.of(broker.model.hosts(), |host| shown(&host))).await
}

pub(super) async fn add(State(admin): State<Admin>, caller: Caller, Body(new): Body<New>) -> Answer {
    let New { name, description } = new;
    let what = format!("virtual host [{name}] is made");
    let work = move |broker: &Broker, now| {
        let made = broker.model.make_host(&name, VirtualHostSettings { description }, now);
        made.map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"name": name}))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn limit(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(Limits { connections, queues }): Body<Limits>,
) -> Answer {
    let limits = HostLimits { connections_max: connections, queues_max: queues };
    let what = format!("virtual host [{name}] is limited: {limits:?}");
    let work = move |broker: &Broker, now| {
        broker.model.limit_host(&name, limits, now).map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"name": name, "connections_max": connections, "queues_max": queues}))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn remove(State(admin): State<Admin>, caller: Caller, Path(name): Path<String>) -> Answer {
    let what = format!("virtual host [{name}] is removed");
    let work = move |broker: &Broker, now| {
        broker.model.remove_host(&name, now).map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"name": name}))
    };
    admin.change(caller, what, work).await
}
