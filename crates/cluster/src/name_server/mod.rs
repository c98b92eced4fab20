//! The name server: one registry shared by all connections, its key-value table and its settings.
//!
//! [`NameServer`] is the shared value; [`session::NameServerSession`] is one connection on it. Reading a route takes
//! the lock shared, so clients do not wait for each other. Bodies are read before the lock is taken, lists are sorted and written
//! after it was given back, and what changes many topics holds it for some of them at a time (`changes.rs`).
//!
//! The crate `server` has three duties: every few seconds [`NameServer::expire`], which drops silent brokers and may take a while (each
//! request also does, when it is due); now and then [`NameServer::take_notices`], frames to be sent to brokers; and to be the
//! [`KeyValueFile`], which sessions write to from their jobs.
//!
//! After a crash the registry is empty and fills as brokers register; the key-value table is read from its file, which
//! holds every change that was answered.

mod admission;
mod answers;
pub mod broker;
mod changes;
pub mod key_values;
pub mod odd_registrations;
pub mod options;
pub mod registry;
pub mod requests;
pub mod routes;
pub mod session;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use base::{Monotonic, Now, Refusal};
use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, RwLock};
use wire::rocketmq::code::request;
use wire::rocketmq::frame::{self, FLAG_ONE_WAY, Form};

use crate::limits::NOTICES_MAX;
use crate::spoken_header;
use broker::{ConnectionId, Expired, LowestIdChange};
use key_values::KeyValues;
use odd_registrations::{OddRegistration, OddRegistrations};
use options::Options;
use registry::Registry;
use session::NameServerSession;

/// Where the key-value table is kept.
pub trait KeyValueFile: Send + Sync {
    /// Replaces the file with `text` and returns when that is on the disk. An error names the file.
    fn replace(&self, text: &str) -> Result<(), String>;
}

/// A one-way request to a broker. Losing it is harmless: the broker finds out by asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The broker's address.
    pub address: String,
    /// The whole frame.
    pub frame: Bytes,
}

/// Figures for the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Topics with a route.
    pub topics: usize,
    /// Broker names.
    pub brokers: usize,
}

/// The name server that all connections share.
pub struct NameServer {
    state: RwLock<State>,
    /// Whoever changes which brokers and topics there are has this to the end of the change: what it saw of the registry holds,
    /// though it locks `state` for a piece of the work at a time.
    changing: Mutex<()>,
    /// Locked while it is written, so that an older table never replaces a newer one.
    file: Mutex<Box<dyn KeyValueFile>>,
    last_connection: AtomicU64,
    started_at: Monotonic,
    /// A route was found once: the registry is filled, and no client has to wait any more.
    has_served: AtomicBool,
}

#[derive(Debug)]
struct State {
    registry: Registry,
    key_values: KeyValues,
    options: Options,
    notices: VecDeque<Notice>,
    odd: OddRegistrations,
    scan_due_at: Monotonic,
    /// Dropped and not yet told to the server; at most `BROKERS_MAX`.
    expired: Vec<Expired>,
}

impl NameServer {
    /// A name server without brokers, started at `now`; `key_values` is what `file` holds.
    pub fn new(options: Options, key_values: KeyValues, file: Box<dyn KeyValueFile>, now: Now) -> Arc<Self> {
        let scan_due_at = now.monotonic.plus_ms(options.scan_interval_ms);
        let state = State {
            registry: Registry::default(),
            key_values,
            options,
            notices: VecDeque::new(),
            odd: OddRegistrations::default(),
            scan_due_at,
            expired: Vec::new(),
        };
        Arc::new(Self {
            state: RwLock::new(state),
            changing: Mutex::new(()),
            file: Mutex::new(file),
            last_connection: AtomicU64::new(0),
            started_at: now.monotonic,
            has_served: AtomicBool::new(false),
        })
    }

    /// The session of a new connection; `waker` is woken when one of its jobs has ended.
    pub fn session(self: &Arc<Self>, waker: Waker) -> NameServerSession {
        let connection = ConnectionId(self.last_connection.fetch_add(1, Ordering::Relaxed) + 1);
        let idle_timeout_ms = self.state.read().options.idle_timeout_ms;
        NameServerSession::new(self.clone(), connection, waker, idle_timeout_ms)
    }

    /// Brings the key-value table to the disk if it changed. What could not be kept counts as changed still.
    fn keep_key_values(&self) -> Result<(), Refusal> {
        let file = self.file.lock();
        let text = {
            let mut state = self.state.write();
            state.key_values.take_changed().then(|| state.key_values.to_json())
        };
        text.map_or(Ok(()), |text| file.replace(&text)).map_err(|problem| {
            self.state.write().key_values.mark_changed();
            Refusal::Unavailable(format!("the key-value table is changed but cannot be kept: {problem}"))
        })
    }

    /// What is to be sent to brokers since this was last asked.
    pub fn take_notices(&self) -> Vec<Notice> {
        if self.state.read().notices.is_empty() {
            return Vec::new();
        }
        self.state.write().notices.drain(..).collect()
    }

    /// Registrations with topics that had to be changed or left out, since this was last asked, for the log.
    pub fn take_odd_registrations(&self) -> Vec<OddRegistration> {
        if self.state.read().odd.is_told() {
            return Vec::new();
        }
        self.state.write().odd.take()
    }

    /// Figures for the console.
    pub fn summary(&self) -> Summary {
        let state = self.state.read();
        Summary { topics: state.registry.topic_count(), brokers: state.registry.broker_count() }
    }
}

impl State {
    /// Tells a group's brokers that its lowest id changed, if it did and the settings say so.
    fn notify(&mut self, change: Option<&LowestIdChange>) {
        let Some(change) = change else { return };
        if !self.options.notify_min_broker_id_changed {
            return;
        }
        let frame = notice_frame(change);
        for address in &change.recipients {
            if self.notices.len() >= NOTICES_MAX {
                self.notices.pop_front();
            }
            self.notices.push_back(Notice { address: address.clone(), frame: frame.clone() });
        }
    }
}

fn notice_frame(change: &LowestIdChange) -> Bytes {
    let header = spoken_header(request::NOTIFY_MIN_BROKER_ID_CHANGE, 0, FLAG_ONE_WAY);
    let mut frame = BytesMut::new();
    let write_fields = |sink: &mut wire::rocketmq::field::FieldSink<'_>| {
        sink.number("minBrokerId", change.lowest_id);
        sink.text("brokerName", &change.broker_name);
        sink.text("minBrokerAddr", &change.lowest_address);
        if let Some(address) = &change.offline_address {
            sink.text("offlineBrokerAddr", address);
        }
        if let Some(address) = &change.ha_address {
            sink.text("haBrokerAddr", address);
        }
    };
    frame::encode(&mut frame, Form::Json, &header, write_fields, b"");
    frame.freeze()
}
