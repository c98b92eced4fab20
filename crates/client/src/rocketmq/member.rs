//! One member of a consumer group: says that it is there, and asks who else is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use format::hash::tag_code;
use serde::Deserialize;
use wire::rocketmq::body::client::{ConsumerData, Heartbeat, SubscriptionData, decode};
use wire::rocketmq::code::request;
use wire::rocketmq::code::response::SUCCESS;
use wire::rocketmq::header::{ConsumerGroupRequest, UnregisterClientRequest};

use crate::error::ClientError;
use crate::rocketmq::control::{Control, NoFields};
use crate::rocketmq::peer::{Heard, Peer, wait};
use crate::rocketmq::pulled::Filter;

/// How often it says that it is there, as RocketMQ's clients do.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);
/// How often it asks who else is.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long brokers have to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A member.
#[derive(Debug)]
pub struct Member {
    /// Its group.
    pub group: String,
    client_id: String,
    heartbeat: Vec<u8>,
    next_heartbeat: Instant,
    next_look: Instant,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MemberList {
    consumer_id_list: Vec<String>,
}

impl Member {
    /// A member of `group` that wants `topic`, and what was given back to be tried again.
    pub fn new(group: &str, topic: &str, filter: &Filter) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let client_id = format!("sluice@{}#{}", std::process::id(), since.as_nanos());
        let version = i64::try_from(since.as_millis()).unwrap_or_default();
        let subscription = |topic: &str, filter: &Filter| SubscriptionData {
            topic: topic.to_owned(),
            sub_string: filter.expression().to_owned(),
            tags_set: filter.tags().to_vec(),
            code_set: filter.tags().iter().map(|tag| tag_code(tag)).collect(),
            sub_version: version,
            expression_type: "TAG".to_owned(),
            ..SubscriptionData::default()
        };
        let consumer = ConsumerData {
            group_name: group.to_owned(),
            consume_type: "CONSUME_PASSIVELY".to_owned(),
            message_model: "CLUSTERING".to_owned(),
            consume_from_where: "CONSUME_FROM_FIRST_OFFSET".to_owned(),
            subscription_data_set: vec![
                subscription(topic, filter),
                subscription(&retry_topic(group), &Filter::default()),
            ],
            unit_mode: false,
        };
        let heartbeat = Heartbeat { client_id: client_id.clone(), consumers: vec![consumer], ..Heartbeat::default() };
        let now = Instant::now();
        Self {
            group: group.to_owned(),
            client_id,
            // What was made here can be written.
            heartbeat: serde_json::to_vec(&heartbeat).unwrap_or_default(),
            next_heartbeat: now + HEARTBEAT_INTERVAL,
            next_look: now,
        }
    }

    /// Its own name in the group.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Joins at those brokers, on which nothing else is under way, and waits until they know.
    pub fn join(&self, peers: &mut [Peer]) -> Result<(), ClientError> {
        let asked: Vec<i32> =
            peers.iter_mut().map(|peer| peer.post(request::HEART_BEAT, &NoFields, &self.heartbeat)).collect();
        await_answers(peers, asked, request::HEART_BEAT)
    }

    /// Leaves; afterwards the others share what it had.
    pub fn leave(&self, peers: &mut [Peer]) -> Result<(), ClientError> {
        let header = UnregisterClientRequest {
            client_id: (&*self.client_id).into(),
            consumer_group: Some((&*self.group).into()),
            ..UnregisterClientRequest::default()
        };
        let asked: Vec<i32> =
            peers.iter_mut().map(|peer| peer.post(request::UNREGISTER_CLIENT, &header, &[])).collect();
        await_answers(peers, asked, request::UNREGISTER_CLIENT)
    }

    /// Says that it is still there, if it is time to; tells whether it was.
    pub fn beat(&mut self, peers: &mut [Peer]) -> bool {
        let is_due = Instant::now() >= self.next_heartbeat;
        if is_due {
            self.next_heartbeat = Instant::now() + HEARTBEAT_INTERVAL;
            for peer in peers {
                peer.post(request::HEART_BEAT, &NoFields, &self.heartbeat);
            }
        }
        is_due
    }

    /// Somebody came or went.
    pub fn look_soon(&mut self) {
        self.next_look = Instant::now();
    }

    /// All members in their order, if it is time to look.
    pub fn look(&mut self, broker: &mut Control) -> Result<Option<Vec<String>>, ClientError> {
        if Instant::now() < self.next_look {
            return Ok(None);
        }
        self.next_look = Instant::now() + LOOK_INTERVAL;
        let header = ConsumerGroupRequest { consumer_group: (&*self.group).into(), ..ConsumerGroupRequest::default() };
        let answer = broker.demand(request::GET_CONSUMER_LIST_BY_GROUP, &header)?;
        let list: MemberList = decode("list of members", &answer.body)
            .map_err(|source| ClientError::NotRocketmq { address: broker.address().to_owned(), source })?;
        let mut members = list.consumer_id_list;
        members.sort();
        members.dedup();
        Ok(Some(members))
    }
}

/// Where what a group gave back comes again.
pub fn retry_topic(group: &str) -> String {
    format!("%RETRY%{group}")
}

/// Waits until each peer has answered its request; passes over what else comes.
fn await_answers(peers: &mut [Peer], asked: Vec<i32>, request: i32) -> Result<(), ClientError> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    let mut left: Vec<Option<i32>> = asked.into_iter().map(Some).collect();
    while left.iter().any(Option::is_some) {
        wait(peers, deadline)?;
        for (peer, left) in peers.iter_mut().zip(&mut left) {
            let address = peer.address().to_owned();
            while let Some(heard) = peer.hear()? {
                let Heard::Answer(opaque, command) = heard else { continue };
                if *left != Some(opaque) {
                    continue;
                }
                *left = None;
                let (code, remark) = (command.header.code, command.header.remark.as_deref().unwrap_or_default());
                if code != SUCCESS {
                    return Err(ClientError::Refused { request, address, code, remark: remark.to_owned() });
                }
            }
            if left.is_some() && Instant::now() >= deadline {
                return Err(ClientError::Lost { address, problem: "no answer in time".to_owned() });
            }
        }
    }
    Ok(())
}
