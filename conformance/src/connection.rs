//! A bare client connection: frames out, frames in. For what no official client would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base::{QueueId, QueueOffset};
use bytes::BytesMut;
use format::record::{QueueRef, Record};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, Command, Form, Header, Language};

/// One connection.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    input: BytesMut,
    opaque: i32,
}

/// An answer, copied out of its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Response code.
    pub code: i32,
    /// Text for people.
    pub remark: String,
    /// Number of the request it answers.
    pub opaque: i32,
    /// Header fields.
    pub fields: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header field.
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// A request's frame.
pub fn request_frame(code: i32, opaque: i32, form: Form, fields: &[(&str, &str)], body: &[u8]) -> BytesMut {
    let header = Header { code, language: Language::JAVA, version: 493, opaque, flag: 0, remark: None };
    let mut out = BytesMut::new();
    let write = |sink: &mut FieldSink<'_>| fields.iter().for_each(|(name, value)| sink.text(name, value));
    frame::encode(&mut out, form, &header, write, body);
    out
}

impl Connection {
    /// Connects to `host:port`.
    pub fn open(address: &str) -> Self {
        Self::of(TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}")))
    }

    /// The same; `None` when nobody listens there.
    pub fn try_open(address: &str) -> Option<Self> {
        TcpStream::connect(address).ok().map(Self::of)
    }

    fn of(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
        socket.set_nodelay(true).expect("no delay");
        Self { socket, input: BytesMut::new(), opaque: 0 }
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Sends bytes as far as they are taken within `limit`; how many were.
    pub fn send_what_is_taken(&mut self, bytes: &[u8], limit: Duration) -> usize {
        self.socket.set_write_timeout(Some(limit)).expect("a time limit");
        let mut sent = 0;
        while sent < bytes.len() {
            match self.socket.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(_) => break,
            }
        }
        sent
    }

    /// Sends one request and waits for its answer.
    pub fn call(&mut self, code: i32, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_call(code, fields, body).expect("an answer")
    }

    /// Sends one request and waits for its answer; `None` when the peer is gone.
    pub fn try_call(&mut self, code: i32, fields: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
        let opaque = self.begin_call(code, fields, body)?;
        self.answer_to(opaque)
    }

    fn begin_call(&mut self, code: i32, fields: &[(&str, &str)], body: &[u8]) -> Option<i32> {
        self.opaque += 1;
        self.send_raw(&request_frame(code, self.opaque, Form::Json, fields, body)).ok()?;
        Some(self.opaque)
    }

    fn answer_to(&mut self, opaque: i32) -> Option<Answer> {
        loop {
            let answer = self.receive()?;
            if answer.opaque == opaque {
                return Some(answer);
            }
        }
    }

    /// The next frame; `None` when the peer closed the connection.
    pub fn receive(&mut self) -> Option<Answer> {
        loop {
            if let Ok(Some(length)) = frame::frame_len(&self.input) {
                let bytes = self.input.split_to(length);
                let command = Command::decode(&bytes).expect("a well-formed answer");
                return Some(Answer {
                    code: command.header.code,
                    remark: command.header.remark.as_deref().unwrap_or_default().to_owned(),
                    opaque: command.header.opaque,
                    fields: command.fields.pairs().expect("well-formed fields"),
                    body: command.body.to_vec(),
                });
            }
            let mut buffer = [0; 64 * 1024];
            match self.socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// Sends one message; returns the answer.
    pub fn send_message(&mut self, topic: &str, queue: i32, properties: &str, body: &[u8]) -> Answer {
        self.try_send_message(topic, queue, properties, body).expect("an answer")
    }

    /// Sends one message; returns the answer, or `None` when the peer is gone.
    pub fn try_send_message(&mut self, topic: &str, queue: i32, properties: &str, body: &[u8]) -> Option<Answer> {
        let opaque = self.begin_send_message(topic, queue, properties, body)?;
        self.answer_to(opaque)
    }

    /// Sends one message without waiting for the answer, which will have the number that is given; `None` when the peer is gone.
    pub fn begin_send_message(&mut self, topic: &str, queue: i32, properties: &str, body: &[u8]) -> Option<i32> {
        let queue = queue.to_string();
        let fields = [
            ("a", "conformance"),
            ("b", topic),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", &*queue),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", properties),
            ("j", "0"),
            ("k", "false"),
            ("m", "false"),
        ];
        self.begin_call(request::SEND_MESSAGE_V2, &fields, body)
    }

    /// Makes a topic, or changes how many queues it has.
    pub fn make_topic(&mut self, topic: &str, queues: u32) {
        let queues = queues.to_string();
        let fields = [
            ("topic", topic),
            ("defaultTopic", "TBW102"),
            ("readQueueNums", &*queues),
            ("writeQueueNums", &*queues),
            ("perm", "6"),
            ("topicFilterType", "SINGLE_TAG"),
            ("order", "false"),
        ];
        let answer = self.call(request::UPDATE_AND_CREATE_TOPIC, &fields, &[]);
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    }

    /// Makes a consumer group whose messages are retried so often.
    pub fn make_group(&mut self, group: &str, retries: u32) {
        let config = format!(r#"{{"groupName":"{group}","retryMaxTimes":{retries}}}"#);
        let made = self.call(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[], config.as_bytes());
        assert_eq!(made.code, response::SUCCESS, "{made:?}");
    }

    /// The offset a group has committed in a queue.
    pub fn committed(&mut self, group: &str, topic: &str, queue: u32) -> Option<u64> {
        let queue = queue.to_string();
        let fields = [("consumerGroup", group), ("topic", topic), ("queueId", &*queue)];
        self.call(request::QUERY_CONSUMER_OFFSET, &fields, &[]).field("offset").parse().ok()
    }

    /// Asks once for messages of a queue from `offset` on; `None` when the peer is gone.
    pub fn pull(&mut self, topic: &str, queue: u32, offset: u64) -> Option<Answer> {
        let (queue, offset) = (queue.to_string(), offset.to_string());
        let fields = [
            ("consumerGroup", "readers"),
            ("topic", topic),
            ("queueId", &*queue),
            ("queueOffset", &*offset),
            ("maxMsgNums", "1000"),
            ("sysFlag", "4"),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "0"),
            ("subscription", "*"),
            ("subVersion", "0"),
        ];
        self.try_call(request::PULL_MESSAGE, &fields, &[])
    }

    /// Reads a queue from `from` to its end, which is returned. Every message must be whole and in its place, and none missing.
    pub fn read_queue(&mut self, topic: &str, queue: u32, from: u64, mut visit: impl FnMut(&Record<'_>)) -> u64 {
        let mut offset = from;
        loop {
            let pulled = self.pull(topic, queue, offset).expect("an answer");
            if pulled.code != response::SUCCESS {
                assert_eq!(pulled.code, response::PULL_NOT_FOUND, "{topic} {queue} at {offset}: {}", pulled.remark);
                return offset;
            }
            let mut rest = &pulled.body[..];
            while !rest.is_empty() {
                let record = Record::decode(rest).expect("a record");
                let place = QueueRef { topic, queue: QueueId(queue), offset: QueueOffset(offset) };
                assert!(
                    record.queue_refs().any(|queue_ref| queue_ref == place),
                    "{topic} {queue} has no record of {offset}"
                );
                assert!(record.body_is_intact(), "{topic} {queue} at {offset}");
                visit(&record);
                rest = &rest[record.size..];
                offset += 1;
            }
        }
    }

    /// Looks for messages of a topic by key, of any time.
    pub fn messages_by_key(&mut self, topic: &str, key: &str) -> Answer {
        let fields = [
            ("topic", topic),
            ("key", key),
            ("maxNum", "32"),
            ("beginTimestamp", "0"),
            ("endTimestamp", "9999999999999"),
        ];
        self.call(request::QUERY_MESSAGE, &fields, &[])
    }

    /// A queue's end: one past its last message.
    pub fn queue_end(&mut self, topic: &str, queue: u32) -> u64 {
        let queue = queue.to_string();
        let answer = self.call(request::GET_MAX_OFFSET, &[("topic", topic), ("queueId", &queue)], &[]);
        answer.field("offset").parse().unwrap_or_else(|error| panic!("{answer:?}: {error}"))
    }

    /// The name server's list of brokers, as text.
    pub fn cluster_info(&mut self) -> String {
        String::from_utf8_lossy(&self.call(request::GET_BROKER_CLUSTER_INFO, &[], &[]).body).into_owned()
    }
}
