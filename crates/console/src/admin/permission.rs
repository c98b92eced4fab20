//! What users may do in virtual hosts, as patterns of names.

use axum::extract::State;
use broker::Broker;
use format::model::PermissionSettings;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::list::Piece;
use super::problem::Problem;
use super::{Admin, Answer};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Patterns {
    configure: String,
    write: String,
    read: String,
}

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    let work = move |broker: &Broker, _| {
        piece.of(broker.model.access.permissions(), |(vhost, user, settings)| {
            let PermissionSettings { configure, write, read } = settings;
            json!({"vhost": vhost, "user": user, "configure": configure, "write": write, "read": read})
        })
    };
    admin.read(work).await
}

pub(super) async fn set(
    State(admin): State<Admin>,
    caller: Caller,
    Path((vhost, user)): Path<(String, String)>,
    Body(Patterns { configure, write, read }): Body<Patterns>,
) -> Answer {
    let what = format!("user [{user}] may in [{vhost}] configure [{configure}], write [{write}], read [{read}]");
    let work = move |broker: &Broker, now| {
        let permitted = broker.model.permit(&vhost, &user, PermissionSettings { configure, write, read }, now);
        permitted.map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"vhost": vhost, "user": user}))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn clear(
    State(admin): State<Admin>,
    caller: Caller,
    Path((vhost, user)): Path<(String, String)>,
) -> Answer {
    let what = format!("user [{user}] may do nothing in [{vhost}]");
    let work = move |broker: &Broker, now| {
        broker.model.forbid(&vhost, &user, now).map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"vhost": vhost, "user": user}))
    };
    admin.change(caller, what, work).await
}
