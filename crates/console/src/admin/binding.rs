//! Bindings of a virtual host: from an exchange to a queue or to another exchange.

use axum::extract::State;
use broker::{BindingShown, BindingTarget, Broker, Shown};
use dialect::amqp::{AdminError, Administrator, AskedBinding, shown_arguments};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::address::{Path, Query};
use super::body::Body;
use super::caller::Caller;
use super::list::Piece;
use super::problem::Problem;
use super::{Admin, Answer, host, within};

/// What a binding leads to.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Queue,
    Exchange,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    source: String,
    destination: String,
    #[serde(default)]
    destination_type: Kind,
    #[serde(default)]
    key: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// The same in an address, with the arguments as JSON.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedInAddress {
    source: String,
    destination: String,
    #[serde(default)]
    destination_type: Kind,
    #[serde(default)]
    key: String,
    arguments: Option<String>,
}

impl Named {
    fn target(&self) -> BindingTarget {
        let name = self.destination.as_bytes().into();
        match self.destination_type {
            Kind::Queue => BindingTarget::Queue(name),
            Kind::Exchange => BindingTarget::Exchange(name),
        }
    }

    fn told(&self) -> String {
        format!("from [{}] to [{}] by key [{}]", self.source, self.destination, self.key)
    }

    fn asked<'a>(&'a self, to: &'a BindingTarget) -> AskedBinding<'a> {
        AskedBinding { source: &self.source, to, key: &self.key, arguments: &self.arguments }
    }

    fn answer(&self, vhost: &str) -> Value {
        json!({"vhost": vhost, "source": self.source, "destination": self.destination, "key": self.key})
    }
}

fn shown(BindingShown { source, to, key, arguments }: &BindingShown) -> Value {
    let (destination, kind) = match to {
        BindingTarget::Queue(name) => (name, "queue"),
        BindingTarget::Exchange(name) => (name, "exchange"),
    };
    json!({
        "source": Shown(source).to_string(),
        "destination": Shown(destination).to_string(),
        "destination_type": kind,
        "key": Shown(key).to_string(),
        "arguments": shown_arguments(arguments),
    })
}

pub(super) async fn list(State(admin): State<Admin>, Path(vhost): Path<String>, Query(piece): Query<Piece>) -> Answer {
    let work = move |broker: &Broker, _| {
        let host = host(broker, &vhost)?;
        piece.of(host.bindings(), |binding| shown(&binding))
    };
    admin.read(work).await
}

pub(super) async fn add(
    State(admin): State<Admin>,
    caller: Caller,
    Path(vhost): Path<String>,
    Body(named): Body<Named>,
) -> Answer {
    let what = format!("binding {} is made in [{vhost}]", named.told());
    change(&admin, caller, (vhost, named), what, |administrator, asked| administrator.bind(asked)).await
}

pub(super) async fn remove(
    State(admin): State<Admin>,
    caller: Caller,
    Path(vhost): Path<String>,
    Query(named): Query<NamedInAddress>,
) -> Answer {
    let NamedInAddress { source, destination, destination_type, key, arguments } = named;
    let arguments = arguments.as_deref().map_or(Ok(Map::new()), serde_json::from_str);
    let arguments = arguments.map_err(|error| Problem::bad(format!("the arguments are no JSON object: {error}")))?;
    let named = Named { source, destination, destination_type, key, arguments };
    let what = format!("binding {} is removed from [{vhost}]", named.told());
    change(&admin, caller, (vhost, named), what, |administrator, asked| administrator.unbind(asked)).await
}

async fn change(
    admin: &Admin,
    caller: Caller,
    (vhost, named): (String, Named),
    what: String,
    act: impl FnOnce(&Administrator<'_>, &AskedBinding<'_>) -> Result<(), AdminError> + Send + 'static,
) -> Answer {
    let work = move |broker: &Broker, now| {
        let target = named.target();
        within((broker, &vhost), now, |administrator| act(administrator, &named.asked(&target)))?;
        Ok(named.answer(&vhost))
    };
    admin.change(caller, what, work).await
}
