//! The brokers of one topic as whoever produces to it or consumes from it wants them: connected, with their queues.

use base::TopicName;
use wire::rocketmq::body::topic_list::TopicList;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::header::TopicRequest;

use crate::error::ClientError;
use crate::near::near;
use crate::rocketmq::control::{Control, NoFields};
use crate::rocketmq::route::{
    Access, BrokerQueues, TEMPLATE_QUEUES, TEMPLATE_TOPIC, configured_queues, first_reachable, queues_of, route,
};
use crate::target::Target;

/// Topics of the broker's own begin so; nobody means them by mistake.
const OWN_PREFIXES: [&str; 6] = ["%RETRY%", "%DLQ%", "rmq_sys_", "SCHEDULE_TOPIC", "TBW102", "RMQ_SYS_"];

/// Who knows where topics are: a name server, or a broker of its own.
#[derive(Debug)]
pub struct Directory {
    control: Control,
    is_name_server: bool,
}

/// A queue as people name one: its number, with `BROKER:` in front where several brokers have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueName {
    /// Name of the broker.
    pub broker: Option<String>,
    /// Number.
    pub queue: u32,
}

impl std::str::FromStr for QueueName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (broker, number) = text.rsplit_once(':').map_or((None, text), |(broker, number)| (Some(broker), number));
        let queue =
            number.parse().map_err(|_| "it is a number, or BROKER:NUMBER where several brokers have the topic")?;
        Ok(Self { broker: broker.map(str::to_owned), queue })
    }
}

impl std::fmt::Display for QueueName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.broker {
            Some(broker) => write!(f, "{broker}:{}", self.queue),
            None => self.queue.fmt(f),
        }
    }
}

impl Directory {
    /// Connects to whom `target` names; `None` if that speaks AMQP.
    pub fn open(target: &Target) -> Result<Option<Self>, ClientError> {
        Ok(match target {
            Target::NameServer(addresses) => Some(Self { control: first_reachable(addresses)?, is_name_server: true }),
            Target::Broker(address) => Some(Self { control: Control::open("broker", address)?, is_name_server: false }),
            Target::Amqp(_) => None,
        })
    }

    /// The brokers that have `topic`; `None` if nobody has it.
    pub fn find(&mut self, topic: &str, access: Access) -> Result<Option<Vec<BrokerQueues>>, ClientError> {
        if self.is_name_server {
            let route = route(&mut self.control, topic)?;
            let Some(route) = route else { return Ok(None) };
            let mut brokers = queues_of(&route, access);
            for broker in &mut brokers {
                broker.address = self.control.like_own(&broker.address);
            }
            return Ok(Some(brokers));
        }
        let header = TopicRequest { topic: topic.into(), ..TopicRequest::default() };
        let answer = self.control.ask(request::GET_TOPIC_CONFIG, &header)?;
        if answer.code == response::TOPIC_NOT_EXIST {
            return Ok(None);
        }
        let queues = configured_queues(&mut self.control, topic, access)?;
        Ok(Some(vec![BrokerQueues { name: String::new(), address: self.control.address().to_owned(), queues }]))
    }

    /// The brokers that would have `topic` once a message has made it.
    pub fn find_template(&mut self) -> Result<Vec<BrokerQueues>, ClientError> {
        let mut brokers = self.find(TEMPLATE_TOPIC, Access::Write)?.unwrap_or_default();
        if brokers.is_empty() && !self.is_name_server {
            let address = self.control.address().to_owned();
            brokers.push(BrokerQueues { name: String::new(), address, queues: TEMPLATE_QUEUES });
        }
        for broker in &mut brokers {
            broker.queues = broker.queues.min(TEMPLATE_QUEUES);
        }
        Ok(brokers)
    }

    /// The error that `topic` is not there, with the names that are like it.
    pub fn unknown(&mut self, topic: &str, may_create: bool) -> ClientError {
        if let Err(refusal) = TopicName::checked(topic) {
            return ClientError::Unusable { what: "topic's name", problem: refusal.to_string() };
        }
        let names = self.names().unwrap_or_default();
        let names =
            names.into_iter().filter(|name| name != topic && !OWN_PREFIXES.iter().any(|own| name.starts_with(own)));
        let (topic, address) = (topic.to_owned(), self.control.address().to_owned());
        ClientError::UnknownTopic { near: near(&topic, names), topic, address, may_create }
    }

    fn names(&mut self) -> Option<Vec<String>> {
        if self.is_name_server {
            let answer = self.control.demand(request::GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, &NoFields).ok()?;
            return TopicList::decode(&answer.body).ok().map(|list| list.topic_list);
        }
        let answer = self.control.demand(request::GET_ALL_TOPIC_CONFIG, &NoFields).ok()?;
        let table = format::loose_json::parse(&answer.body).ok()?;
        Some(table.get("topicConfigTable")?.as_object()?.keys().cloned().collect())
    }
}

/// All queues of `brokers` as broker and number, or the one that was asked for.
pub fn chosen(
    topic: &str,
    brokers: &[BrokerQueues],
    wanted: Option<&QueueName>,
) -> Result<Vec<(usize, u32)>, ClientError> {
    let all = (0..).zip(brokers).flat_map(|(at, broker)| (0..broker.queues).map(move |queue| (at, queue)));
    let Some(wanted) = wanted else { return Ok(all.collect()) };
    let is_broker =
        |at: usize| wanted.broker.as_ref().is_none_or(|name| brokers.get(at).is_some_and(|it| it.name == *name));
    let found: Vec<_> = all.filter(|(at, queue)| *queue == wanted.queue && is_broker(*at)).collect();
    if found.len() == 1 {
        return Ok(found);
    }
    let name = |broker: &BrokerQueues| if broker.name.is_empty() { String::new() } else { format!("{}:", broker.name) };
    let one = brokers.len() == 1;
    let range = |broker: &BrokerQueues| {
        let front = if one { String::new() } else { name(broker) };
        format!("{front}0 to {}", broker.queues.saturating_sub(1))
    };
    let has = brokers.iter().map(range).collect::<Vec<_>>().join(", ");
    Err(ClientError::UnknownQueue { topic: topic.to_owned(), queue: wanted.to_string(), has })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_named_by_its_number_and_by_its_broker_where_there_are_several() {
        let broker = |name: &str, queues| BrokerQueues { name: name.to_owned(), address: String::new(), queues };
        let (one, two) = (vec![broker("a", 2)], vec![broker("a", 2), broker("b", 3)]);
        let queue = |text: &str| text.parse::<QueueName>().expect("a queue");
        let found = |brokers: &[BrokerQueues], text: &str| chosen("t", brokers, Some(&queue(text)));
        assert_eq!(found(&one, "1").expect("it is there"), [(0, 1)]);
        assert_eq!(found(&two, "b:1").expect("it is there"), [(1, 1)]);
        assert_eq!(found(&two, "2").expect("one broker has it"), [(1, 2)]);
        assert_eq!(chosen("t", &two, None).expect("all"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]);
        assert!(found(&two, "1").expect_err("both").to_string().contains("a:0 to 1, b:0 to 2"));
        assert!(found(&one, "2").expect_err("none").to_string().contains("it has 0 to 1"));
        assert!("x".parse::<QueueName>().is_err());
    }
}
