//! What is not as it should be: frames, order, passwords, limits. Each ends no more than it must.

use std::sync::Arc;

use base::budget::{Budget, Held};
use base::limits::{CONNECTIONS_HELD_SIZE_MAX, READ_SIZE};
use base::session::Session;
use broker::RunningOptions;
use bytes::BytesMut;
use wire::amqp::frame::{self, Kind, PROTOCOL_HEADER};
use wire::amqp::method::basic::{Ack, ConfirmSelect, Consume, Publish, Qos, TxCommit, TxSelect};
use wire::amqp::method::connection::{ChannelOpen, ConnectionClose, ConnectionCloseOk, Flow, Open, TuneOk};

use crate::client::{Arguments, Bench, Client, START, message, put, short};

fn raw(kind: u8, channel: u16, payload: &[u8], end: u8) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(channel.to_be_bytes());
    out.extend((payload.len() as u32).to_be_bytes());
    out.extend_from_slice(payload);
    out.push(end);
    out
}

/// What the connection is closed with for these bytes.
fn ended_by(client: &mut Client, bytes: &[u8]) -> String {
    client.bytes(bytes);
    let said = client.take().join("; ");
    assert!(!client.is_closed, "it waits for the answer");
    client.send(0, ConnectionCloseOk {});
    client.take();
    assert!(client.is_closed);
    said
}

#[test]
fn another_protocol_is_told_which_one_is_spoken_here() {
    let bench = Bench::new();
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"X"] {
        let mut client = bench.stranger("127.0.0.1:1");
        client.bytes(bytes);
        assert_eq!((client.take(), client.is_closed), (vec!["AMQP 0-9-1".to_owned()], true), "{bytes:?}");
    }
    let mut slow = bench.stranger("127.0.0.1:1");
    for byte in PROTOCOL_HEADER {
        slow.bytes(&[byte]);
    }
    assert_eq!(slow.take(), ["connection.start"]);
}

#[test]
fn who_cannot_prove_who_it_is_is_not_let_in() {
    let bench = Bench::new();
    let plain =
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.";
    for (remote, mechanism, response, expected) in [
        ("127.0.0.1:1", "PLAIN", &b"\0guest\0wrong"[..], plain),
        ("127.0.0.1:1", "PLAIN", b"\0nobody\0guest", plain),
        ("127.0.0.1:1", "PLAIN", b"garbage", plain),
        ("10.0.0.9:1", "PLAIN", b"\0guest\0guest", "ACCESS_REFUSED - user 'guest' can only connect via localhost"),
        ("127.0.0.1:1", "EXTERNAL", b"", "COMMAND_INVALID - 'EXTERNAL' is not a supported SASL mechanism"),
    ] {
        let mut client = bench.stranger(remote);
        client.bytes(&PROTOCOL_HEADER);
        client.take();
        client.log_in(mechanism, response);
        assert_eq!(client.take(), [format!("connection.close {expected}")]);
    }
}

#[test]
fn limits_are_agreed_on_within_what_is_offered() {
    let bench = Bench::new();
    for (tune, expected) in [
        (TuneOk { channel_max: 9, frame_max: 100, heartbeat: 0 }, "frame_max = 100 is lower than the minimum"),
        (
            TuneOk { channel_max: 9, frame_max: 1 << 30, heartbeat: 0 },
            "frame_max = 1073741824 is higher than the maximum",
        ),
        (TuneOk { channel_max: 60_000, frame_max: 0, heartbeat: 0 }, "channel_max = 60000 is higher than the maximum"),
    ] {
        let mut client = bench.stranger("127.0.0.1:1");
        client.bytes(&PROTOCOL_HEADER);
        client.log_in("PLAIN", b"\0guest\0guest");
        client.take();
        client.send(0, tune);
        let said = client.take();
        assert!(said[0].starts_with("connection.close NOT_ALLOWED") && said[0].contains(expected), "{said:?}");
    }
    let mut client = bench.stranger("127.0.0.1:1");
    client.bytes(&PROTOCOL_HEADER);
    client.log_in("PLAIN", b"\0guest\0guest");
    client.send(0, TuneOk { channel_max: 1, frame_max: 4096, heartbeat: 0 });
    client.send(0, Open { virtual_host: short("other"), ..Open::default() });
    let said = client.take();
    assert_eq!(said.last().map(String::as_str), Some("connection.close NOT_ALLOWED - vhost other not found"));
}

#[test]
fn bytes_that_are_no_frames_or_come_out_of_turn_end_the_connection() {
    let bench = Bench::new();
    let header = |class: u16| {
        let mut out = class.to_be_bytes().to_vec();
        out.extend([0; 12]);
        out
    };
    let mut publish = BytesMut::new();
    put(&mut publish, 1, Publish::default());
    let publish = publish.to_vec();
    let mut again = publish.clone();
    again.extend_from_slice(&publish);
    let mut of_other_class = publish.clone();
    of_other_class.extend(raw(2, 1, &header(50), frame::END));
    let mut body_first = publish.clone();
    body_first.extend(raw(3, 1, b"x", frame::END));
    let mut too_long = publish.clone();
    let mut one_byte = header(60);
    one_byte[11] = 1;
    too_long.extend(raw(2, 1, &one_byte, frame::END));
    too_long.extend(raw(3, 1, b"xy", frame::END));
    let second_open = {
        let mut out = BytesMut::new();
        put(&mut out, 1, ChannelOpen::default());
        out.to_vec()
    };
    let on_closed = {
        let mut out = BytesMut::new();
        put(&mut out, 7, Qos::default());
        out.to_vec()
    };
    for (bytes, code) in [
        (raw(9, 1, b"", frame::END), "FRAME_ERROR"),
        (raw(1, 1, b"abcd", 0), "FRAME_ERROR"),
        (raw(3, 1, &[0; 5000], frame::END), "FRAME_ERROR"),
        (too_long, "FRAME_ERROR"),
        (raw(1, 1, &[0, 60, 0, 200], frame::END), "COMMAND_INVALID"),
        (raw(1, 1, &[0, 60, 0, 20, 1], frame::END), "SYNTAX_ERROR"),
        (raw(1, 1, b"", frame::END), "SYNTAX_ERROR"),
        (raw(8, 1, b"", frame::END), "UNEXPECTED_FRAME"),
        (raw(3, 1, b"x", frame::END), "UNEXPECTED_FRAME"),
        (raw(2, 0, &header(60), frame::END), "UNEXPECTED_FRAME"),
        (again, "UNEXPECTED_FRAME"),
        (of_other_class, "UNEXPECTED_FRAME"),
        (body_first, "UNEXPECTED_FRAME"),
        (second_open, "CHANNEL_ERROR"),
        (on_closed, "CHANNEL_ERROR"),
        (raw(2, 9, &header(60), frame::END), "CHANNEL_ERROR"),
    ] {
        let mut client = bench.client();
        let said = ended_by(&mut client, &bytes);
        assert!(said.starts_with(&format!("connection.close {code} - ")), "{said} for {bytes:?}");
    }
}

#[test]
fn what_is_not_supported_is_told_as_that() {
    let bench = Bench::new();
    let cases: [&dyn Fn(&mut BytesMut); 3] = [
        &|out| put(out, 1, Publish { immediate: true, ..Publish::default() }),
        &|out| put(out, 1, Qos { prefetch_size: 1, ..Qos::default() }),
        &|out| put(out, 1, Flow { active: false }),
    ];
    for case in cases {
        let mut out = BytesMut::new();
        case(&mut out);
        let said = ended_by(&mut bench.client(), &out);
        assert!(said.starts_with("connection.close NOT_IMPLEMENTED - "), "{said}");
    }
}

#[test]
fn a_mistake_ends_its_channel_alone_and_what_follows_on_it_is_not_heeded() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.open(2);
    let mut out = BytesMut::new();
    put(&mut out, 1, Ack { delivery_tag: 7, multiple: false });
    out.extend_from_slice(&message(
        1,
        Publish { routing_key: short("q"), ..Publish::default() },
        Default::default(),
        b"m",
    ));
    client.bytes(&out);
    assert_eq!(client.take(), ["channel.close PRECONDITION_FAILED - unknown delivery tag 7"]);
    client.send(2, wire::amqp::method::basic::Get { queue: short("q"), ..Default::default() });
    assert_eq!(client.take(), ["basic.get-empty"], "the other goes on");
    for (first, second) in [(true, false), (false, true)] {
        let mut client = bench.client();
        if first {
            client.send(1, TxSelect {})
        } else {
            client.send(1, ConfirmSelect { no_wait: false })
        }
        client.take();
        if second {
            client.send(1, TxSelect {})
        } else {
            client.send(1, ConfirmSelect { no_wait: false })
        }
        assert!(client.take()[0].starts_with("channel.close PRECONDITION_FAILED - cannot switch from"));
    }
    let mut client = bench.client();
    client.send(1, TxCommit {});
    assert_eq!(client.take(), ["channel.close PRECONDITION_FAILED - channel is not transactional"]);
}

#[test]
fn a_consumers_name_is_its_own() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.consume("q", "c", true);
    client.send(1, Consume { queue: short("q"), consumer_tag: short("c"), ..Consume::default() });
    assert_eq!(client.take(), ["connection.close NOT_ALLOWED - attempt to reuse consumer tag 'c'"]);
}

#[test]
fn the_consumers_of_a_connection_are_bounded_on_all_its_channels_together() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.open(2);
    let consume = Consume { queue: short("q"), no_wait: true, ..Consume::default() };
    let (mut many, mut more) = (BytesMut::new(), BytesMut::new());
    (0..15_000).for_each(|_| put(&mut many, 1, consume));
    (0..15_000).for_each(|_| put(&mut many, 2, consume));
    client.bytes(&many);
    assert_eq!(client.take(), [""; 0]);
    assert_eq!(client.queue("q", true, &Arguments::of(|_| ())), ["queue q 0/30000"]);
    (0..30_000).for_each(|_| put(&mut more, 2, consume));
    let said = ended_by(&mut client, &more);
    assert_eq!(said, "connection.close NOT_ALLOWED - the consumers of a connection take at most 33554432 bytes");
    assert_eq!(bench.client().queue("q", true, &Arguments::of(|_| ())), ["queue q 0/0"]);
}

#[test]
fn an_exclusive_consumer_is_alone() {
    let bench = Bench::new();
    let (mut first, mut second) = (bench.client(), bench.client());
    first.simple_queue("q");
    first.send(1, Consume { queue: short("q"), exclusive: true, ..Consume::default() });
    assert_eq!(first.take(), ["basic.consume-ok"]);
    let said = second.consume("q", "c", false);
    assert_eq!(said, ["channel.close ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"]);
}

#[test]
fn a_connection_ends_in_good_order_when_its_client_says_so() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.publish("", "q", b"before");
    client.send(0, ConnectionClose::default());
    assert_eq!(client.take(), ["connection.close-ok"]);
    // What was under way when it said so is no fault, and nothing comes of it.
    client.send(1, Ack { delivery_tag: 7, multiple: false });
    client.publish("", "q", b"after");
    client.bytes(&raw(8, 0, b"", frame::END));
    assert_eq!(client.take(), [""; 0]);
    assert!(!client.is_closed, "the client closes the socket: closed here, it might lose the answer");
    client.now = client.now.plus_ms(10_000);
    client.settle();
    assert!(client.session.is_over() && client.session.close_reason().is_none(), "but not for ever");
    let mut other = bench.client();
    assert_eq!(other.get("q", true), "got 1, 0 more: before");
}

#[test]
fn both_sides_may_end_a_connection_at_one_time() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.bytes(&raw(3, 1, b"out of turn", frame::END));
    assert!(client.take()[0].starts_with("connection.close "));
    client.send(0, ConnectionClose::default());
    assert_eq!((client.take(), client.is_closed), (vec!["connection.close-ok".to_owned()], false));
    client.send(0, ConnectionCloseOk {});
    assert!(client.is_closed && client.session.close_reason().is_none());
}

/// A client that has promised to give a sign of life every two seconds.
fn with_heartbeat(bench: &Bench) -> Client {
    let mut client = bench.stranger("127.0.0.1:1");
    client.bytes(&PROTOCOL_HEADER);
    client.log_in("PLAIN", b"\0guest\0guest");
    client.send(0, TuneOk { channel_max: 0, frame_max: 4096, heartbeat: 2 });
    client.send(0, Open { virtual_host: short("/"), ..Open::default() });
    client.take();
    client
}

#[test]
fn who_gives_no_sign_of_life_is_given_up_and_gets_signs_itself() {
    let bench = Bench::new();
    let mut client = with_heartbeat(&bench);
    let start = client.now;
    for (ms, expected) in [(900, 0), (1100, 1), (2100, 1)] {
        client.now = start.plus_ms(ms);
        client.settle();
        assert_eq!(client.take().len(), expected, "after {ms} ms");
    }
    client.bytes(&raw(8, 0, b"", frame::END));
    client.now = start.plus_ms(5000);
    client.settle();
    assert!(!client.is_closed);
    client.now = start.plus_ms(7000);
    client.settle();
    assert!(client.is_closed);
    assert!(client.session.close_reason().is_some_and(|reason| reason.0.contains("missed heartbeats")));
}

#[test]
fn who_is_not_read_is_not_given_up_for_its_silence() {
    let bench = Bench::new();
    let mut client = with_heartbeat(&bench);
    client.open(1);
    for _ in 0..10 {
        client.now = client.now.plus_ms(3000);
        client.session.note_unread(client.now.monotonic);
        client.settle();
        assert!(!client.is_closed);
    }
    client.now = client.now.plus_ms(4001);
    client.settle();
    assert!(client.is_closed, "it is read again, and silent");
}

#[test]
fn who_takes_none_of_its_answers_and_gives_no_sign_of_life_is_given_up() {
    let bench = Bench::new();
    let mut client = with_heartbeat(&bench);
    client.open(1);
    client.is_stuck = true;
    let now = client.now;
    let mut asked = BytesMut::new();
    while client.session.wants_input() {
        asked.clear();
        for _ in 0..10_000 {
            put(&mut asked, 1, Qos::default());
        }
        client.session.receive(&mut asked, now).expect("taken");
    }
    for (ms, is_closed) in [(3000, false), (1500, true)] {
        client.now = client.now.plus_ms(ms);
        client.settle();
        assert_eq!(client.is_closed, is_closed);
    }
}

#[test]
fn work_that_fails_ends_its_connection_and_holds_nothing_up() {
    let bench = Bench::new();
    let mut client = bench.client();
    let declare = wire::amqp::method::queue::QueueDeclare { queue: short("q"), ..Default::default() };
    let (mut asked, now) = (BytesMut::new(), client.now);
    put(&mut asked, 1, declare);
    client.session.receive(&mut asked, now).expect("taken");
    // Whoever runs it goes without having done it, as in a panic.
    drop(client.session.take_job().expect("a job"));
    assert_eq!(client.take(), ["connection.close INTERNAL_ERROR - a piece of work has failed"]);
    client.send(0, ConnectionCloseOk {});
    client.take();
    assert!(client.is_closed);
}

#[test]
fn who_takes_too_long_to_begin_is_closed() {
    let bench = Bench::new();
    let mut client = bench.stranger("127.0.0.1:1");
    client.bytes(&PROTOCOL_HEADER);
    client.take();
    client.now = client.now.plus_ms(bench.options.handshake_timeout_ms + 1);
    client.settle();
    assert!(client.is_closed);
}

#[test]
fn a_larger_message_than_is_allowed_ends_its_channel_before_its_body_comes() {
    let bench = Bench::new();
    let small = RunningOptions { message_size_max: 100, ..RunningOptions::from(bench.broker.options()) };
    bench.broker.change(&small, START);
    let mut client = bench.client();
    let mut out = BytesMut::new();
    put(&mut out, 1, Publish::default());
    frame::encode(&mut out, Kind::Header, 1, |out| {
        let header = wire::amqp::content::ContentHeader { body_size: 101, ..Default::default() };
        header.encode(out);
    });
    client.bytes(&out);
    assert_eq!(
        client.take(),
        ["channel.close PRECONDITION_FAILED - message size 101 is larger than configured max size 100"]
    );
}

/// `basic.publish` and the header of a body of so many bytes, of which none follows.
fn begun(channel: u16, body_size: u64) -> BytesMut {
    let mut out = BytesMut::new();
    put(&mut out, channel, Publish { routing_key: short("q"), ..Publish::default() });
    frame::encode(&mut out, Kind::Header, channel, |out| {
        wire::amqp::content::ContentHeader { body_size, ..Default::default() }.encode(out);
    });
    out
}

#[test]
fn contents_that_are_begun_on_many_channels_are_bounded() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut fits = 0;
    let said = loop {
        let channel = 2 + fits;
        client.open(channel);
        client.bytes(&begun(channel, 4 << 20));
        let said = client.take();
        if !said.is_empty() {
            break said;
        }
        fits += 1;
        assert!(client.session.held_size() >= usize::from(fits) << 22, "what was announced is counted");
    };
    assert_eq!(fits, 16);
    assert!(said[0].starts_with("connection.close RESOURCE_ERROR - "), "{said:?}");
    assert!(client.session.held_size() < 1 << 20, "and given back");
}

#[test]
fn a_large_body_waits_for_memory_and_a_little_one_does_not() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    let budget = Arc::new(Budget::default());
    client.session.share(budget.clone());
    let held = Held::taken(budget, CONNECTIONS_HELD_SIZE_MAX);
    client.publish("", "q", b"little");
    assert_eq!(client.get("q", true), "got 1, 0 more: little");
    let large = READ_SIZE + 1;
    client.bytes(&begun(1, large as u64));
    assert!(!client.session.wants_input(), "it is not read on");
    let look = client.session.deadline().expect("it looks again");
    client.now = client.now.plus_ms(100);
    assert!(look <= client.now.monotonic);
    client.session.wake(client.now);
    client.bytes(b"");
    assert!(!client.session.wants_input(), "there is still none");
    drop(held);
    client.now = client.now.plus_ms(100);
    client.session.wake(client.now);
    client.bytes(b"");
    assert!(client.session.wants_input());
    for part in vec![b'l'; large].chunks(4000) {
        client.bytes(&raw(3, 1, part, 0xCE));
    }
    let got = client.get("q", true);
    assert!(got.starts_with("got 2, 0 more: lll"), "{}", &got[..got.len().min(200)]);
}
