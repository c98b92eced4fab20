//! A broker's session for one AMQP client over a small store, and whether a broker that opens the store again finds the client's queues.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use base::Now;
use base::session::Session;
use broker::{Broker, Mailbox, Options};
use bytes::BytesMut;
use dialect::amqp::{AmqpOptions, AmqpSession, model_options};
use testkit::{ManualHost, at, broker_options};
use wire::amqp::frame::PROTOCOL_HEADER;

use crate::{golden, scratch};

/// When every input begins.
const START: Now = at(1_700_000_000_000);

/// Calls of a session for one piece of an input: more, and it goes round for ever.
const CALLS_MAX: usize = 10_000;

/// Bytes of an answer in one go.
const PIECE_SIZE: usize = 700;

fn open_broker(store: storage::Options) -> Arc<Broker> {
    let host = Arc::new(ManualHost::default());
    let options = Options { message_size_max: 4096, model: model_options(), ..broker_options() };
    let broker = Arc::new(testkit::open_broker(options, store, host.clone(), START).expect("a broker"));
    host.serve(&broker);
    broker
}

fn store_options(directory: &std::path::Path) -> storage::Options {
    storage::Options { segment_size: 64 * 1024, recent_size: 8 * 1024, ..scratch::store_options(directory) }
}

/// A client sends what the input says, in pieces; then the broker is gone, and another opens what it left.
pub fn run(data: &[u8]) {
    let directory = scratch::directory();
    let broker = open_broker(store_options(directory.path()));
    let mailbox = Mailbox::new(Waker::noop().clone());
    let options = AmqpOptions { frame_max: 8192, ..AmqpOptions::default() };
    let remote = SocketAddr::from(([127, 0, 0, 1], 40_000));
    let mut session = AmqpSession::new(broker.clone(), mailbox, Arc::new(options), remote);
    converse(&mut session, &broker, data);
    session.closed(START.plus_ms(10_000));
    run_jobs(&mut session);
    drop(session);
    let now = START.plus_ms(20_000);
    broker.end_what_is_over(now);
    broker.keep(now).expect("kept");
    let live = durable(&broker);
    drop(broker);
    let again = open_broker(store_options(directory.path()));
    assert_eq!(durable(&again), live, "a start finds other queues than there were");
}

fn converse(session: &mut AmqpSession, broker: &Broker, data: &[u8]) {
    let mut input = BytesMut::new();
    let mut now = START;
    for piece in data.chunks(PIECE_SIZE) {
        input.extend_from_slice(piece);
        now = now.plus_ms(10);
        broker.end_what_is_over(now);
        for call in 0.. {
            assert!(call < CALLS_MAX, "the session is never done");
            let before = input.len();
            if session.wants_input() && session.receive(&mut input, now).is_err() {
                return;
            }
            let had_jobs = run_jobs(session);
            session.wake(now);
            let said = session.output().take_all();
            if session.is_over() || session.close_reason().is_some() {
                return;
            }
            let is_due = session.deadline().is_some_and(|deadline| deadline <= now.monotonic);
            if said.is_empty() && !had_jobs && !is_due && input.len() == before {
                break;
            }
        }
        assert!(session.held_size() < 1 << 24, "what it holds is bounded");
    }
}

fn run_jobs(session: &mut AmqpSession) -> bool {
    let mut had_any = false;
    while let Some(job) = session.take_job() {
        job();
        had_any = true;
    }
    had_any
}

/// Names of durable queues, each with how many messages it has and how many bindings lead there.
fn durable(broker: &Broker) -> BTreeMap<(String, Vec<u8>), u64> {
    let hosts = broker.model.hosts();
    let queues = hosts.iter().flat_map(|host| host.queues());
    let durable = queues.filter(|queue| queue.wish().is_durable);
    durable
        .map(|queue| {
            let counts = queue.counts();
            ((queue.host().to_string(), queue.name().to_vec()), counts.ready + counts.leased)
        })
        .collect()
}

/// What official clients say.
pub fn seeds() -> Vec<Vec<u8>> {
    golden::amqp().into_iter().filter(|said| said.starts_with(&PROTOCOL_HEADER)).collect()
}
