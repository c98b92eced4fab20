//! `sluice admin cluster`: the brokers that a name server knows, asked by RocketMQ's own requests, so that Java's answer too.

use client::rocketmq::cluster::{Registered, lag_bytes, registered};
use client::rocketmq::route::first_reachable;
use serde_json::{Value, json};

use super::Asking;
use super::client::Failure;

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin cluster list\n  \
    sluice admin cluster list --name-server 10.0.0.1:9876,10.0.0.2:9876")]
pub(super) enum Action {
    /// Lists the brokers of all clusters, Java's too: masters, slaves, and how far these are behind.
    List {
        /// Name servers, of which the first that answers is asked.
        #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', default_value = "127.0.0.1:9876")]
        name_server: Vec<String>,
    },
}

const COLUMNS: [&str; 8] =
    ["cluster", "broker", "role", "address", "version", "in_per_second", "out_per_second", "lag_bytes"];

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let Action::List { name_server } = action;
    let asked = first_reachable(name_server).and_then(|mut name_server| registered(&mut name_server));
    let all = asked.map_err(|error| Failure::Unasked(error.to_string()))?;
    let rows: Vec<_> = all.iter().map(|one| row(one, &all)).collect();
    let silent: Vec<_> = all.iter().filter_map(|one| Some((one, one.figures.as_ref().err()?))).collect();
    asking.tell_list(rows, &COLUMNS)?;
    let Some((one, why)) = silent.first() else { return Ok(()) };
    let others = if silent.len() > 1 { format!(" ({} do not answer)", silent.len()) } else { String::new() };
    Err(Failure::Unasked(format!("{} at {} does not say how it is{others}: {why}", one.name, one.address)))
}

fn row(one: &Registered, all: &[Registered]) -> Value {
    let version = one.figures.as_ref().ok().and_then(|figures| figures.get("brokerVersionDesc"));
    // Both spellings are RocketMQ's own.
    let out = one.rate("getTransferredTps").or_else(|| one.rate("getTransferedTps"));
    json!({
        "cluster": one.cluster,
        "broker": one.name,
        "role": if one.is_master() { "master".to_owned() } else { format!("slave {}", one.id) },
        "address": one.address,
        "version": version,
        "in_per_second": one.rate("putTps").map(|rate| rate.round() as u64),
        "out_per_second": out.map(|rate| rate.round() as u64),
        "lag_bytes": if one.is_master() { None } else { lag_bytes(one, all) },
    })
}
