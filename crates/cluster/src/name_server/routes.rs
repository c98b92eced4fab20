//! Questions to the registry, and the changes administrators make to it: routes, lists, permissions, single topics.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Refusal;
use base::cursor::preview;
use wire::rocketmq::body::cluster_info::{BrokerMemberGroup, ClusterInfo};
use wire::rocketmq::body::route::{BrokerData, MASTER_ID, QueueData, TopicRouteData};

use super::admission::check_topic_count;
use super::registry::{Broker, PERMISSION_WRITE, Queues, Registry, Topic};
use crate::limits::check_name;

/// Bit of a topic's system flag: the topic belongs to a unit.
const FLAG_UNIT: i32 = 1;
/// Bit of a topic's system flag: subscriptions belong to a unit.
const FLAG_UNIT_SUBSCRIPTION: i32 = 2;
/// Topics by which replicas follow each other show the real members, never an acting master.
const SYNC_MEMBER_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

/// Which topics of units are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitFilter {
    /// Topics of a unit.
    Unit,
    /// Topics with subscriptions of a unit.
    UnitSubscription,
    /// Topics with subscriptions of a unit that are no topics of a unit themselves.
    UnitSubscriptionOnly,
}

impl Registry {
    /// The route of a topic, if any broker has it. Nothing can be written to a group while a replica acts as its master; with
    /// `shows_acting_master` that replica is shown as the master, so that clients which ask only a master find it.
    pub fn route(&self, topic_name: &str, shows_acting_master: bool) -> Option<TopicRouteData> {
        let topic = self.topics.get(topic_name)?;
        let mut route = TopicRouteData::default();
        for (name, queues) in &topic.queues {
            let Some(broker) = self.brokers.get(name) else { continue };
            let mut data = broker.to_data(name);
            for address in data.broker_addrs.values() {
                if let Some(servers) = self.filter_servers(&broker.cluster, address) {
                    route.filter_server_table.insert(address.clone(), Some(servers.to_vec()));
                }
            }
            let mut queues = queues.to_data(name);
            if let Some(acting) = broker.acting_master() {
                queues.perm &= !PERMISSION_WRITE;
                if shows_acting_master && !topic_name.starts_with(SYNC_MEMBER_PREFIX) {
                    let address = data.broker_addrs.remove(&acting);
                    data.broker_addrs.extend(address.map(|address| (MASTER_ID, address)));
                }
            }
            route.broker_datas.push(data);
            route.queue_datas.push(queues);
        }
        if !topic.mappings.is_empty() {
            let mappings = topic.mappings.iter().map(|(name, mapping)| (name.to_string(), mapping.clone()));
            route.topic_queue_mapping_by_broker = Some(mappings.collect());
        }
        Some(route)
    }

    /// Every cluster and broker.
    pub fn cluster_info(&self) -> ClusterInfo {
        let names = |names: &std::collections::BTreeSet<Arc<str>>| names.iter().map(|name| name.to_string()).collect();
        ClusterInfo {
            broker_addr_table: self
                .brokers
                .iter()
                .map(|(name, broker)| (name.to_string(), broker.to_data(name)))
                .collect(),
            cluster_addr_table: self
                .clusters
                .iter()
                .map(|(cluster, brokers)| (cluster.clone(), names(brokers)))
                .collect(),
        }
    }

    /// The processes under one broker name; none if it is not known.
    pub fn member_group(&self, cluster: &str, broker_name: &str) -> BrokerMemberGroup {
        BrokerMemberGroup {
            broker_addrs: self.brokers.get(broker_name).map(|broker| broker.addresses.clone()).unwrap_or_default(),
            broker_name: broker_name.to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    /// Number of topics.
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// How many of `names` are no topics yet.
    pub(super) fn unknown_count(&self, names: &[&str]) -> usize {
        names.iter().filter(|&&name| !self.topics.contains_key(name)).count()
    }

    /// Number of broker names.
    pub fn broker_count(&self) -> usize {
        self.brokers.len()
    }

    /// All topics, in any order.
    pub fn topic_names(&self) -> Vec<Arc<str>> {
        self.topics.keys().cloned().collect()
    }

    /// Topics with queues in a cluster, in any order; those on several of its brokers as often.
    pub fn topics_of_cluster(&self, cluster: &str) -> Vec<Arc<str>> {
        let Some(brokers) = self.clusters.get(cluster) else { return Vec::new() };
        let topics = brokers.iter().filter_map(|name| self.brokers.get(name)).flat_map(|broker| &broker.topics);
        topics.cloned().collect()
    }

    /// Names that clusters and brokers use as topics, and the address of some broker to ask for its own.
    pub fn system_topics(&self) -> (Vec<&str>, Option<&str>) {
        let mut names = Vec::new();
        for (cluster, brokers) in &self.clusters {
            names.push(&**cluster);
            names.extend(brokers.iter().map(|name| &**name));
        }
        let address = self.brokers.values().next().and_then(|broker| broker.addresses.values().next());
        (names, address.map(String::as_str))
    }

    /// Topics of units, in any order.
    pub fn unit_topics(&self, filter: UnitFilter) -> Vec<Arc<str>> {
        let is_meant = |topic: &Topic| {
            let flag = topic.queues.values().next().map_or(0, |queues| queues.system_flag);
            let (unit, subscription) = (flag & FLAG_UNIT != 0, flag & FLAG_UNIT_SUBSCRIPTION != 0);
            match filter {
                UnitFilter::Unit => unit,
                UnitFilter::UnitSubscription => subscription,
                UnitFilter::UnitSubscriptionOnly => subscription && !unit,
            }
        };
        self.topics.iter().filter(|(_, topic)| is_meant(topic)).map(|(name, _)| name.clone()).collect()
    }

    /// Changes what a broker's queues of those topics permit.
    pub(super) fn change_permissions(&mut self, broker_name: &str, topics: &[Arc<str>], change: fn(u32) -> u32) {
        for name in topics {
            if let Some(queues) = self.topics.get_mut(name).and_then(|topic| topic.queues.get_mut(broker_name)) {
                queues.permission = change(queues.permission);
            }
        }
    }

    /// Forgets a topic, in one cluster or everywhere. A broker that still has it brings it back.
    pub fn delete_topic(&mut self, topic_name: &str, cluster: Option<&str>) {
        let Some(topic) = self.topics.get(topic_name) else { return };
        let members = cluster.map(|cluster| self.clusters.get(cluster));
        let is_meant = |name: &Arc<str>| members.is_none_or(|names| names.is_some_and(|names| names.contains(name)));
        let brokers: Vec<Arc<str>> = topic.queues.keys().filter(|&name| is_meant(name)).cloned().collect();
        for broker in brokers {
            self.remove_queues(&broker, topic_name);
        }
    }

    /// Registers one topic on brokers that are known already.
    pub fn register_topic(&mut self, topic_name: &str, queues: &[QueueData]) -> Result<(), Refusal> {
        check_name("topic", topic_name)?;
        if !self.topics.contains_key(topic_name) {
            check_topic_count(self.topics.len() + 1)?;
        }
        let mut found = BTreeMap::new();
        for data in queues {
            let Some((name, _)) = self.brokers.get_key_value(&*data.broker_name) else {
                return Err(Refusal::BadRequest(format!(
                    "the topic [{topic_name}] cannot be registered: its broker [{}] is not known here; \
                     the broker must register first",
                    preview(data.broker_name.as_bytes())
                )));
            };
            found.insert(name.clone(), Queues::of_data(data));
        }
        for (name, queues) in found {
            self.put_queues(&name, topic_name, queues);
        }
        Ok(())
    }
}

impl Broker {
    fn to_data(&self, name: &str) -> BrokerData {
        BrokerData {
            broker_addrs: self.addresses.clone(),
            broker_name: name.to_owned(),
            cluster: self.cluster.clone(),
            enable_acting_master: !self.may_act.is_empty(),
            zone_name: self.zone.clone(),
        }
    }
}

impl Queues {
    fn to_data(self, broker_name: &str) -> QueueData {
        QueueData {
            broker_name: broker_name.to_owned(),
            perm: self.permission,
            read_queue_nums: self.read_count,
            topic_sys_flag: self.system_flag,
            write_queue_nums: self.write_count,
        }
    }
}

/// Leaves what a client in `zone` may use: brokers of its zone, and those whose master is gone.
pub fn keep_zone(route: &mut TopicRouteData, zone: &str) {
    let is_kept = |broker: &BrokerData| {
        let in_zone = broker.zone_name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(zone));
        in_zone || !broker.broker_addrs.contains_key(&MASTER_ID)
    };
    let (kept, dropped): (Vec<BrokerData>, Vec<BrokerData>) =
        std::mem::take(&mut route.broker_datas).into_iter().partition(is_kept);
    route.broker_datas = kept;
    route.queue_datas.retain(|queues| dropped.iter().all(|broker| broker.broker_name != queues.broker_name));
    let addresses = dropped.iter().flat_map(|broker| broker.broker_addrs.values());
    for address in addresses {
        route.filter_server_table.remove(address);
    }
}
