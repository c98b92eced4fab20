//! What users may do with the messages of topic exchanges, as patterns of keys.

use axum::extract::State;
use broker::{Broker, Shown};
use format::model::TopicPermissionSettings;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::list::Piece;
use super::problem::Problem;
use super::{Admin, Answer};

/// Virtual host, user, exchange.
type Place = (String, String, String);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Patterns {
    write: String,
    read: String,
}

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    let work = move |broker: &Broker, _| {
        piece.of(broker.model.access.topic_permissions(), |(vhost, user, exchange, settings)| {
            let TopicPermissionSettings { write, read } = settings;
            let exchange = Shown(&exchange).to_string();
            json!({"vhost": vhost, "user": user, "exchange": exchange, "write": write, "read": read})
        })
    };
    admin.read(work).await
}

pub(super) async fn set(
    State(admin): State<Admin>,
    caller: Caller,
    Path((vhost, user, exchange)): Path<Place>,
    Body(Patterns { write, read }): Body<Patterns>,
) -> Answer {
    let what = format!("user [{user}] may in [{vhost}] by keys of [{exchange}] write [{write}], read [{read}]");
    let work = move |broker: &Broker, now| {
        let place = (&*vhost, &*user, exchange.as_bytes());
        let permitted = broker.model.permit_topic(place, TopicPermissionSettings { write, read }, now);
        permitted.map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"vhost": vhost, "user": user, "exchange": exchange}))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn clear(
    State(admin): State<Admin>,
    caller: Caller,
    Path((vhost, user, exchange)): Path<Place>,
) -> Answer {
    let what = format!("user [{user}] may in [{vhost}] use any key of [{exchange}]");
    let work = move |broker: &Broker, now| {
        let forgotten = broker.model.forget_topic((&vhost, &user, exchange.as_bytes()), now);
        forgotten.map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"vhost": vhost, "user": user, "exchange": exchange}))
    };
    admin.change(caller, what, work).await
}
