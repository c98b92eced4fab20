//! Which brokers have a topic, and how many queues of it: asked of a name server, or of a broker itself.

use wire::rocketmq::body::cluster_info::ClusterInfo;
use wire::rocketmq::body::route::{BrokerData, MASTER_ID, TopicRouteData};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::header::{CreateTopicRequest, RouteRequest, TopicRequest};

use crate::error::ClientError;
use crate::rocketmq::control::{Control, NoFields};

/// Topic that stands for every topic not yet created, where brokers create topics by themselves.
pub const TEMPLATE_TOPIC: &str = "TBW102";
/// Queues a topic gets that a broker creates by itself, at most.
pub const TEMPLATE_QUEUES: u32 = 4;
const PERMISSION_READ: u32 = 4;
const PERMISSION_WRITE: u32 = 2;

/// What a client wants to do at the brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Send: masters, write queues.
    Write,
    /// Pull: masters, or a replica where there is none; read queues.
    Read,
}

/// One broker of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerQueues {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// Its queues are `0..queues`.
    pub queues: u32,
}

/// A connection to the first of the name servers that can be reached.
pub fn first_reachable(addresses: &[String]) -> Result<Control, ClientError> {
    let mut last = None;
    for address in addresses {
        match Control::open("name server", address) {
            Ok(control) => return Ok(control),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or(ClientError::WrongTarget { text: String::new(), problem: "no address is given".to_owned() }))
}

/// What the name server knows of a topic; `None` if it does not know it.
pub fn route(name_server: &mut Control, topic: &str) -> Result<Option<TopicRouteData>, ClientError> {
    let header = RouteRequest { topic: topic.into(), accept_standard_json_only: Some(true), ..RouteRequest::default() };
    let answer = name_server.ask(request::GET_ROUTE_BY_TOPIC, &header)?;
    match answer.code {
        response::SUCCESS => TopicRouteData::decode(&answer.body)
            .map(Some)
            .map_err(|source| ClientError::NotRocketmq { address: name_server.address().to_owned(), source }),
        response::TOPIC_NOT_EXIST => Ok(None),
        response::REQUEST_CODE_NOT_SUPPORTED => {
            Err(ClientError::NoNameServer { address: name_server.address().to_owned() })
        }
        _ => Err(name_server.refused(request::GET_ROUTE_BY_TOPIC, &answer)),
    }
}

/// The brokers of a route that serve what is wanted, by address.
pub fn queues_of(route: &TopicRouteData, access: Access) -> Vec<BrokerQueues> {
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

/// Addresses of all masters that the name server knows.
pub fn masters(name_server: &mut Control) -> Result<Vec<String>, ClientError> {
    let answer = name_server.demand(request::GET_BROKER_CLUSTER_INFO, &NoFields)?;
    let cluster = ClusterInfo::decode(&answer.body)
        .map_err(|source| ClientError::NotRocketmq { address: name_server.address().to_owned(), source })?;
    Ok(cluster.broker_addr_table.values().filter_map(|broker| address_of(broker, Access::Write)).collect())
}

/// Makes a topic, or gives it so many queues.
pub fn create_topic(broker: &mut Control, topic: &str, queues: u32) -> Result<(), ClientError> {
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
pub fn configured_queues(broker: &mut Control, topic: &str, access: Access) -> Result<u32, ClientError> {
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
}
