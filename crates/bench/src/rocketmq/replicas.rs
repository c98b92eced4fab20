//! Masters and their slaves: whether a slave has what its master has. Brokers of all versions tell where their logs end; which
//! replicas they see only those of 5.x.

use std::thread;
use std::time::{Duration, Instant};

use client::ClientError;
use client::rocketmq::control::{Control, NoFields};
use client::rocketmq::producer::send_request;
use client::rocketmq::route::first_reachable;
use client::target::Target;
use wire::rocketmq::body::cluster_info::ClusterInfo;
use wire::rocketmq::body::route::{BrokerData, MASTER_ID};
use wire::rocketmq::code::request::{GET_BROKER_CLUSTER_INFO, GET_BROKER_RUNTIME_INFO, SEND_MESSAGE_V2};

use crate::error::BenchError;
use crate::machine::clock::wall_ms;

const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Where a message goes by which a slave is seen to follow.
const TOPIC: &str = "bench-replicas";

/// Whether the slaves of the broker `name` have what it has; where that is nothing, in which nobody is seen to follow, it is given a
/// message.
pub fn is_followed(target: &Target, name: &str) -> Result<bool, BenchError> {
    let Some(group) = groups(target)?.into_iter().find(|group| group.name == name) else { return Ok(false) };
    let end = log_end("master", &group.master)?;
    if end == 0 {
        let born_ms = i64::try_from(wall_ms()).unwrap_or_default();
        let mut master = Control::open("master", &group.master)?;
        // Stored, whether or not a slave had it in time.
        master.ask_with(SEND_MESSAGE_V2, &send_request((TOPIC, 0), born_ms, ""), b"followed")?;
        return Ok(false);
    }
    Ok(!group.slaves.is_empty() && group.lacking(end)?.is_none())
}

/// Waits until the slaves of every master have what it has now, for `limit` at most; gives how long that took.
pub fn wait_until_followed(target: &Target, limit: Duration) -> Result<Duration, BenchError> {
    let began = Instant::now();
    let groups = groups(target)?;
    let ends = groups.iter().map(|group| log_end("master", &group.master)).collect::<Result<Vec<_>, _>>()?;
    for (group, end) in groups.iter().zip(ends) {
        let problem = |problem| BenchError::NotFollowed { broker: group.name.clone(), problem };
        if group.slaves.is_empty() {
            return Err(problem("no slave is registered".to_owned()));
        }
        while let Some((slave, lacking)) = group.lacking(end)? {
            if began.elapsed() > limit {
                let seconds = limit.as_secs_f64();
                return Err(problem(format!("{lacking} bytes of its log are not at {slave} after {seconds} s")));
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
    Ok(began.elapsed())
}

/// A master and its slaves, as the name server knows them.
struct Group {
    name: String,
    master: String,
    slaves: Vec<String>,
}

impl Group {
    /// As that name server has it; a group without a master is none.
    fn of(broker: BrokerData, name_server: &Control) -> Option<Self> {
        let mut addresses = broker.broker_addrs;
        let master = name_server.like_own(&addresses.remove(&MASTER_ID)?);
        let slaves = addresses.into_values().map(|slave| name_server.like_own(&slave)).collect();
        Some(Self { name: broker.broker_name, master, slaves })
    }

    /// A slave whose log does not reach to `end`, and how many bytes it lacks.
    fn lacking(&self, end: u64) -> Result<Option<(&str, u64)>, BenchError> {
        for slave in &self.slaves {
            let lacking = end.saturating_sub(log_end("slave", slave)?);
            if lacking > 0 {
                return Ok(Some((slave, lacking)));
            }
        }
        Ok(None)
    }
}

fn groups(target: &Target) -> Result<Vec<Group>, BenchError> {
    let addresses = match target {
        Target::NameServer(addresses) => addresses,
        Target::Broker(_) | Target::Amqp(_) => {
            let problem = "its slaves are known to a name server alone: give that as the target".to_owned();
            return Err(BenchError::NotFollowed { broker: target.to_string(), problem });
        }
    };
    let mut name_server = first_reachable(addresses)?;
    let answer = name_server.demand(GET_BROKER_CLUSTER_INFO, &NoFields)?;
    let not_rocketmq =
        |source| BenchError::from(ClientError::NotRocketmq { address: name_server.address().to_owned(), source });
    let cluster = ClusterInfo::decode(&answer.body).map_err(not_rocketmq)?;
    Ok(cluster.broker_addr_table.into_values().filter_map(|broker| Group::of(broker, &name_server)).collect())
}

/// Where the log of the broker at `address` ends.
fn log_end(role: &'static str, address: &str) -> Result<u64, BenchError> {
    let mut broker = Control::open(role, address)?;
    let answer = broker.demand(GET_BROKER_RUNTIME_INFO, &NoFields)?;
    let told = format::loose_json::parse(&answer.body).unwrap_or_default();
    let end = told.pointer("/table/commitLogMaxOffset").and_then(|end| end.as_str()).and_then(|end| end.parse().ok());
    let problem = "it does not tell where its log ends".to_owned();
    end.ok_or_else(|| ClientError::Lost { address: address.to_owned(), problem }.into())
}
