//! What the generator alone costs, against a peer that does next to nothing. Not a check: run it by hand with
//! `cargo run --release -p bench --example generator_cost`.

#![allow(clippy::expect_used, reason = "a measurement")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use bench::{HeaderForm, Quiet, SendOptions, send};
use bytes::BytesMut;
use wire::rocketmq::frame::{Command, FLAG_RESPONSE, Form, Header, Language, encode, frame_len};

/// Answers each frame with the same reply, opaque patched in, many to one write.
fn answer_all(mut stream: TcpStream) {
    let header =
        Header { code: 0, language: Language::JAVA, version: 493, opaque: 0, flag: FLAG_RESPONSE, remark: None };
    let mut reply = BytesMut::new();
    let fields = |sink: &mut wire::rocketmq::field::FieldSink<'_>| {
        sink.text("msgId", "7F00000100002A9F0000000000001234");
        sink.text("queueId", "3");
        sink.text("queueOffset", "1234567");
        sink.text("MSG_REGION", "DefaultRegion");
        sink.text("TRACE_ON", "true");
    };
    encode(&mut reply, Form::Binary, &header, fields, &[]);
    let mut input = vec![0; 1024 * 1024];
    let (mut start, mut end) = (0, 0);
    let mut out = Vec::new();
    loop {
        out.clear();
        while let Ok(Some(size)) = frame_len(&input[start..end]) {
            let frame = &input[start..start + size];
            start += size;
            if frame[4] == 1 && frame[8..10] == 310_i16.to_be_bytes() {
                let at = out.len();
                out.extend_from_slice(&reply);
                out[at + 13..at + 17].copy_from_slice(&frame[13..17]);
            } else {
                let command = Command::decode(frame).expect("command");
                let header = Header { opaque: command.header.opaque, ..header.clone() };
                let mut bytes = BytesMut::new();
                encode(&mut bytes, command.form, &header, fields, &[]);
                out.extend_from_slice(&bytes);
            }
        }
        if stream.write_all(&out).is_err() {
            return;
        }
        input.copy_within(start..end, 0);
        (start, end) = (0, end - start);
        match stream.read(&mut input[end..]) {
            Ok(0) | Err(_) => return,
            Ok(size) => end += size,
        }
    }
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream));
        }
    });
    let base = SendOptions {
        target: format!("rocketmq-broker://{address}").parse().expect("target"),
        queues: Some(4),
        seconds: Some(3.0),
        warm_up_seconds: 0.5,
        ..SendOptions::default()
    };
    for (name, options) in [
        ("4 x 256 x 1 KB", base.clone()),
        ("4 x 32 x 1 KB", SendOptions { window: 32, ..base.clone() }),
        ("1 x 1024 x 1 KB", SendOptions { connections: 1, window: 1024, ..base.clone() }),
        ("4 x 256 x 30 B", SendOptions { message_size: 30, ..base.clone() }),
        ("4 x 256 x 1 KB JSON", SendOptions { form: HeaderForm::Json, ..base.clone() }),
        ("4 x 256 x 1 KB one-way", SendOptions { one_way: true, ..base.clone() }),
        ("4 x 64 x 32 of 1 KB", SendOptions { batch: 32, window: 64, ..base.clone() }),
        ("paced 20 000/s", SendOptions { pace: 20_000, ..base.clone() }),
        ("paced 70 000/s", SendOptions { pace: 70_000, ..base }),
    ] {
        let report = send(options, &Quiet).expect("runs");
        let latency = report.round_trip_ms.map_or((0.0, 0.0), |latency| (latency.p50, latency.p99));
        println!(
            "{name:<24} {:>9.0} msg/s  generator {:>5.0} ns a message, {:.2} s CPU  p50 {:.3} ms  p99 {:.3} ms",
            report.totals.messages_per_second,
            report.generator.cpu_ns_per_message,
            report.generator.cpu_seconds,
            latency.0,
            latency.1,
        );
    }
}
