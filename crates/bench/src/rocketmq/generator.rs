//! `sluice bench generator`: what the load generator itself costs, and the most it can do, against a sink: a broker that only reads and
//! answers.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use bytes::BytesMut;
use client::ClientError;
use client::target::Target;
use wire::rocketmq::code::request::SEND_MESSAGE_V2;
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{Command, FLAG_RESPONSE, Form, Header, Language, encode, frame_len};

use crate::error::BenchError;
use crate::load::options::{RunOptions, SendOptions};
use crate::load::progress::Quiet;
use crate::load::report::SendReport;
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::reply::{BINARY, CODE_AT, FORM_AT, OPAQUE_AT};
use crate::rocketmq::send;

/// Bodies that are sent, bytes.
const SIZES: [usize; 3] = [30, 100, 1024];
const READ_SIZE: usize = 256 * 1024;

/// Sends of each size, one generator thread, 4 connections with 256 in flight.
pub fn generator(seconds: f64) -> Result<Vec<SendReport>, BenchError> {
    let unreachable = |source| {
        BenchError::from(ClientError::Unreachable { role: "loopback", address: "127.0.0.1:0".to_owned(), source })
    };
    let address = start().map_err(unreachable)?;
    let run = |message_size| {
        let target = Target::Broker(address.to_string());
        let (queues, seconds, warm_up_seconds) = (Some(4), Some(seconds), 0.5);
        let run = RunOptions { target, queues, seconds, warm_up_seconds, ..RunOptions::default() };
        let options = SendOptions { run, message_sizes: vec![message_size], ..SendOptions::default() };
        send::send(options, RocketMq::default(), &Quiet)
    };
    SIZES.into_iter().map(run).collect()
}

/// The sink: it takes every send of binary headers as stored, and knows of other requests no more than a run needs. It listens on a port
/// of the system's choice; its threads end with the connections, the first with the process.
fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    thread::Builder::new().name("sink".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // Who cannot be served finds the connection closed.
            let _ = thread::Builder::new().name("sink".to_owned()).spawn(move || serve(stream));
        }
    })?;
    Ok(address)
}

fn serve(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let stored = reply(Form::Binary, 0);
    let (mut input, mut start, mut end) = (vec![0; 2 * READ_SIZE], 0, 0);
    let mut out = Vec::new();
    loop {
        while let Some(size) = frame_len(input.get(start..end)?).ok()? {
            let Some(frame) = input.get(start..end)?.get(..size) else { break };
            answer(frame, &stored, &mut out)?;
            start += size;
        }
        stream.write_all(&out).ok()?;
        out.clear();
        input.copy_within(start..end, 0);
        (start, end) = (0, end - start);
        if input.len() - end < READ_SIZE {
            input.resize(end + READ_SIZE, 0);
        }
        let count = stream.read(input.get_mut(end..)?).ok().filter(|count| *count > 0)?;
        end += count;
    }
}

/// Answers one frame; `None` if it is none.
fn answer(frame: &[u8], stored: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let is_send = frame.get(FORM_AT) == Some(&BINARY)
        && frame.get(CODE_AT..CODE_AT + 2)? == (SEND_MESSAGE_V2 as i16).to_be_bytes();
    if is_send {
        let at = out.len();
        out.extend_from_slice(stored);
        out.get_mut(at + OPAQUE_AT..at + OPAQUE_AT + 4)?.copy_from_slice(frame.get(OPAQUE_AT..OPAQUE_AT + 4)?);
        return Some(());
    }
    let command = Command::decode(frame).ok()?;
    out.extend_from_slice(&reply(command.form, command.header.opaque));
    Some(())
}

fn reply(form: Form, opaque: i32) -> BytesMut {
    let header = Header { code: 0, language: Language::RUST, version: 0, opaque, flag: FLAG_RESPONSE, remark: None };
    let mut out = BytesMut::new();
    // As long as an answer of a real broker.
    let fields = |sink: &mut FieldSink<'_>| {
        sink.text("msgId", "7F00000100002A9F0000000000001234");
        sink.text("queueId", "3");
        sink.text("queueOffset", "1234567");
        sink.text("MSG_REGION", "DefaultRegion");
        sink.text("TRACE_ON", "true");
    };
    encode(&mut out, form, &header, fields, &[]);
    out
}
