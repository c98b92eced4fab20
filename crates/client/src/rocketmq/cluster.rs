//! The brokers of a cluster: those that a name server knows, and what each says of itself. Of either make, Java's or Sluice.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::rocketmq::body::cluster_info::ClusterInfo;
use wire::rocketmq::body::kv_table::KvTable;
use wire::rocketmq::body::route::MASTER_ID;
use wire::rocketmq::code::request;

use crate::error::ClientError;
use crate::rocketmq::control::{Control, NoFields};

/// How long a broker may take to say how it is.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A broker that is registered.
#[derive(Debug)]
pub struct Registered {
    /// Its cluster.
    pub cluster: String,
    /// Its name, which its slaves share.
    pub name: String,
    /// Its number: 0 is a master's.
    pub id: i64,
    /// Where clients reach it.
    pub address: String,
    /// What it says of itself (request 28), by RocketMQ's names.
    pub figures: Result<BTreeMap<String, String>, ClientError>,
}

impl Registered {
    /// Whether it is a master; else it is a slave.
    pub const fn is_master(&self) -> bool {
        self.id == MASTER_ID
    }

    /// A whole number of what it says.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.figures.as_ref().ok()?.get(name)?.parse().ok()
    }

    /// The first of several numbers of what it says, as rates over 10 s, 1 min and 10 min are.
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.figures.as_ref().ok()?.get(name)?.split(' ').next()?.parse().ok()
    }
}

/// The brokers of all clusters, each asked how it is: masters before their slaves.
pub fn registered(name_server: &mut Control) -> Result<Vec<Registered>, ClientError> {
    let answer = name_server.demand(request::GET_BROKER_CLUSTER_INFO, &NoFields)?;
    let known = ClusterInfo::decode(&answer.body)
        .map_err(|source| ClientError::NotRocketmq { address: name_server.address().to_owned(), source })?;
    let mut all = Vec::new();
    for (cluster, names) in known.cluster_addr_table {
        for name in names {
            for (id, address) in known.broker_addr_table.get(&name).into_iter().flat_map(|broker| &broker.broker_addrs)
            {
                let figures = figures(&name_server.like_own(address));
                let (cluster, address) = (cluster.clone(), address.clone());
                all.push(Registered { cluster, name: name.clone(), id: *id, address, figures });
            }
        }
    }
    Ok(all)
}

/// How many bytes of its master's log a slave does not have yet; `None` if one of them does not say.
pub fn lag_bytes(of: &Registered, all: &[Registered]) -> Option<u64> {
    const END: &str = "commitLogMaxOffset";
    let master = all.iter().find(|one| one.name == of.name && one.is_master())?;
    Some(master.number(END)?.saturating_sub(of.number(END)?))
}

fn figures(address: &str) -> Result<BTreeMap<String, String>, ClientError> {
    let mut broker = Control::open("broker", address)?;
    broker.answer_within(ANSWER_WITHIN)?;
    let answer = broker.demand(request::GET_BROKER_RUNTIME_INFO, &NoFields)?;
    let table = KvTable::decode(&answer.body);
    table.map(|table| table.table).map_err(|source| ClientError::NotRocketmq { address: address.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slave_lacks_what_its_master_has_beyond_its_own_end() {
        let one = |name: &str, id, end: Option<&str>| Registered {
            cluster: "c".to_owned(),
            name: name.to_owned(),
            id,
            address: "a:1".to_owned(),
            figures: Ok(end.map(|end| ("commitLogMaxOffset".to_owned(), end.to_owned())).into_iter().collect()),
        };
        let all = [
            one("a", 0, Some("500")),
            one("a", 1, Some("420")),
            one("a", 2, Some("600")),
            one("a", 3, None),
            one("b", 1, Some("1")),
        ];
        let lags: Vec<_> = all.iter().map(|of| lag_bytes(of, &all)).collect();
        assert_eq!(lags, [Some(0), Some(80), Some(0), None, None]);
    }
}
