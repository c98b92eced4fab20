//! Settings of the process: shown, and those that may change while it runs changed.

use std::collections::BTreeMap;

use axum::extract::State;
use base::running_settings::{ChangedSetting, ShownSetting};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::body::Body;
use super::caller::Caller;
use super::problem::Problem;
use super::{Admin, Answer, logged};

/// New values by name: Sluice's, or RocketMQ's.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Wanted(BTreeMap<String, String>);

pub(super) async fn list(State(admin): State<Admin>) -> Answer {
    let settings = admin.sources.settings.clone();
    let work = move |_| {
        let row = |ShownSetting { name, value, place, changes_at_once }| json!({"name": name, "value": value, "from": place, "changes_at_once": changes_at_once});
        let items: Vec<_> = settings.all().into_iter().map(row).collect();
        Ok(json!({"items": items}))
    };
    admin.work(work).await
}

/// All of them or none; until the process ends.
pub(super) async fn change(State(admin): State<Admin>, caller: Caller, Body(Wanted(wanted)): Body<Wanted>) -> Answer {
    let wanted = Vec::from_iter(wanted);
    let shown: Vec<_> = wanted.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let what = format!("settings are changed: {}", shown.join(", "));
    let settings = admin.sources.settings.clone();
    let work = move |_| {
        let changed = settings.change(&wanted).map_err(Problem::bad)?;
        let row = |ChangedSetting { name, from, to }| json!({"name": name, "from": from, "to": to});
        let items: Vec<_> = changed.into_iter().map(row).collect();
        Ok(json!({"items": items}))
    };
    admin.work(move |now| logged(&caller, &what, work(now))).await
}
