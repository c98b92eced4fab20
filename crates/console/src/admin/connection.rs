//! Clients that are connected: those of RocketMQ by the groups they are in, AMQP's by their virtual host and user.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use broker::{Broker, Connected, ConnectionNumber, Member};
use dialect::rocketmq::client_kind;
use serde_json::{Value, json};

use super::address::{Path, Query};
use super::caller::Caller;
use super::list::Piece;
use super::problem::Problem;
use super::{Admin, Answer};

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    let work = move |brokers: &[Arc<Broker>], _| {
        let all: Vec<_> = brokers.iter().flat_map(|broker| of(broker)).collect();
        piece.of(all, |shown| shown)
    };
    admin.read_all(work).await
}

/// The clients of a broker: one that is in several groups once.
fn of(broker: &Broker) -> Vec<Value> {
    let mut clients = BTreeMap::<_, Value>::new();
    let mut note = |role: &str, group: &str, member: &Member| {
        let key = (member.address, member.client_id.clone());
        let client = clients.entry(key).or_insert_with(|| {
            let (language, version) = client_kind(member);
            json!({
                "protocol": "rocketmq",
                "client": member.client_id,
                "address": member.address.to_string(),
                "broker": broker.options().broker_name,
                "language": language,
                "version": version,
                "seen_ms": member.seen.wall.0,
                "consumes": [],
                "produces": [],
            })
        });
        if let Some(groups) = client[role].as_array_mut() {
            groups.push(group.into());
        }
    };
    for group in broker.catalog.groups() {
        for member in broker.groups.snapshot(&group.group_name).map(|group| group.members).unwrap_or_default() {
            note("consumes", &group.group_name, &member);
        }
    }
    for (group, members) in broker.groups.all_producers() {
        members.iter().for_each(|member| note("produces", group.as_str(), member));
    }
    let mut all: Vec<_> = clients.into_values().collect();
    all.extend(broker.model.connections.all().into_iter().map(|(number, connected)| {
        let Connected { address, client, since, host, user, .. } = connected;
        json!({
            "protocol": "amqp",
            "number": number.0,
            "client": if client.name.is_empty() { format!("connection {}", number.0) } else { client.name.clone() },
            "address": address.to_string(),
            "broker": broker.options().broker_name,
            "language": client.platform,
            "product": client.product,
            "version": client.version,
            "since_ms": since.0,
            "vhost": &*host,
            "user": &*user,
        })
    }));
    all
}

/// Closes a connection of AMQP; its client may come back.
pub(super) async fn close(State(admin): State<Admin>, caller: Caller, Path(number): Path<u64>) -> Answer {
    let what = format!("connection {number} is closed");
    let work = move |broker: &Broker, _| {
        if !broker.model.connections.close(ConnectionNumber(number), "Closed by an operator") {
            return Err(Problem::not_found(format!("there is no connection {number} of AMQP")));
        }
        Ok(json!({"number": number}))
    };
    admin.change(caller, what, work).await
}
