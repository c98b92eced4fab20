//! Finds the brokers of the topics and how many queues each has, and creates topics where that was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::rocketmq::control::Control;
use client::rocketmq::route::{
    Access, BrokerQueues, TEMPLATE_QUEUES, TEMPLATE_TOPIC, configured_queues, create_topic, first_reachable, masters,
    queues_of, route,
};
use client::target::Target;

use crate::error::BenchError;
use crate::load::options::RunOptions;
use crate::load::progress::ProgressSink;

/// Brokers of older versions register at intervals rather than at once.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(30);
const REGISTER_INTERVAL: Duration = Duration::from_millis(100);

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

fn master_addresses(name_server: &mut Control, topic: &str) -> Result<Vec<String>, BenchError> {
    let masters = masters(name_server)?;
    if masters.is_empty() { Err(no_route(name_server, topic)) } else { Ok(masters) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::progress::Quiet;

    #[test]
    fn a_closed_port_is_an_error_that_names_it() {
        let run = RunOptions { target: "rocketmq://127.0.0.1:1".parse().expect("target"), ..RunOptions::default() };
        let error = brokers_of(&run, Access::Write, &Quiet).expect_err("nobody listens there").to_string();
        assert!(error.contains("name server at 127.0.0.1:1"), "{error}");
    }
}
