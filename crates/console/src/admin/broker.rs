//! The brokers of the process: how they are, and which slaves they have.

use std::sync::Arc;

use axum::extract::State;
use base::Now;
use broker::{Broker, Replica};
use serde_json::{Value, json};

use super::{Admin, Answer};
use crate::health::problem;

pub(super) async fn list(State(admin): State<Admin>) -> Answer {
    let work = |brokers: &[Arc<Broker>], now: Now| {
        let items: Vec<_> = brokers.iter().map(|broker| shown(broker, now)).collect();
        Ok(json!({"items": items}))
    };
    admin.read_all(work).await
}

/// A broker, as it is shown.
pub(crate) fn shown(broker: &Broker, now: Now) -> Value {
    let runtime = broker.snapshots.runtime(now);
    let problem = problem(broker);
    let replicas = broker.durability.replicas().all();
    json!({
        "name": broker.options().broker_name,
        "cluster": broker.options().cluster_name,
        "role": if broker.follows() { "slave" } else { "master" },
        "is_well": problem.is_none(),
        "problem": problem,
        "is_draining": !broker.running.permission().write,
        "is_readable": broker.running.permission().read,
        "messages_in_per_second": runtime.put_rates[0],
        "messages_out_per_second": runtime.get_rates[0],
        "topics": broker.catalog.topics().len(),
        "groups": broker.catalog.groups().len(),
        "log_first": runtime.log_first,
        "log_end": runtime.log_end,
        "unsynced_bytes": runtime.unsynced_bytes,
        "disk_used_bytes": runtime.disk_used_bytes,
        "disk_total_bytes": runtime.disk_total_bytes,
        "oldest_message_ms": broker.snapshots.earliest_in_log().map(|time| time.0),
        "slaves": replicas.iter().map(|replica| shown_slave(replica, runtime.log_end)).collect::<Vec<_>>(),
    })
}

fn shown_slave(replica: &Replica, log_end: u64) -> Value {
    json!({
        "address": replica.address.to_string(),
        "behind_bytes": log_end.saturating_sub(replica.end.0),
        "sent_bytes_per_second": replica.sent_per_second,
        "caught_up_ms": replica.caught_up.wall.0,
    })
}
