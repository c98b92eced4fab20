//! The registry: which brokers live, and which queues of which topics they have.
//!
//! What always holds: a topic has queues only on brokers that are in `brokers`, and the broker's own set of topics
//! names exactly those; a broker has at least one address; every live entry is listed under its connection. So a route
//! is two look-ups, and losing a broker costs its own topics, whatever the number of all topics.
//!
//! What concerns many topics is done in steps, each of which keeps that: see `changes.rs`.
//!
//! Nothing is kept over a crash: brokers register again within 30 seconds.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use base::{Monotonic, Now, Refusal};
use format::document::{DataVersion, TopicDocument};
use serde_json::Value;
use wire::rocketmq::body::route::{MASTER_ID, QueueData};
use wire::rocketmq::registration::Registration;

use super::broker::{Arrival, BrokerIdentity, BrokerTraits, ConnectionId, LowestIdChange, Registered};

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
    /// Ids of those that may act as master; each has an address.
    pub(super) may_act: BTreeSet<i64>,
    /// Topics with queues here.
    pub(super) topics: HashSet<Arc<str>>,
}

/// One process is known by its cluster and address.
pub(super) type LiveKey = (String, String);

/// A broker whose registration is being taken.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) name: Arc<str>,
    lowest_before: i64,
    /// Whether its topics count, and not those of another process of that name.
    pub(super) takes_topics: bool,
    /// Whether it may have changed what it told before.
    pub(super) is_changed: bool,
}

#[derive(Debug)]
struct Live {
    broker_name: Arc<str>,
    last_seen: Monotonic,
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
    /// Takes a broker itself; its topics come next, and [`Registry::settle`] last.
    pub(super) fn begin(
        &mut self,
        who: &BrokerIdentity<'_>,
        traits: &BrokerTraits<'_>,
        what: &Registration,
    ) -> Result<Begun, Refusal> {
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
        Ok(Begun {
            name,
            lowest_before,
            takes_topics: self.takes_topics_of(who, traits),
            is_changed: is_first || self.data_version(who.cluster, who.address) != Some(what.topics.data_version),
        })
    }

    /// The broker lives from now on. Also gives the name under which it was known before, if it came back under another: nobody
    /// would drop it under that one.
    pub(super) fn settle(
        &mut self,
        who: &BrokerIdentity<'_>,
        traits: &BrokerTraits<'_>,
        begun: &Begun,
        what: &Registration,
        arrival: &Arrival,
    ) -> (Registered, Option<Arc<str>>) {
        let before = self.put_live(who, traits, &begun.name, what, arrival);
        let mut registered = self.master_of(who);
        if who.id < begun.lowest_before {
            registered.lowest_id_change = self.lowest_id_change(&begun.name, None, Some(traits.ha_address));
        }
        (registered, before.map(|live| live.broker_name).filter(|before| *before != begun.name))
    }

    /// Whether another process holds the broker's place with a later epoch.
    pub(super) fn is_outdated(&self, who: &BrokerIdentity<'_>, what: &Registration) -> bool {
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
            may_act: BTreeSet::new(),
            topics: HashSet::new(),
        });
        broker.zone = traits.zone.map(str::to_owned);
        // A replica that became master keeps its address under its new id only.
        broker.remove_addresses(|id, address| id != who.id && address == who.address);
        broker.addresses.insert(who.id, who.address.to_owned());
        if traits.enable_acting_master == Some(true) {
            broker.may_act.insert(who.id);
        } else {
            broker.may_act.remove(&who.id);
        }
        name
    }

    /// Topics are taken from the master, or without one from the replica with the lowest id. Replicas before 5.0 do
    /// not keep up with their master's topics when it is gone.
    fn takes_topics_of(&self, who: &BrokerIdentity<'_>, traits: &BrokerTraits<'_>) -> bool {
        let is_lowest = self.brokers.get(who.name).and_then(lowest_id) == Some(who.id);
        who.id == MASTER_ID || (traits.enable_acting_master.is_some() && is_lowest)
    }

    /// Takes some of the topics that a broker registers.
    pub(super) fn put_topics<'a>(&mut self, begun: &Begun, topics: impl IntoIterator<Item = &'a TopicDocument>) {
        for topic in topics {
            let known = self.topics.get(&*topic.topic_name).and_then(|topic| topic.queues.get(&begun.name));
            if known.is_some() && !begun.is_changed {
                continue;
            }
            let queues = Queues::of(topic);
            // Of a large broker nearly all are as they were.
            if known != Some(&queues) {
                self.put_queues(&begun.name, &topic.topic_name, queues);
            }
        }
    }

    /// Takes some of the static queues that a broker registers, of topics that have queues there.
    pub(super) fn put_mappings<'a>(
        &mut self,
        begun: &Begun,
        mappings: impl IntoIterator<Item = (&'a String, &'a Value)>,
    ) {
        for (topic, mapping) in mappings {
            if let Some(topic) = self.topics.get_mut(&**topic).filter(|topic| topic.queues.contains_key(&begun.name)) {
                topic.mappings.insert(begun.name.clone(), mapping.clone());
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

    /// Topics with queues on a broker.
    pub(super) fn topics_of(&self, broker_name: &str) -> Vec<Arc<str>> {
        self.brokers.get(broker_name).map(|broker| broker.topics.iter().cloned().collect()).unwrap_or_default()
    }

    /// Topics whose queues on a broker go with the process at `address`: all if it is alone, else none.
    pub(super) fn topics_that_go_with(&self, broker_name: &str, address: &str) -> Vec<Arc<str>> {
        let is_alone = |broker: &Broker| broker.addresses.values().all(|known| known == address);
        if self.brokers.get(broker_name).is_some_and(is_alone) { self.topics_of(broker_name) } else { Vec::new() }
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
    ) -> Option<Live> {
        let key = key_of(who);
        let before = self.remove_live(&key);
        let timeout_ms = traits.heartbeat_timeout_ms.and_then(|timeout| u64::try_from(timeout).ok());
        let live = Live {
            broker_name: name.clone(),
            last_seen: arrival.now.monotonic,
            timeout_ms: timeout_ms.unwrap_or(arrival.timeout_ms),
            data_version: what.topics.data_version,
            connection: arrival.connection,
            ha_address: traits.ha_address.to_owned(),
            filter_servers: what.filter_servers.clone(),
        };
        self.filter_server_owners += usize::from(!live.filter_servers.is_empty());
        self.by_connection.entry(arrival.connection).or_default().insert(key.clone());
        self.live.insert(key, live);
        before
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

    /// A broker says it is going. It goes under the name it registered, which this gives: nobody would drop it under that one later.
    pub(super) fn take_leave(&mut self, who: &BrokerIdentity<'_>) -> Option<Arc<str>> {
        let registered = self.remove_live(&key_of(who)).map(|live| live.broker_name);
        registered.or_else(|| Some(self.brokers.get_key_value(who.name)?.0.clone()))
    }

    /// The process is gone whatever it was known by; gives its name and address.
    pub(super) fn forget(&mut self, key: &LiveKey) -> Option<(Arc<str>, String)> {
        self.remove_live(key).map(|live| (live.broker_name, key.1.clone()))
    }

    /// Removes an address from a broker, and the broker with its last. Its topics are gone by then, see
    /// [`Registry::topics_that_go_with`].
    pub(super) fn remove_address(&mut self, name: &Arc<str>, address: &str) -> Option<LowestIdChange> {
        let broker = self.brokers.get_mut(name)?;
        let lowest_before = lowest_id(broker);
        broker.remove_addresses(|_, known| known == address);
        if broker.addresses.is_empty() {
            self.brokers.remove(name);
            self.clusters.retain(|_, names| {
                names.remove(name);
                !names.is_empty()
            });
            return None;
        }
        let is_changed = lowest_id(broker) != lowest_before;
        is_changed.then(|| self.lowest_id_change(name, Some(address), None)).flatten()
    }

    /// What is told of it; nothing if there is nobody to tell: it concerns those that may act as master.
    fn lowest_id_change(
        &self,
        name: &Arc<str>,
        offline: Option<&str>,
        ha_address: Option<&str>,
    ) -> Option<LowestIdChange> {
        let Broker { addresses, may_act, .. } = self.brokers.get(name)?;
        let (&lowest_id, lowest_address) = addresses.first_key_value()?;
        let tell_lowest = offline.is_some() || addresses.len() == 1;
        let told = may_act.iter().filter(|&&id| tell_lowest || id != lowest_id);
        let recipients: Vec<String> = told.filter_map(|id| addresses.get(id).cloned()).collect();
        (!recipients.is_empty()).then(|| LowestIdChange {
            broker_name: name.to_string(),
            lowest_id,
            lowest_address: lowest_address.clone(),
            offline_address: offline.map(str::to_owned),
            ha_address: ha_address.map(str::to_owned),
            recipients,
        })
    }

    /// The processes whose last registration came on a connection.
    pub(super) fn on_connection(&self, connection: ConnectionId) -> Vec<LiveKey> {
        self.by_connection.get(&connection).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    /// Every process that was silent for longer than it may be.
    pub(super) fn silent(&self, now: Now) -> Vec<LiveKey> {
        let mut keys: Vec<LiveKey> =
            self.live.iter().filter(|(_, live)| live.is_silent(now)).map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// Whether it is silent still.
    pub(super) fn is_silent(&self, key: &LiveKey, now: Now) -> bool {
        self.live.get(key).is_some_and(|live| live.is_silent(now))
    }

    /// Topics that the brokers have to which those processes belong.
    pub(super) fn topic_count_of(&self, keys: &[LiveKey]) -> usize {
        let brokers = keys.iter().filter_map(|key| self.brokers.get(&self.live.get(key)?.broker_name));
        brokers.map(|broker| broker.topics.len()).sum()
    }

    /// A broker says it is there.
    pub fn heartbeat(&mut self, cluster: &str, address: &str, now: Now) {
        if let Some(live) = self.live.get_mut(&(cluster.to_owned(), address.to_owned())) {
            live.last_seen = now.monotonic;
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

impl Broker {
    /// The replica that acts as master: the lowest of those that may, while there is no master.
    pub(super) fn acting_master(&self) -> Option<i64> {
        let has_master = self.addresses.contains_key(&MASTER_ID);
        self.may_act.first().copied().filter(|_| !has_master)
    }

    fn remove_addresses(&mut self, is_meant: impl Fn(i64, &str) -> bool) {
        self.addresses.retain(|&id, address| !is_meant(id, address));
        self.may_act.retain(|id| self.addresses.contains_key(id));
    }
}

impl Live {
    fn is_silent(&self, now: Now) -> bool {
        now.monotonic.ms_since(self.last_seen) > self.timeout_ms
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
