//! The registry: which brokers live, and which queues of which topics they have.
//!
//! What always holds: a topic has queues only on brokers that are in `brokers`, and the broker's own set of topics
//! names exactly those; a broker has at least one address; every live entry is listed under its connection. So a route
//! is two look-ups, and losing a broker costs its own topics, whatever the number of all topics.
//!
//! Nothing is kept over a crash: brokers register again within 30 seconds.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use base::document::{DataVersion, TopicDocument};
use base::{Refusal, Timestamp};
use serde_json::Value;
use wire::rocketmq::body::route::{MASTER_ID, QueueData};
use wire::rocketmq::registration::Registration;

use super::broker::{Arrival, BrokerIdentity, BrokerTraits, ConnectionId, Expired, LowestIdChange, Registered};

/// Permission bit of writing.
pub(super) const PERMISSION_WRITE: u32 = 2;
/// Permission bit of reading.
pub(super) const PERMISSION_READ: u32 = 4;

/// Queues of a topic on one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queues {
    pub(super) write_count: u32,
    pub(super) read_count: u32,
    pub(super) permission: u32,
    pub(super) system_flag: i32,
}

/// A topic: its queues by broker name, and its static queues if it has any.
#[derive(Debug, Default)]
pub(super) struct Topic {
    /// Never empty.
    pub(super) queues: BTreeMap<Arc<str>, Queues>,
    pub(super) mappings: BTreeMap<Arc<str>, Value>,
}

/// A master and its replicas.
#[derive(Debug)]
pub(super) struct Broker {
    pub(super) cluster: String,
    /// Address by broker id; never empty.
    pub(super) addresses: BTreeMap<i64, String>,
    pub(super) zone: Option<String>,
    pub(super) enable_acting_master: bool,
    /// Topics with queues here.
    pub(super) topics: HashSet<Arc<str>>,
}

/// One process is known by its cluster and address.
type LiveKey = (String, String);

#[derive(Debug)]
struct Live {
    broker_name: Arc<str>,
    last_seen: Timestamp,
    timeout_ms: u64,
    data_version: DataVersion,
    connection: ConnectionId,
    ha_address: String,
    filter_servers: Vec<String>,
}

/// Brokers, topics and clusters.
#[derive(Debug, Default)]
pub struct Registry {
    pub(super) topics: HashMap<Arc<str>, Topic>,
    pub(super) brokers: BTreeMap<Arc<str>, Broker>,
    pub(super) clusters: BTreeMap<String, BTreeSet<Arc<str>>>,
    live: HashMap<LiveKey, Live>,
    by_connection: HashMap<ConnectionId, BTreeSet<LiveKey>>,
    /// Live brokers with filter servers; 0 nearly always, which makes routes cheaper.
    filter_server_owners: usize,
}

impl Registry {
    /// Takes a broker's registration. Refused whole, or taken whole.
    pub fn register(
        &mut self,
        who: &BrokerIdentity<'_>,
        traits: &BrokerTraits<'_>,
        what: &Registration,
        arrival: &Arrival,
    ) -> Result<Registered, Refusal> {
        self.check_registration(who, traits, what)?;
        if self.is_outdated(who, what) {
            // A master that lost its place is still up: it may not take it back, and clients must not find it.
            self.unregister(who);
            return Ok(Registered::default());
        }
        let known = self.brokers.get(who.name).and_then(|broker| broker.addresses.get(&who.id));
        if known.is_none() && what.topics.topic_config_table.len() + what.odd.left_out == 1 {
            return Err(Refusal::BadRequest(format!(
                "register broker failed: broker [{}] with id {} is not known here and sends a single topic; \
                 it must register all its topics first",
                who.name, who.id
            )));
        }
        let is_first = known.is_none();
        let lowest_before = self.brokers.get(who.name).and_then(lowest_id).unwrap_or(0);
        let name = self.put_broker(who, traits);
        if self.takes_topics_of(who, traits) {
            if arrival.removes_missing_topics {
                self.remove_topics_not_in(&name, what);
            }
            self.put_topics(who, traits, &name, what, is_first);
        }
        self.put_live(who, traits, &name, what, arrival);
        let mut registered = self.master_of(who);
        if who.id < lowest_before {
            registered.lowest_id_change = self.lowest_id_change(&name, None, Some(traits.ha_address));
        }
        Ok(registered)
    }

    /// Whether another process holds the broker's place with a later epoch.
    fn is_outdated(&self, who: &BrokerIdentity<'_>, what: &Registration) -> bool {
        let holder = self.brokers.get(who.name).and_then(|broker| broker.addresses.get(&who.id));
        let Some(holder) = holder.filter(|&holder| holder != who.address) else { return false };
        let live = self.live.get(&(who.cluster.to_owned(), holder.clone()));
        live.is_some_and(|live| live.data_version.state_version > what.topics.data_version.state_version)
    }

    fn put_broker(&mut self, who: &BrokerIdentity<'_>, traits: &BrokerTraits<'_>) -> Arc<str> {
        let name = self.brokers.get_key_value(who.name).map_or_else(|| Arc::from(who.name), |(name, _)| name.clone());
        self.clusters.entry(who.cluster.to_owned()).or_default().insert(name.clone());
        let broker = self.brokers.entry(name.clone()).or_insert_with(|| Broker {
            cluster: who.cluster.to_owned(),
            addresses: BTreeMap::new(),
            zone: None,
            enable_acting_master: false,
            topics: HashSet::new(),
        });
        broker.enable_acting_master = traits.enable_acting_master.unwrap_or(false);
        broker.zone = traits.zone.map(str::to_owned);
        // A replica that became master keeps its address under its new id only.
        broker.addresses.retain(|&id, address| id == who.id || address != who.address);
        broker.addresses.insert(who.id, who.address.to_owned());
        name
    }

    /// Topics are taken from the master, or without one from the replica with the lowest id. Replicas before 5.0 do
    /// not keep up with their master's topics when it is gone.
    fn takes_topics_of(&self, who: &BrokerIdentity<'_>, traits: &BrokerTraits<'_>) -> bool {
        let is_lowest = self.brokers.get(who.name).and_then(lowest_id) == Some(who.id);
        who.id == MASTER_ID || (traits.enable_acting_master.is_some() && is_lowest)
    }

    fn put_topics(
        &mut self,
        who: &BrokerIdentity<'_>,
        traits: &BrokerTraits<'_>,
        name: &Arc<str>,
        what: &Registration,
        is_first: bool,
    ) {
        let is_changed = is_first || self.data_version(who.cluster, who.address) != Some(what.topics.data_version);
        let is_acting = who.id != MASTER_ID && traits.enable_acting_master == Some(true);
        let withheld = if is_acting { PERMISSION_WRITE } else { 0 };
        for topic in what.topics.topic_config_table.values() {
            let known = self.topics.get(&*topic.topic_name).and_then(|topic| topic.queues.get(name));
            if known.is_some() && !is_changed {
                continue;
            }
            let mut queues = Queues::of(topic);
            queues.permission &= !withheld;
            // Of a large broker nearly all are as they were.
            if known != Some(&queues) {
                self.put_queues(name, &topic.topic_name, queues);
            }
        }
        if is_changed {
            for (topic, mapping) in &what.mappings {
                if let Some(topic) = self.topics.get_mut(&**topic).filter(|topic| topic.queues.contains_key(name)) {
                    topic.mappings.insert(name.clone(), mapping.clone());
                }
            }
        }
    }

    pub(super) fn put_queues(&mut self, broker_name: &Arc<str>, topic_name: &str, queues: Queues) {
        let Some(broker) = self.brokers.get_mut(broker_name) else { return };
        let name =
            self.topics.get_key_value(topic_name).map_or_else(|| Arc::from(topic_name), |(name, _)| name.clone());
        broker.topics.insert(name.clone());
        self.topics.entry(name).or_default().queues.insert(broker_name.clone(), queues);
    }

    /// Takes away what a broker does not register any more. Static topics are left alone, as their queues move.
    fn remove_topics_not_in(&mut self, broker_name: &str, what: &Registration) {
        if !what.mappings.is_empty() {
            return;
        }
        let Some(broker) = self.brokers.get(broker_name) else { return };
        let kept = &what.topics.topic_config_table;
        let gone: Vec<Arc<str>> = broker.topics.iter().filter(|&name| !kept.contains_key(&**name)).cloned().collect();
        for topic in gone {
            self.remove_queues(broker_name, &topic);
        }
    }

    pub(super) fn remove_queues(&mut self, broker_name: &str, topic_name: &str) {
        if let Some(broker) = self.brokers.get_mut(broker_name) {
            broker.topics.remove(topic_name);
        }
        let Some(topic) = self.topics.get_mut(topic_name) else { return };
        topic.queues.remove(broker_name);
        topic.mappings.remove(broker_name);
        if topic.queues.is_empty() {
            self.topics.remove(topic_name);
        }
    }

    fn put_live(
        &mut self,
        who: &BrokerIdentity<'_>,
        traits: &BrokerTraits<'_>,
        name: &Arc<str>,
        what: &Registration,
        arrival: &Arrival,
    ) {
        let key = key_of(who);
        let before = self.remove_live(&key);
        if let Some(before) = before.filter(|before| before.broker_name != *name) {
            // The process came back under another name; nobody would drop it under the old one.
            self.remove_address(&before.broker_name, who.address);
        }
        let timeout_ms = traits.heartbeat_timeout_ms.and_then(|timeout| u64::try_from(timeout).ok());
        let live = Live {
            broker_name: name.clone(),
            last_seen: arrival.now,
            timeout_ms: timeout_ms.unwrap_or(arrival.timeout_ms),
            data_version: what.topics.data_version,
            connection: arrival.connection,
            ha_address: traits.ha_address.to_owned(),
            filter_servers: what.filter_servers.clone(),
        };
        self.filter_server_owners += usize::from(!live.filter_servers.is_empty());
        self.by_connection.entry(arrival.connection).or_default().insert(key.clone());
        self.live.insert(key, live);
    }

    fn remove_live(&mut self, key: &LiveKey) -> Option<Live> {
        let live = self.live.remove(key)?;
        self.filter_server_owners -= usize::from(!live.filter_servers.is_empty());
        if let Some(keys) = self.by_connection.get_mut(&live.connection) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_connection.remove(&live.connection);
            }
        }
        Some(live)
    }

    fn master_of(&self, who: &BrokerIdentity<'_>) -> Registered {
        if who.id == MASTER_ID {
            return Registered::default();
        }
        let master = self.brokers.get(who.name).and_then(|broker| broker.addresses.get(&MASTER_ID));
        let live = master.and_then(|master| self.live.get(&(who.cluster.to_owned(), master.clone())));
        match (master, live) {
            (Some(master), Some(live)) => Registered {
                ha_address: Some(live.ha_address.clone()),
                master_address: Some(master.clone()),
                lowest_id_change: None,
            },
            _ => Registered::default(),
        }
    }

    /// A broker says it is going. It goes under the name it registered: nobody would drop it under that one later.
    pub fn unregister(&mut self, who: &BrokerIdentity<'_>) -> Option<LowestIdChange> {
        let registered = self.remove_live(&key_of(who)).map(|live| live.broker_name);
        let name = registered.or_else(|| Some(self.brokers.get_key_value(who.name)?.0.clone()))?;
        self.remove_address(&name, who.address)
    }

    fn remove_address(&mut self, name: &Arc<str>, address: &str) -> Option<LowestIdChange> {
        let broker = self.brokers.get_mut(name)?;
        let lowest_before = lowest_id(broker);
        broker.addresses.retain(|_, known| known != address);
        if broker.addresses.is_empty() {
            let topics = std::mem::take(&mut broker.topics);
            for topic in &topics {
                self.remove_queues(name, topic);
            }
            self.brokers.remove(name);
            self.clusters.retain(|_, names| {
                names.remove(name);
                !names.is_empty()
            });
            return None;
        }
        let has_changed = lowest_id(broker) != lowest_before;
        let must_wipe = broker.enable_acting_master && !broker.addresses.contains_key(&MASTER_ID);
        let is_announced = broker.enable_acting_master && has_changed;
        if must_wipe {
            self.change_permissions(name, |permission| permission & !PERMISSION_WRITE);
        }
        if is_announced { self.lowest_id_change(name, Some(address), None) } else { None }
    }

    fn lowest_id_change(
        &self,
        name: &Arc<str>,
        offline: Option<&str>,
        ha_address: Option<&str>,
    ) -> Option<LowestIdChange> {
        let addresses = &self.brokers.get(name)?.addresses;
        let (&lowest_id, lowest_address) = addresses.first_key_value()?;
        let tell_lowest = offline.is_some() || addresses.len() == 1;
        let told = addresses.iter().filter(|&(&id, _)| tell_lowest || id != lowest_id);
        Some(LowestIdChange {
            broker_name: name.to_string(),
            lowest_id,
            lowest_address: lowest_address.clone(),
            offline_address: offline.map(str::to_owned),
            ha_address: ha_address.map(str::to_owned),
            recipients: told.map(|(_, address)| address.clone()).collect(),
        })
    }

    /// A connection is gone, and with it every broker whose last registration came on it.
    pub fn connection_closed(&mut self, connection: ConnectionId) -> Vec<LowestIdChange> {
        let keys = self.by_connection.get(&connection).cloned().unwrap_or_default();
        let mut changes = Vec::new();
        for key in keys {
            if let Some(live) = self.remove_live(&key) {
                changes.extend(self.remove_address(&live.broker_name, &key.1));
            }
        }
        changes
    }

    /// Drops every broker that was silent for longer than it may be.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Expired> {
        let is_silent = |live: &Live| now.ms_since(live.last_seen) > live.timeout_ms;
        let mut keys: Vec<LiveKey> =
            self.live.iter().filter(|(_, live)| is_silent(live)).map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        let mut expired = Vec::new();
        for key in keys {
            let Some(live) = self.remove_live(&key) else { continue };
            let lowest_id_change = self.remove_address(&live.broker_name, &key.1);
            expired.push(Expired { broker_name: live.broker_name.to_string(), address: key.1, lowest_id_change });
        }
        expired
    }

    /// A broker says it is there.
    pub fn heartbeat(&mut self, cluster: &str, address: &str, now: Timestamp) {
        if let Some(live) = self.live.get_mut(&(cluster.to_owned(), address.to_owned())) {
            live.last_seen = now;
        }
    }

    /// Version of the topics that a broker registered last.
    pub fn data_version(&self, cluster: &str, address: &str) -> Option<DataVersion> {
        self.live.get(&(cluster.to_owned(), address.to_owned())).map(|live| live.data_version)
    }

    pub(super) fn filter_servers(&self, cluster: &str, address: &str) -> Option<&[String]> {
        if self.filter_server_owners == 0 {
            return None;
        }
        let live = self.live.get(&(cluster.to_owned(), address.to_owned()))?;
        (!live.filter_servers.is_empty()).then_some(&live.filter_servers)
    }
}

impl Queues {
    fn of(topic: &TopicDocument) -> Self {
        Self {
            write_count: topic.write_queue_nums,
            read_count: topic.read_queue_nums,
            permission: topic.perm,
            system_flag: topic.topic_sys_flag,
        }
    }

    pub(super) fn of_data(data: &QueueData) -> Self {
        Self {
            write_count: data.write_queue_nums,
            read_count: data.read_queue_nums,
            permission: data.perm,
            system_flag: data.topic_sys_flag,
        }
    }
}

fn key_of(who: &BrokerIdentity<'_>) -> LiveKey {
    (who.cluster.to_owned(), who.address.to_owned())
}

fn lowest_id(broker: &Broker) -> Option<i64> {
    broker.addresses.keys().next().copied()
}
