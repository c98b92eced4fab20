//! Users: passwords come in and never go out, neither in an answer nor in a log.

use axum::extract::State;
use broker::{Broker, hash_password};
use format::model::{PasswordHash, UserLimits, UserSettings};
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
    /// None: nobody can be this user by a password.
    password: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPassword {
    password: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTags {
    tags: Vec<String>,
}

/// Most that the user may have at one time from now on; none: as much as there is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    connections: Option<u32>,
    channels: Option<u32>,
}

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    let work = move |broker: &Broker, _| {
        let access = &broker.model.access;
        piece.of(access.users(), |(name, settings)| {
            let UserLimits { connections_max, channels_max } = access.limits(&name);
            json!({
                "name": name,
                "tags": settings.tags,
                "has_password": settings.password.is_some(),
                "connections_max": connections_max,
                "channels_max": channels_max,
            })
        })
    };
    admin.read(work).await
}

pub(super) async fn add(State(admin): State<Admin>, caller: Caller, Body(new): Body<New>) -> Answer {
    let New { name, password, tags } = new;
    check_tags(&tags)?;
    let what = format!("user [{name}] is made, tags {tags:?}");
    let work = move |broker: &Broker, now| {
        let settings = UserSettings { password: kept(password.as_deref(), broker)?, tags: tags.clone() };
        broker.model.make_user(&name, settings, now).map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"name": name, "tags": tags}))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn set_password(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(NewPassword { password }): Body<NewPassword>,
) -> Answer {
    let what = format!("user [{name}] has another password");
    let work = move |broker: &Broker, now| {
        let password = kept(password.as_deref(), broker)?;
        change(broker, name, |settings| settings.password = password, now)
    };
    admin.change(caller, what, work).await
}

pub(super) async fn set_tags(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(NewTags { tags }): Body<NewTags>,
) -> Answer {
    check_tags(&tags)?;
    let what = format!("user [{name}] has the tags {tags:?}");
    let work = move |broker: &Broker, now| change(broker, name, |settings| settings.tags = tags, now);
    admin.change(caller, what, work).await
}

pub(super) async fn limit(
    State(admin): State<Admin>,
    caller: Caller,
    Path(name): Path<String>,
    Body(Limits { connections, channels }): Body<Limits>,
) -> Answer {
    let limits = UserLimits { connections_max: connections, channels_max: channels };
    let what = format!("user [{name}] is limited: {limits:?}");
    let work = move |broker: &Broker, now| {
        broker.model.limit_user(&name, limits, now).map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"name": name, "connections_max": connections, "channels_max": channels}))
    };
    admin.change(caller, what, work).await
}

pub(super) async fn remove(State(admin): State<Admin>, caller: Caller, Path(name): Path<String>) -> Answer {
    let what = format!("user [{name}] is removed");
    let work = move |broker: &Broker, now| {
        broker.model.remove_user(&name, now).map_err(|error| Problem::of(&error, broker))?;
        Ok(json!({"name": name}))
    };
    admin.change(caller, what, work).await
}

fn change(
    broker: &Broker,
    name: String,
    how: impl FnOnce(&mut UserSettings),
    now: base::Now,
) -> Result<Value, Problem> {
    broker.model.change_user(&name, how, now).map_err(|error| Problem::of(&error, broker))?;
    Ok(json!({"name": name}))
}

/// What is kept of a password.
fn kept(password: Option<&str>, broker: &Broker) -> Result<Option<PasswordHash>, Problem> {
    let Some(password) = password else { return Ok(None) };
    if password.is_empty() {
        return Err(Problem::bad("the password is empty"));
    }
    let [a, b, c, d, ..] = broker.random().to_ne_bytes();
    Ok(Some(hash_password(password.as_bytes(), [a, b, c, d])))
}

fn check_tags(tags: &[String]) -> Result<(), Problem> {
    let is_word = |tag: &str| !tag.is_empty() && tag.chars().all(|one| one.is_alphanumeric() || "-_.".contains(one));
    match tags.iter().find(|tag| !is_word(tag)) {
        Some(tag) => Err(Problem::bad(format!("the tag [{}] is no word", tag.escape_debug()))),
        None => Ok(()),
    }
}
