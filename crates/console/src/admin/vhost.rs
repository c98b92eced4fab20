//! Virtual hosts.

use axum::extract::State;
use broker::{Broker, VirtualHost};
use format::model::VirtualHostSettings;
use serde::Deserialize;
use serde_json::{Value, json};

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::list::Piece;
use super::problem::Problem;
use super::{Admin, Answer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct New {
    name: String,
    #[serde(default)]
    description: String,
}

/// A virtual host, as it is shown.
fn shown(host: &VirtualHost) -> Value {
    json!({"name": &**host.name(), "description": host.settings().description, "queues": host.queue_count()})
}

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    admin.read(move |broker, _| Ok(piece.of(broker.model.hosts(), |host| shown(&host)))).await
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

pub(super) async fn remove(State(admin): State<Admin>, caller: Caller, Path(name): Path<String>) -> Answer {
    let what = format!("virtual host [{name}] is removed");
    let work = move |broker: &Broker, now| {
        broker.model.remove_host(&name, now).map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"name": name}))
    };
    admin.change(caller, what, work).await
}
