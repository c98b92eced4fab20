//! What changes of a broker's state cost over the wire: `cargo run --release -p bench --example state -- ADDRESS WHAT...`
//!
//! | `WHAT` | it asks for | it prints |
//! |---|---|---|
//! | `commits [CONNECTIONS] [DEPTH] [GROUPS] [RATE]` | `RATE` offset commits a second for 10 s (0: as many as are answered), `DEPTH` at once on each connection | rate, round trips, bytes of log |
//! | `topics [COUNT]` | topics of four queues, one by one, and then their removal | seconds of each |

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program for people who measure")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it is a client, with sockets and a clock of its own"
)]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use wire::rocketmq::code::request;
use wire::rocketmq::code::response::SUCCESS;
use wire::rocketmq::field::{FieldSink, TypedHeader};
use wire::rocketmq::frame::{Command, Form, Header, Language, encode, frame_len};
use wire::rocketmq::header::{CreateTopicRequest, TopicRequest, UpdateConsumerOffsetRequest};

const QUEUES: usize = 4;
const COMMITS_FOR: Duration = Duration::from_secs(10);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().expect("an address");
    let what = arguments.next().expect("commits or topics");
    let mut number = |default: usize| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    match &*what {
        "commits" => commits(&address, number(100), number(1), number(1), number(100_000)),
        "topics" => topics(&address, number(100_000)),
        other => println!("{other} is neither commits nor topics"),
    }
}

/// A connection whose requests wait to be sent together.
struct Client {
    stream: TcpStream,
    out: BytesMut,
    input: BytesMut,
}

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, out: BytesMut::new(), input: BytesMut::new() }
    }

    fn push<'h>(&mut self, code: i32, header: &impl TypedHeader<'h>) {
        self.push_with(code, |sink| header.encode(sink));
    }

    fn push_with(&mut self, code: i32, fields: impl FnOnce(&mut FieldSink<'_>)) {
        let head = Header { code, language: Language::RUST, version: 493, opaque: 1, flag: 0, remark: None };
        encode(&mut self.out, Form::Binary, &head, fields, &[]);
    }

    fn send(&mut self) {
        self.stream.write_all(&self.out).expect("takes requests");
        self.out.clear();
    }

    /// Waits for so many answers, gives the last one's body.
    fn await_answers(&mut self, mut count: usize) -> Vec<u8> {
        let mut chunk = [0; 64 * 1024];
        let mut body = Vec::new();
        while count > 0 {
            while let Some(size) = frame_len(&self.input).expect("frames") {
                let frame = self.input.split_to(size);
                let answer = Command::decode(&frame).expect("an answer");
                assert_eq!(answer.header.code, SUCCESS, "{:?}", answer.header.remark);
                body = answer.body.to_vec();
                count -= 1;
            }
            if count > 0 {
                let size = self.stream.read(&mut chunk).expect("answers");
                assert!(size > 0, "the broker has closed the connection");
                self.input.extend_from_slice(&chunk[..size]);
            }
        }
        body
    }

    fn ask<'h>(&mut self, code: i32, header: &impl TypedHeader<'h>) {
        self.push(code, header);
        self.send();
        self.await_answers(1);
    }

    fn make_topic(&mut self, name: &str, queues: usize) {
        let request = CreateTopicRequest {
            topic: name.into(),
            default_topic: "TBW102".into(),
            read_queue_nums: queues as i32,
            write_queue_nums: queues as i32,
            permission: 6,
            topic_filter_type: "SINGLE_TAG".into(),
            ..CreateTopicRequest::default()
        };
        self.ask(request::UPDATE_AND_CREATE_TOPIC, &request);
    }

    /// End of the broker's log.
    fn log_end(&mut self) -> u64 {
        self.push_with(request::GET_BROKER_RUNTIME_INFO, |_| {});
        self.send();
        let body = self.await_answers(1);
        let info: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_slice(&body).expect("figures");
        info["table"]["commitLogMaxOffset"].parse().expect("a number")
    }
}

fn commits(address: &str, connections: usize, depth: usize, groups: usize, rate: usize) {
    let mut admin = Client::connect(address);
    let per_group = connections.div_ceil(groups);
    (0..groups).for_each(|group| admin.make_topic(&format!("commits-{group}"), per_group * QUEUES));
    let mut clients: Vec<_> = (0..connections).map(|_| Client::connect(address)).collect();
    let from = admin.log_end();
    let (started, mut sent, mut round_trips) = (Instant::now(), 0, Vec::new());
    while started.elapsed() < COMMITS_FOR {
        let round = Instant::now();
        for (number, client) in clients.iter_mut().enumerate() {
            let (topic, group) = (format!("commits-{}", number % groups), format!("group-{}", number % groups));
            for at in sent / connections..sent / connections + depth {
                client.push(
                    request::UPDATE_CONSUMER_OFFSET,
                    &UpdateConsumerOffsetRequest {
                        consumer_group: group.as_str().into(),
                        topic: topic.as_str().into(),
                        queue_id: (number / groups * QUEUES + at % QUEUES) as i32,
                        commit_offset: 1_000_000 + at as i64,
                        ..UpdateConsumerOffsetRequest::default()
                    },
                );
            }
            client.send();
        }
        clients.iter_mut().for_each(|client| drop(client.await_answers(depth)));
        round_trips.push(round.elapsed());
        sent += connections * depth;
        if rate > 0 {
            thread::sleep(Duration::from_secs_f64(sent as f64 / rate as f64).saturating_sub(started.elapsed()));
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let log = admin.log_end() - from;
    round_trips.sort_unstable();
    let at = |share: usize| round_trips[(round_trips.len() - 1) * share / 100];
    println!(
        "{connections} connections, {depth} at once, {groups} groups: {:.0} commits a second; all answered after {:.2?} (median), \
         {:.2?} (p99); {:.2} MB of log a second, {:.1} bytes a commit",
        sent as f64 / seconds,
        at(50),
        at(99),
        log as f64 / seconds / 1e6,
        log as f64 / sent as f64,
    );
    thread::sleep(Duration::from_secs(1));
    let from = admin.log_end();
    thread::sleep(Duration::from_secs(5));
    println!("nobody commits for 5 s: {} bytes of log", admin.log_end() - from);
}

fn topics(address: &str, count: usize) {
    let mut admin = Client::connect(address);
    let started = Instant::now();
    (0..count).for_each(|number| admin.make_topic(&format!("topic-{number}"), QUEUES));
    println!("{count} topics of {QUEUES} queues made one by one: {:.2?}", started.elapsed());
    let started = Instant::now();
    for number in 0..count {
        let name = format!("topic-{number}");
        admin.ask(
            request::DELETE_TOPIC_IN_BROKER,
            &TopicRequest { topic: name.as_str().into(), ..TopicRequest::default() },
        );
    }
    println!("removed one by one: {:.2?}", started.elapsed());
}
