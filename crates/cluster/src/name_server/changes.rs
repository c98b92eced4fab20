//! Changes of which brokers and topics there are: one at a time, and what concerns many topics a piece at a time, so that whoever
//! asks for a route waits for a piece at most.
//!
//! Between two pieces some topics have a broker's new queues and the others those of before; each has the one or the other. A broker
//! is known before a topic has a route to it, and for as long as one has.

use std::sync::Arc;

use base::limits::TOPICS_MAX;
use base::{Now, Refusal};
use parking_lot::{MutexGuard, RwLockWriteGuard};
use wire::rocketmq::body::route::QueueData;
use wire::rocketmq::registration::Registration;

use super::admission::check_topic_count;
use super::broker::{Arrival, BrokerIdentity, BrokerTraits, ConnectionId, Expired, LowestIdChange, Registered};
use super::registry::{LiveKey, PERMISSION_READ, PERMISSION_WRITE};
use super::{NameServer, State};
use crate::limits::{BROKERS_MAX, TOPICS_HERE_MAX};

/// Topics that are changed under the lock at once: about a millisecond's work.
const PIECE: usize = 512;

/// The right to change which brokers and topics there are.
pub(super) type Changing<'a> = MutexGuard<'a, ()>;

impl NameServer {
    /// Waits for the right to change; not for a network thread, since another's change may take a while.
    pub(super) fn change(&self) -> Changing<'_> {
        self.changing.lock()
    }

    /// The same if nobody else has it just now.
    pub(super) fn try_change(&self) -> Option<Changing<'_>> {
        self.changing.try_lock()
    }

    /// Changes something under the lock. Who waits for the lock has it before the next piece.
    fn piece<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.write();
        let outcome = work(&mut state);
        RwLockWriteGuard::unlock_fair(state);
        outcome
    }

    /// Takes a broker's registration. Refused whole, or taken whole.
    pub(super) fn register(
        &self,
        changing: &Changing<'_>,
        who: &BrokerIdentity<'_>,
        traits: &BrokerTraits<'_>,
        what: &Registration,
        arrival: &Arrival,
    ) -> Result<Registered, Refusal> {
        self.state.read().registry.check_registration(who, traits)?;
        self.check_room(what)?;
        if self.state.read().registry.is_outdated(who, what) {
            // A master that lost its place is still up: it may not take it back, and clients must not find it.
            self.unregister(changing, who);
            return Ok(Registered::default());
        }
        let begun = self.piece(|state| state.registry.begin(who, traits, what))?;
        if begun.takes_topics {
            // Static topics are left alone, as their queues move.
            if arrival.removes_missing_topics && what.mappings.is_empty() {
                let mut gone = self.state.read().registry.topics_of(&begun.name);
                gone.retain(|name| !what.topics.topic_config_table.contains_key(&**name));
                self.remove_queues(&begun.name, &gone);
            }
            let topics: Vec<_> = what.topics.topic_config_table.values().collect();
            for piece in topics.chunks(PIECE) {
                self.piece(|state| state.registry.put_topics(&begun, piece.iter().copied()));
            }
            let mappings: Vec<_> = what.mappings.iter().filter(|_| begun.is_changed).collect();
            for piece in mappings.chunks(PIECE) {
                self.piece(|state| state.registry.put_mappings(&begun, piece.iter().copied()));
            }
        }
        let (registered, before) = self.piece(|state| state.registry.settle(who, traits, &begun, what, arrival));
        if let Some(before) = before {
            self.remove_address(changing, &before, who.address);
        }
        Ok(registered)
    }

    /// Refuses more topics than the registry holds.
    fn check_room(&self, what: &Registration) -> Result<(), Refusal> {
        let (count, topics) = (self.state.read().registry.topic_count(), &what.topics.topic_config_table);
        if count + topics.len() <= TOPICS_MAX {
            return Ok(());
        }
        let names: Vec<&str> = topics.keys().map(String::as_str).collect();
        let unknown = |piece: &[&str]| self.state.read().registry.unknown_count(piece);
        check_topic_count(count + names.chunks(PIECE).map(unknown).sum::<usize>())
    }

    /// A broker says it is going.
    pub(super) fn unregister(&self, changing: &Changing<'_>, who: &BrokerIdentity<'_>) {
        if let Some(name) = self.piece(|state| state.registry.take_leave(who)) {
            self.remove_address(changing, &name, who.address);
        }
    }

    /// Removes a process from a broker: with the last one its topics go first, then the broker. Others of the group hear of it.
    fn remove_address(&self, _: &Changing<'_>, name: &Arc<str>, address: &str) -> Option<LowestIdChange> {
        let topics = self.state.read().registry.topics_that_go_with(name, address);
        self.remove_queues(name, &topics);
        let change = self.piece(|state| state.registry.remove_address(name, address));
        self.piece(|state| state.notify(change.as_ref()));
        change
    }

    fn remove_queues(&self, broker_name: &str, topics: &[Arc<str>]) {
        for piece in topics.chunks(PIECE) {
            self.piece(|state| piece.iter().for_each(|topic| state.registry.remove_queues(broker_name, topic)));
        }
    }

    /// Takes writing away from all topics of a broker; returns how many. It stays so until the broker changes a topic.
    pub(super) fn wipe_write_permission(&self, _: &Changing<'_>, broker_name: &str) -> usize {
        self.change_permissions(broker_name, |permission| permission & !PERMISSION_WRITE)
    }

    /// Gives reading and writing back to all topics of a broker; returns how many.
    pub(super) fn add_write_permission(&self, _: &Changing<'_>, broker_name: &str) -> usize {
        self.change_permissions(broker_name, |_| PERMISSION_READ | PERMISSION_WRITE)
    }

    fn change_permissions(&self, broker_name: &str, change: fn(u32) -> u32) -> usize {
        let topics = self.state.read().registry.topics_of(broker_name);
        for piece in topics.chunks(PIECE) {
            self.piece(|state| state.registry.change_permissions(broker_name, piece, change));
        }
        topics.len()
    }

    /// Registers one topic on brokers that are known already.
    pub(super) fn register_topic(&self, _: &Changing<'_>, topic: &str, queues: &[QueueData]) -> Result<(), Refusal> {
        self.piece(|state| state.registry.register_topic(topic, queues))
    }

    /// Forgets a topic, in one cluster or everywhere. A broker that still has it brings it back.
    pub(super) fn delete_topic(&self, _: &Changing<'_>, topic: &str, cluster: Option<&str>) {
        self.piece(|state| state.registry.delete_topic(topic, cluster));
    }

    /// A connection is gone, and with it every broker whose last registration came on it.
    pub(super) fn connection_closed(&self, connection: ConnectionId) {
        let changing = self.change();
        self.drop_connection(&changing, connection);
    }

    /// The same, if it takes no time; `false` if it is to be done away from the network threads.
    pub(super) fn connection_closed_here(&self, connection: ConnectionId) -> bool {
        let state = self.state.read();
        let keys = state.registry.on_connection(connection);
        let is_little = state.registry.topic_count_of(&keys) <= TOPICS_HERE_MAX;
        drop(state);
        if keys.is_empty() {
            return true;
        }
        let Some(changing) = self.try_change().filter(|_| is_little) else { return false };
        self.drop_connection(&changing, connection);
        true
    }

    fn drop_connection(&self, changing: &Changing<'_>, connection: ConnectionId) {
        let keys = self.state.read().registry.on_connection(connection);
        for key in keys {
            self.drop_process(changing, &key);
        }
    }

    fn drop_process(&self, changing: &Changing<'_>, key: &LiveKey) -> Option<Expired> {
        let (name, address) = self.piece(|state| state.registry.forget(key))?;
        let lowest_id_change = self.remove_address(changing, &name, &address);
        Some(Expired { broker_name: name.to_string(), address, lowest_id_change })
    }

    /// Drops brokers that were silent for too long, and says which were dropped since this was last asked, for the log.
    /// Their connections stay: one that is dead is closed for being idle.
    pub fn expire(&self, now: Now) -> Vec<Expired> {
        self.scan(now);
        std::mem::take(&mut self.state.write().expired)
    }

    pub(super) fn scan(&self, now: Now) {
        self.put_off_scan(now);
        let changing = self.change();
        let silent = self.state.read().registry.silent(now);
        self.drop_silent(&changing, &silent, now);
    }

    /// The same, if it takes no time; `false` if it is to be done away from the network threads.
    pub(super) fn scan_here(&self, now: Now) -> bool {
        // Who comes next need not look.
        self.put_off_scan(now);
        let state = self.state.read();
        let silent = state.registry.silent(now);
        let is_little = state.registry.topic_count_of(&silent) <= TOPICS_HERE_MAX;
        drop(state);
        if silent.is_empty() {
            return true;
        }
        let Some(changing) = self.try_change().filter(|_| is_little) else { return false };
        self.drop_silent(&changing, &silent, now);
        true
    }

    pub(super) fn is_scan_due(&self, now: Now) -> bool {
        now.monotonic >= self.state.read().scan_due_at
    }

    fn put_off_scan(&self, now: Now) {
        self.piece(|state| state.scan_due_at = now.monotonic.plus_ms(state.options.scan_interval_ms));
    }

    fn drop_silent(&self, changing: &Changing<'_>, silent: &[LiveKey], now: Now) {
        for key in silent {
            // It may have been heard of while others were dropped.
            if !self.state.read().registry.is_silent(key, now) {
                continue;
            }
            let dropped = self.drop_process(changing, key);
            self.piece(|state| {
                let has_room = state.expired.len() < BROKERS_MAX;
                state.expired.extend(dropped.filter(|_| has_room));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use base::session::Session as _;
    use base::{Monotonic, Timestamp};
    use bytes::BytesMut;
    use wire::rocketmq::code::request;
    use wire::rocketmq::field::FieldSink;
    use wire::rocketmq::frame::{self, Form};

    use super::super::key_values::KeyValues;
    use super::super::options::Options;
    use super::super::{KeyValueFile, NameServer};
    use super::*;
    use crate::spoken_header;

    const START: Now = Now { wall: Timestamp(1_700_000_000_000), monotonic: Monotonic(1_000_000) };

    struct NoFile;

    impl KeyValueFile for NoFile {
        fn replace(&self, _: &str) -> Result<(), String> {
            Ok(())
        }
    }

    fn ask(code: i32, fields: &[(&str, &str)]) -> BytesMut {
        let write = |sink: &mut FieldSink<'_>| fields.iter().for_each(|(name, value)| sink.text(name, value));
        let mut out = BytesMut::new();
        frame::encode(&mut out, Form::Json, &spoken_header(code, 1, 0), write, b"");
        out
    }

    /// Each of these would have to wait for the change that is being made: none does so on the thread that asks.
    #[test]
    fn nobody_waits_for_a_change_on_a_network_thread() {
        let server = NameServer::new(Options::default(), KeyValues::default(), Box::new(NoFile), START);
        let fields = [
            ("brokerName", "b-a"),
            ("brokerAddr", "127.0.0.1:10911"),
            ("clusterName", "c"),
            ("haServerAddr", "127.0.0.1:10912"),
            ("brokerId", "0"),
        ];
        let mut session = server.session(Waker::noop().clone());
        session.receive(&mut ask(request::REGISTER_BROKER, &fields), START).expect("a frame");
        assert!(!session.output().take_all().is_empty(), "nothing is in the way");
        let changing = server.change();
        // Its time is over; the connection closes; it says that it goes.
        let mut other = server.session(Waker::noop().clone());
        other
            .receive(&mut ask(request::GET_ROUTE_BY_TOPIC, &[("topic", "t")]), START.plus_ms(200_000))
            .expect("a frame");
        assert!(!other.output().take_all().is_empty(), "routes are told meanwhile");
        other.receive(&mut ask(request::UNREGISTER_BROKER, &fields), START).expect("a frame");
        assert!(other.output().is_empty() && other.is_busy());
        session.closed(START);
        drop(changing);
        assert_eq!(server.summary().brokers, 1);
        session.take_job().expect("to forget it")();
        assert_eq!(server.summary().brokers, 0);
        std::iter::from_fn(|| other.take_job()).for_each(|job| job());
        other.wake(START);
        assert!(!other.output().is_empty());
    }
}
