//! Clients that are connected: those of RocketMQ by the groups they are in, AMQP's by their virtual host and user.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use broker::{Broker, Member};
use dialect::rocketmq::client_kind;
use serde_json::{Value, json};

use super::address::Query;
use super::list::Piece;
use super::{Admin, Answer};

pub(super) async fn list(State(admin): State<Admin>, Query(piece): Query<Piece>) -> Answer {
    let work = move |brokers: &[Arc<Broker>], _| {
        let all: Vec<_> = brokers.iter().flat_map(|broker| of(broker)).collect();
        Ok(piece.of(all, |shown| shown))
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
    all.extend(broker.model.connections.all().into_iter().map(|(number, host, user)| {
        json!({
            "protocol": "amqp",
            "client": format!("connection {}", number.0),
            "broker": broker.options().broker_name,
            "vhost": &*host,
            "user": &*user,
        })
    }));
    all
}
