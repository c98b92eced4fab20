//! A name server and broker in one, on a loopback port of the system's choice: it answers as it is told to.
#![allow(dead_code, clippy::expect_used, reason = "a test helper; each test program uses its part")]

mod pops;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base::{LogOffset, QueueId, QueueOffset, Timestamp};
use bytes::BytesMut;
use format::record::{Draft, seal};
use wire::rocketmq::body::cluster_info::ClusterInfo;
use wire::rocketmq::body::route::{BrokerData, JsonDialect, QueueData, TopicRouteData};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::{FieldSink, TypedHeader as _};
use wire::rocketmq::frame::{Command, FLAG_RESPONSE, Header, Language, encode, frame_len};
use wire::rocketmq::header::{
    CreateTopicRequest, PullRequest, PullResponse, RouteRequest, SendRequest, UpdateConsumerOffsetRequest,
};

/// What happens to a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Success.
    Stored,
    /// Refused with this code.
    Refused(i32),
    /// Never answered.
    Dropped,
    /// The connection is closed.
    Closed,
}

/// How the fake broker behaves.
#[derive(Clone)]
pub struct Manners {
    /// Topics with their queues.
    pub topics: BTreeMap<String, u32>,
    /// Fate of the n-th send of a connection.
    pub fate: fn(u64) -> Fate,
    /// Whether replies of one read go out in reverse.
    pub reversed: bool,
    /// Messages in each queue, for consumers.
    pub stored: u64,
    /// What every group has committed in every queue.
    pub committed: Option<i64>,
    /// Whether what is sent is kept and given to consumers, instead of `stored` messages; no pull is held then.
    pub keeps: bool,
    /// Whether the last message of each queue is forgotten.
    pub forgets: bool,
    /// Whether the first message of each pull comes twice.
    pub doubles: bool,
    /// Whether messages of a pull come in reverse, two at least.
    pub reorders: bool,
    /// Whether all that is popped comes from a retry topic, with its receipt as a property.
    pub revives: bool,
    /// Acknowledgements of each connection that are never answered, the first ones.
    pub ignores_acks: u64,
    /// How long every answer to sends waits.
    pub delay_ms: u64,
    /// Sends until it is warm: the first waits for so much longer as `cold_ms` says, the later ones less and less.
    pub cold_sends: u64,
    /// How long the first of them waits.
    pub cold_ms: u64,
    /// Bytes of its log that its slave never gets; without a number it has no slave.
    pub slave_lacks: Option<u64>,
}

/// Where the log of every fake broker ends.
const LOG_END: u64 = 1_000_000;

impl Default for Manners {
    fn default() -> Self {
        Self {
            topics: BTreeMap::new(),
            fate: |_| Fate::Stored,
            reversed: false,
            stored: 0,
            committed: Some(90),
            keeps: false,
            forgets: false,
            doubles: false,
            reorders: false,
            revives: false,
            ignores_acks: 0,
            delay_ms: 0,
            cold_sends: 0,
            cold_ms: 0,
            slave_lacks: Some(0),
        }
    }
}

/// What the fake broker saw.
#[derive(Default)]
pub struct Seen {
    pub sends: u64,
    pub ids: Vec<String>,
    pub commits: BTreeMap<i32, i64>,
    pub topics: BTreeMap<String, u32>,
    /// Properties of every message kept, by topic and queue.
    pub kept: BTreeMap<(String, i32), Vec<String>>,
    /// How far each group has popped, by topic and queue.
    pub popped: BTreeMap<(String, String, i32), i64>,
    /// Offsets acknowledged, by group and queue.
    pub acked: BTreeMap<(String, i32), BTreeSet<i64>>,
    /// Requests with acknowledgements.
    pub ack_requests: u64,
    /// Clients that sent heartbeats, with their groups.
    pub members: BTreeMap<String, Vec<String>>,
    /// Groups that pulled, each with the topics it pulled from.
    pub readers: BTreeMap<String, BTreeSet<String>>,
}

pub struct FakeBroker {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Seen>>,
}

impl FakeBroker {
    /// Starts listening; its threads end with the test program.
    pub fn start(manners: Manners) -> Self {
        let seen = Arc::new(Mutex::new(Seen { topics: manners.topics.clone(), ..Seen::default() }));
        let slave = manners.slave_lacks.map(|lacks| listen(&manners, &seen, LOG_END - lacks, None));
        let address = listen(&manners, &seen, LOG_END, slave);
        Self { address, seen }
    }

    pub fn name_server(&self) -> bench::Target {
        format!("rocketmq://{}", self.address).parse().expect("target")
    }

    pub fn broker(&self) -> bench::Target {
        format!("rocketmq-broker://{}", self.address).parse().expect("target")
    }
}

/// A broker whose log ends there.
fn listen(manners: &Manners, seen: &Arc<Mutex<Seen>>, log_end: u64, slave: Option<SocketAddr>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("address");
    let (manners, seen) = (manners.clone(), Arc::clone(seen));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (manners, seen) = (manners.clone(), Arc::clone(&seen));
            thread::spawn(move || Peer { address, slave, log_end, manners, seen, sends: 0, acks: 0 }.serve(stream));
        }
    });
    address
}

struct Peer {
    address: SocketAddr,
    slave: Option<SocketAddr>,
    log_end: u64,
    manners: Manners,
    seen: Arc<Mutex<Seen>>,
    sends: u64,
    acks: u64,
}

type Reply = Option<BytesMut>;

impl Peer {
    fn serve(mut self, mut stream: TcpStream) {
        let mut input = BytesMut::new();
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let mut replies: Vec<BytesMut> = Vec::new();
            let sends = self.sends;
            while let Some(size) = frame_len(&input).expect("frame") {
                let frame = input.split_to(size);
                match self.answer(&Command::decode(&frame).expect("command")) {
                    Ok(reply) => replies.extend(reply),
                    Err(()) => return,
                }
            }
            if self.sends > sends {
                thread::sleep(Duration::from_millis(self.manners.delay_ms) + self.coldness());
            }
            if self.manners.reversed {
                replies.reverse();
            }
            if stream.write_all(&replies.concat()).is_err() {
                return;
            }
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(size) => input.extend_from_slice(&chunk[..size]),
            }
        }
    }

    /// How much longer an answer takes since it is not warm yet.
    fn coldness(&self) -> Duration {
        let Manners { cold_sends, cold_ms, .. } = self.manners;
        let left = cold_sends.saturating_sub(self.seen.lock().expect("not poisoned").sends);
        Duration::from_micros(cold_ms * 1000 * left / cold_sends.max(1))
    }

    fn answer(&mut self, command: &Command<'_>) -> Result<Reply, ()> {
        match command.header.code {
            request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => self.send(command),
            request::PULL_MESSAGE => Ok(self.pull(command)),
            request::POP_MESSAGE => Ok(self.pop(command)),
            request::ACK_MESSAGE | request::BATCH_ACK_MESSAGE => Ok(self.acknowledge(command)),
            request::HEART_BEAT => Ok(Some(self.heartbeat(command))),
            _ => Ok(Some(self.other(command))),
        }
    }

    fn send(&mut self, command: &Command<'_>) -> Result<Reply, ()> {
        let header = SendRequest::decode(&command.fields).expect("send header");
        let properties = header.properties.clone().unwrap_or_default();
        let id = format::properties::find(properties.as_bytes(), "UNIQ_KEY").map(str::to_owned);
        let fate = (self.manners.fate)(self.sends);
        self.sends += 1;
        {
            let mut seen = self.seen.lock().expect("not poisoned");
            seen.sends += 1;
            seen.ids.extend(id);
            if self.manners.keeps {
                let place = (header.topic.clone().into_owned(), header.queue_id);
                seen.kept.entry(place).or_default().push(properties.into_owned());
            }
        }
        let reply = match fate {
            Fate::Closed => return Err(()),
            Fate::Dropped => None,
            Fate::Stored => {
                Some(reply(command, 0, None, |sink| sink.number("queueId", i64::from(header.queue_id)), &[]))
            }
            Fate::Refused(code) => Some(reply(command, code, Some("no, thank you"), |_| {}, &[])),
        };
        Ok(reply.filter(|_| !command.header.is_one_way()))
    }

    fn pull(&mut self, command: &Command<'_>) -> Reply {
        let header = PullRequest::decode(&command.fields).expect("pull header");
        let kept = {
            let mut seen = self.seen.lock().expect("not poisoned");
            let topics = seen.readers.entry(header.consumer_group.to_string()).or_default();
            topics.insert(header.topic.to_string());
            seen.kept.get(&(header.topic.to_string(), header.queue_id)).cloned().unwrap_or_default()
        };
        let stored = if self.manners.keeps { kept.len() as i64 } else { self.manners.stored as i64 };
        let stored = stored - i64::from(self.manners.forgets && stored > 0);
        let mut end = stored.min(header.queue_offset + i64::from(header.max_message_count));
        if self.manners.reorders && end < header.queue_offset + 2 {
            // There is no other order of one message.
            end = end.min(header.queue_offset);
        }
        let mut body = BytesMut::new();
        let mut offsets: Vec<i64> = (header.queue_offset..end).collect();
        if self.manners.reorders {
            offsets.reverse();
        }
        if self.manners.doubles {
            offsets.extend(offsets.first().copied());
        }
        for offset in offsets {
            let start = body.len();
            let queue = QueueId(header.queue_id as u32);
            let properties = kept.get(offset as usize).map_or("", String::as_str);
            Draft { properties: &[properties.as_bytes()], ..draft(self.address, queue) }.encode(&mut body);
            seal(&mut body[start..], QueueOffset(offset as u64), LogOffset(0), Timestamp(now_ms()));
        }
        let found = end > header.queue_offset;
        if !found && header.system_flag & 2 != 0 && !self.manners.keeps {
            return None; // held until the consumer leaves
        }
        let fields = PullResponse {
            next_begin_offset: header.queue_offset.max(end),
            max_offset: stored,
            ..PullResponse::default()
        };
        let code = if found { response::SUCCESS } else { response::PULL_NOT_FOUND };
        Some(reply(command, code, None, |sink| fields.encode(sink), &body))
    }

    fn other(&mut self, command: &Command<'_>) -> BytesMut {
        let mut seen = self.seen.lock().expect("not poisoned");
        let members = std::iter::once(self.address).chain(self.slave);
        let broker = BrokerData {
            broker_addrs: (0..).zip(members.map(|address| address.to_string())).collect(),
            broker_name: "fake".into(),
            cluster: "c".into(),
            ..BrokerData::default()
        };
        match command.header.code {
            request::GET_ROUTE_BY_TOPIC => {
                let topic = RouteRequest::decode(&command.fields).expect("header").topic;
                let Some(&queues) = seen.topics.get(&*topic) else {
                    return reply(command, response::TOPIC_NOT_EXIST, Some("no such topic"), |_| {}, &[]);
                };
                let queues = QueueData {
                    broker_name: "fake".into(),
                    perm: 6,
                    read_queue_nums: queues,
                    write_queue_nums: queues,
                    topic_sys_flag: 0,
                };
                let route = TopicRouteData {
                    broker_datas: vec![broker],
                    queue_datas: vec![queues],
                    ..TopicRouteData::default()
                };
                reply(command, 0, None, |_| {}, &route.encode(JsonDialect::Loose))
            }
            request::GET_BROKER_CLUSTER_INFO => {
                let cluster = ClusterInfo {
                    broker_addr_table: BTreeMap::from([("fake".into(), broker)]),
                    ..ClusterInfo::default()
                };
                reply(command, 0, None, |_| {}, &cluster.encode())
            }
            request::GET_BROKER_RUNTIME_INFO => {
                let told = format!(r#"{{"table":{{"commitLogMaxOffset":"{}"}}}}"#, self.log_end);
                reply(command, 0, None, |_| {}, told.as_bytes())
            }
            request::UPDATE_AND_CREATE_TOPIC => {
                let header = CreateTopicRequest::decode(&command.fields).expect("header");
                if header.topic == "forbidden" {
                    return reply(command, response::NO_PERMISSION, Some("not this one"), |_| {}, &[]);
                }
                seen.topics.insert(header.topic.into_owned(), header.write_queue_nums as u32);
                reply(command, 0, None, |_| {}, &[])
            }
            request::GET_MIN_OFFSET => reply(command, 0, None, |sink| sink.number("offset", 0), &[]),
            request::GET_MAX_OFFSET => {
                let stored = if self.manners.keeps { 0 } else { self.manners.stored as i64 };
                reply(command, 0, None, |sink| sink.number("offset", stored), &[])
            }
            request::GET_BROKER_CONFIG => reply(command, 0, None, |_| {}, b"x=1\nbrokerName=fake\n"),
            request::QUERY_CONSUMER_OFFSET => match self.manners.committed {
                Some(offset) => reply(command, 0, None, |sink| sink.number("offset", offset), &[]),
                None => reply(command, response::QUERY_NOT_FOUND, None, |_| {}, &[]),
            },
            request::UPDATE_CONSUMER_OFFSET => {
                let header = UpdateConsumerOffsetRequest::decode(&command.fields).expect("header");
                seen.commits.insert(header.queue_id, header.commit_offset);
                reply(command, 0, None, |_| {}, &[])
            }
            _ => reply(command, response::REQUEST_CODE_NOT_SUPPORTED, Some("what?"), |_| {}, &[]),
        }
    }
}

fn reply(
    command: &Command<'_>,
    code: i32,
    remark: Option<&str>,
    fields: impl FnOnce(&mut FieldSink<'_>),
    body: &[u8],
) -> BytesMut {
    let header = Header {
        code,
        language: Language::JAVA,
        version: 493,
        opaque: command.header.opaque,
        flag: FLAG_RESPONSE,
        remark: remark.map(Into::into),
    };
    let mut out = BytesMut::new();
    encode(&mut out, command.form, &header, fields, body);
    out
}

fn draft(address: SocketAddr, queue: QueueId) -> Draft<'static> {
    Draft {
        topic: "t",
        queue,
        flag: 0,
        system_flag: 0,
        born_timestamp: Timestamp(now_ms() - 5),
        born_host: address,
        store_host: address,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"0123456789",
        properties: &[],
    }
}

fn now_ms() -> u64 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis() as u64
}
