//! Finds the brokers of the topics and how many queues each has, and creates topics where that was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::rocketmq::body::cluster_info::ClusterInfo;
use wire::rocketmq::body::route::{BrokerData, MASTER_ID, TopicRouteData};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::header::{CreateTopicRequest, RouteRequest, TopicRequest};

use crate::error::BenchError;
use crate::load::options::RunOptions;
use crate::load::progress::ProgressSink;
use crate::rocketmq::control::{Control, NoFields};
use crate::target::Target;

/// Topic that stands for every topic not yet created, where brokers create topics by themselves.
pub const TEMPLATE_TOPIC: &str = "TBW102";
/// Queues a topic gets that a broker creates by itself, at most.
pub const TEMPLATE_QUEUES: u32 = 4;
const PERMISSION_READ: u32 = 4;
const PERMISSION_WRITE: u32 = 2;
/// Brokers of older versions register at intervals rather than at once.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(30);
const REGISTER_INTERVAL: Duration = Duration::from_millis(100);

/// What the run wants to do at the brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Send: masters, write queues.
    Write,
    /// Pull: masters, or a replica where there is none; read queues.
    Read,
}

/// One broker of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BrokerQueues {
    name: String,
    address: String,
    queues: u32,
}

/// One broker with those of the run's topics that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerTopics {
    /// Its name, where a route told it.
    pub name: Option<String>,
    /// Where it listens.
    pub address: String,
    /// Its topics.
    pub topics: Vec<TopicQueues>,
}

/// A topic and how many queues a broker has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicQueues {
    /// Name.
    pub topic: Arc<str>,
    /// Its queues are `0..queues`.
    pub queues: u32,
}

/// The brokers of the run's topics, by address, each topic with at least one queue. Topics are created first if the run says so.
pub fn brokers_of(run: &RunOptions, access: Access, sink: &dyn ProgressSink) -> Result<Vec<BrokerTopics>, BenchError> {
    let topics = run.topic_names();
    let mut brokers: BTreeMap<String, BrokerTopics> = BTreeMap::new();
    match &run.target {
        Target::NameServer(addresses) => {
            let mut name_server = first_reachable(addresses)?;
            if let (Some(queues), Some(first)) = (run.queues, topics.first()) {
                for address in master_addresses(&mut name_server, first)? {
                    create_topics(&name_server.like_own(&address), &topics, queues, sink)?;
                }
            }
            for topic in &topics {
                for broker in registered(&mut name_server, topic, run.queues, access)? {
                    let topic = TopicQueues { topic: topic.as_str().into(), queues: broker.queues };
                    add(&mut brokers, Some(broker.name), name_server.like_own(&broker.address), topic);
                }
            }
        }
        Target::Broker(address) => {
            if let Some(queues) = run.queues {
                create_topics(address, &topics, queues, sink)?;
            }
            let mut broker = Control::open("broker", address)?;
            for topic in &topics {
                let queues = match run.queues {
                    Some(queues) => queues,
                    None => configured_queues(&mut broker, topic, access)?,
                };
                let topic = TopicQueues { topic: topic.as_str().into(), queues };
                add(&mut brokers, None, address.clone(), topic);
            }
        }
        // It has a driver of its own.
        Target::Amqp(_) => {}
    }
    Ok(brokers.into_values().collect())
}

fn add(brokers: &mut BTreeMap<String, BrokerTopics>, name: Option<String>, address: String, topic: TopicQueues) {
    let unknown = || BrokerTopics { name, address: address.clone(), topics: Vec::new() };
    brokers.entry(address.clone()).or_insert_with(unknown).topics.push(topic);
}

fn create_topics(address: &str, topics: &[String], queues: u32, sink: &dyn ProgressSink) -> Result<(), BenchError> {
    let mut broker = Control::open("broker", address)?;
    for (made, topic) in (0..).zip(topics) {
        sink.prepare("topics made", made, topics.len() as u64);
        create_topic(&mut broker, topic, queues)?;
    }
    Ok(())
}

impl BrokerTopics {
    /// Queues of all its topics.
    pub fn queue_count(&self) -> usize {
        self.topics.iter().map(|topic| topic.queues as usize).sum()
    }
}

/// A line for each broker, for the report.
pub fn describe(brokers: &[BrokerTopics]) -> Vec<String> {
    let topics = |broker: &BrokerTopics| match broker.topics.len() {
        0 | 1 => String::new(),
        count => format!("{count} topics, "),
    };
    let row = |broker: &BrokerTopics| format!("{} ({}{} queues)", broker.address, topics(broker), broker.queue_count());
    brokers.iter().map(row).collect()
}

/// A connection to the first of the name servers that can be reached.
pub fn first_reachable(addresses: &[String]) -> Result<Control, BenchError> {
    let mut last = None;
    for address in addresses {
        match Control::open("name server", address) {
            Ok(control) => return Ok(control),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or(BenchError::WrongTarget { text: String::new(), problem: "no address is given".to_owned() }))
}

/// Waits until the name server's route has the queues that were asked for; without a wish the first answer holds.
fn registered(
    name_server: &mut Control,
    topic: &str,
    wanted: Option<u32>,
    access: Access,
) -> Result<Vec<BrokerQueues>, BenchError> {
    let deadline = Instant::now() + REGISTER_TIMEOUT;
    loop {
        let brokers = match route(name_server, topic)? {
            Some(route) => queues_of(&route, access),
            None if wanted.is_none() && access == Access::Write => {
                // The topic may yet be created by the first send, as official producers have it.
                let brokers = route(name_server, TEMPLATE_TOPIC)?.map(|route| queues_of(&route, access));
                let few = |broker: BrokerQueues| BrokerQueues { queues: broker.queues.min(TEMPLATE_QUEUES), ..broker };
                brokers.unwrap_or_default().into_iter().map(few).collect()
            }
            None => Vec::new(),
        };
        let ready = match wanted {
            Some(queues) => !brokers.is_empty() && brokers.iter().all(|broker| broker.queues == queues),
            None => !brokers.is_empty(),
        };
        if ready || (wanted.is_some() && !brokers.is_empty() && Instant::now() >= deadline) {
            return Ok(brokers);
        }
        if wanted.is_none() || Instant::now() >= deadline {
            return Err(no_route(name_server, topic));
        }
        std::thread::sleep(REGISTER_INTERVAL);
    }
}

fn route(name_server: &mut Control, topic: &str) -> Result<Option<TopicRouteData>, BenchError> {
    let header = RouteRequest { topic: topic.into(), accept_standard_json_only: Some(true), ..RouteRequest::default() };
    let answer = name_server.ask(request::GET_ROUTE_BY_TOPIC, &header)?;
    match answer.code {
        response::SUCCESS => TopicRouteData::decode(&answer.body)
            .map(Some)
            .map_err(|source| BenchError::NotRocketmq { address: name_server.address().to_owned(), source }),
        response::TOPIC_NOT_EXIST => Ok(None),
        _ => Err(name_server.refused(request::GET_ROUTE_BY_TOPIC, &answer)),
    }
}

fn queues_of(route: &TopicRouteData, access: Access) -> Vec<BrokerQueues> {
    let mut brokers = Vec::new();
    for queue_data in &route.queue_datas {
        let (permission, queues) = match access {
            Access::Write => (PERMISSION_WRITE, queue_data.write_queue_nums),
            Access::Read => (PERMISSION_READ, queue_data.read_queue_nums),
        };
        let broker = route.broker_datas.iter().find(|broker| broker.broker_name == queue_data.broker_name);
        let address = broker.and_then(|broker| address_of(broker, access));
        if let Some(address) = address
            && queue_data.perm & permission != 0
            && queues > 0
        {
            brokers.push(BrokerQueues { name: queue_data.broker_name.clone(), address, queues });
        }
    }
    brokers.sort_by(|a, b| a.address.cmp(&b.address));
    brokers
}

fn address_of(broker: &BrokerData, access: Access) -> Option<String> {
    let master = broker.broker_addrs.get(&MASTER_ID);
    match access {
        Access::Write => master.cloned(),
        Access::Read => master.or_else(|| broker.broker_addrs.values().next()).cloned(),
    }
}

fn master_addresses(name_server: &mut Control, topic: &str) -> Result<Vec<String>, BenchError> {
    let masters = masters(name_server)?;
    if masters.is_empty() { Err(no_route(name_server, topic)) } else { Ok(masters) }
}

fn masters(name_server: &mut Control) -> Result<Vec<String>, BenchError> {
    let answer = name_server.demand(request::GET_BROKER_CLUSTER_INFO, &NoFields)?;
    let cluster = ClusterInfo::decode(&answer.body)
        .map_err(|source| BenchError::NotRocketmq { address: name_server.address().to_owned(), source })?;
    Ok(cluster.broker_addr_table.values().filter_map(|broker| address_of(broker, Access::Write)).collect())
}

/// How many masters the name server at `address` serves topics from.
pub fn registered_brokers(address: &str) -> Result<usize, BenchError> {
    let mut name_server = Control::open("name server", address)?;
    let masters = masters(&mut name_server)?.len();
    // A broker is known some seconds before its topics are.
    let served = route(&mut name_server, TEMPLATE_TOPIC)?.map_or(0, |route| queues_of(&route, Access::Write).len());
    Ok(masters.min(served))
}

fn no_route(name_server: &Control, topic: &str) -> BenchError {
    BenchError::NoRoute { topic: topic.to_owned(), address: name_server.address().to_owned() }
}

fn create_topic(broker: &mut Control, topic: &str, queues: u32) -> Result<(), BenchError> {
    let queues = i32::try_from(queues).unwrap_or(i32::MAX);
    let header = CreateTopicRequest {
        topic: topic.into(),
        default_topic: TEMPLATE_TOPIC.into(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        permission: (PERMISSION_READ | PERMISSION_WRITE) as i32,
        topic_filter_type: "SINGLE_TAG".into(),
        topic_system_flag: Some(0),
        order: false,
        ..CreateTopicRequest::default()
    };
    broker.demand(request::UPDATE_AND_CREATE_TOPIC, &header).map(|_| ())
}

/// Queues of the topic as the broker itself has it; those of a topic it would create by itself if it has none.
fn configured_queues(broker: &mut Control, topic: &str, access: Access) -> Result<u32, BenchError> {
    let header = TopicRequest { topic: topic.into(), ..TopicRequest::default() };
    let answer = broker.ask(request::GET_TOPIC_CONFIG, &header)?;
    match answer.code {
        response::SUCCESS => {}
        response::TOPIC_NOT_EXIST if access == Access::Read => {
            return Err(broker.refused(request::GET_TOPIC_CONFIG, &answer));
        }
        _ => return Ok(TEMPLATE_QUEUES),
    }
    let config = format::loose_json::parse(&answer.body).unwrap_or_default();
    let name = match access {
        Access::Write => "writeQueueNums",
        Access::Read => "readQueueNums",
    };
    let queues = config.get(name).and_then(serde_json::Value::as_u64).and_then(|queues| u32::try_from(queues).ok());
    Ok(queues.unwrap_or(TEMPLATE_QUEUES).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::progress::Quiet;

    const ROUTE: &str = r#"{"brokerDatas":[
        {"brokerAddrs":{0:"a:1",1:"a:2"},"brokerName":"a"}, {"brokerAddrs":{1:"b:2"},"brokerName":"b"}],
        "queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":8,"writeQueueNums":4},
        {"brokerName":"b","perm":6,"readQueueNums":3,"writeQueueNums":3},
        {"brokerName":"gone","perm":6,"readQueueNums":3,"writeQueueNums":3}]}"#;

    #[test]
    fn senders_want_masters_and_pullers_take_a_replica() {
        let route = TopicRouteData::decode(ROUTE.as_bytes()).expect("route");
        let broker = |name: &str, address: &str, queues| BrokerQueues {
            name: name.to_owned(),
            address: address.to_owned(),
            queues,
        };
        assert_eq!(queues_of(&route, Access::Write), [broker("a", "a:1", 4)]);
        assert_eq!(queues_of(&route, Access::Read), [broker("a", "a:1", 8), broker("b", "b:2", 3)]);
    }

    #[test]
    fn a_closed_port_is_an_error_that_names_it() {
        let run = RunOptions { target: "rocketmq://127.0.0.1:1".parse().expect("target"), ..RunOptions::default() };
        let error = brokers_of(&run, Access::Write, &Quiet).expect_err("nobody listens there").to_string();
        assert!(error.contains("name server at 127.0.0.1:1"), "{error}");
    }
}
