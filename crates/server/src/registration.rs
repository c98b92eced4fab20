//! Keeps the broker registered at all name servers, over one connection each. It stays open: a name server drops the broker when it
//! closes. What is said there is the business of `cluster::registration`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Monotonic, Timestamp};
use broker::{Broker, QueuesAt};
use cluster::registration::{Identity, RegisterAnswer, Registrant, RegistrationSession, Times};
use format::document::{TopicTableDocument, bits_of, permission_of};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use wire::rocketmq::body::route::TopicRouteData;

use crate::announcements::{Announcements, Slot};
use crate::drive::{Drive, Stop};
use crate::following::MasterWatch;
use crate::tls::Connector;
use crate::wakeup::Wakeup;

/// Pause before an unreachable name server is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The broker's permission that restricts no topic.
const READ_AND_WRITE: u32 = 0b110;

#[derive(Clone)]
pub(crate) struct Registrar {
    pub(crate) broker: Arc<Broker>,
    pub(crate) announcements: Arc<Announcements>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) times: Times,
    pub(crate) stop: Stop,
    pub(crate) drive: Drive,
    pub(crate) connector: Connector,
    /// Hears where the master is, if this broker is a slave.
    pub(crate) master: Arc<MasterWatch>,
}

impl Registrar {
    /// Registers at `address` until the process stops; signals `first` after the first success.
    pub(crate) async fn run(mut self, address: String, first: oneshot::Sender<()>) {
        // A session that takes its leave ends by itself; until then it is driven on.
        let (_never, never) = watch::channel(false);
        self.drive.stop = never;
        let registration = Arc::new(Registration::new(&self, address, first));
        while !*self.stop.borrow() {
            let problem = self.stay_registered(&registration).await;
            registration.slot.is_lost();
            if registration.is_leaving() || *self.stop.borrow() {
                return;
            }
            registration.tell_lost(&problem);
            tokio::select! {
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
                _ = self.stop.changed() => {}
            }
        }
    }

    /// Registers over one connection. Gives why it has ended.
    async fn stay_registered(&mut self, registration: &Arc<Registration>) -> String {
        let (wakeup, waker) = Wakeup::new();
        let session = RegistrationSession::new(registration.clone(), self.identity.clone(), self.times, waker.clone());
        let connecting = self.connector.connect(&registration.address, session);
        let connecting = tokio::time::timeout(Duration::from_millis(self.times.timeout_ms), connecting);
        let connected = tokio::select! {
            connected = connecting => connected,
            // It has nobody to take its leave of.
            _ = self.stop.wait_for(|is_stopping| *is_stopping) => return "the broker stops".to_owned(),
        };
        let mut connected = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(problem)) => return problem,
            Err(_) => return "no answer".to_owned(),
        };
        registration.slot.wake_by(waker.clone());
        let mut conversation =
            std::pin::pin!(self.drive.converse(&mut connected.socket, &mut connected.session, &wakeup));
        tokio::select! {
            end = &mut conversation => return end.to_string(),
            _ = self.stop.wait_for(|is_stopping| *is_stopping) => {}
        }
        registration.leaves.store(true, Ordering::Release);
        waker.wake();
        conversation.await.to_string()
    }
}

/// What the sessions with one name server, one after the other, ask and tell.
struct Registration {
    broker: Arc<Broker>,
    address: String,
    slot: Slot,
    leaves: AtomicBool,
    first: Mutex<Option<oneshot::Sender<()>>>,
    /// That it failed was told.
    has_failed: AtomicBool,
    master: Arc<MasterWatch>,
}

impl Registration {
    fn new(registrar: &Registrar, address: String, first: oneshot::Sender<()>) -> Self {
        registrar.broker.routes.note_asker();
        Self {
            broker: registrar.broker.clone(),
            address,
            slot: registrar.announcements.join(),
            leaves: AtomicBool::new(false),
            first: Mutex::new(Some(first)),
            has_failed: AtomicBool::new(false),
            master: registrar.master.clone(),
        }
    }

    fn tell_lost(&self, problem: &str) {
        let name_server = self.address.as_str();
        if self.has_failed.swap(true, Ordering::Relaxed) {
            tracing::debug!(name_server, problem, "still not registered");
        } else {
            tracing::warn!(name_server, problem, "cannot register at the name server; trying again");
        }
    }
}

impl Registrant for Registration {
    fn last_change(&self) -> u64 {
        self.slot.last_change()
    }

    fn topics(&self) -> TopicTableDocument {
        let (running, started) = (&self.broker.running, self.broker.started().wall);
        told(self.broker.catalog.topic_table(), bits_of(running.permission()), started.max(running.changed()))
    }

    fn is_leaving(&self) -> bool {
        self.leaves.load(Ordering::Acquire)
    }

    fn next_route(&self, now: Monotonic) -> Option<String> {
        self.broker.routes.next_wanted(now)
    }

    fn note_route(&self, topic: &str, route: Option<TopicRouteData>, now: Monotonic) {
        self.broker.routes.note(topic, route.map(readable), now);
    }

    fn note_told(&self, change: u64, answer: &RegisterAnswer) {
        self.slot.knows(change);
        self.master.note(answer);
        let name_server = self.address.as_str();
        let had_failed = self.has_failed.swap(false, Ordering::Relaxed);
        if let Some(first) = self.first.lock().take() {
            tracing::info!(name_server, "registered at the name server");
            let _ = first.send(());
        } else if had_failed {
            tracing::info!(name_server, "registered at the name server again");
        }
    }
}

/// What consumers may read of a topic, and where.
fn readable(route: TopicRouteData) -> Vec<QueuesAt> {
    let readable = route.queue_datas.into_iter().filter(|data| permission_of(data.perm).read);
    readable.map(|data| QueuesAt { broker: data.broker_name, count: data.read_queue_nums }).collect()
}

/// The topic table for name servers: each topic's permission restricted by `broker.permission`, so that producers do not choose a
/// broker that takes no messages.
///
/// Its version is unique to this process and setting, `since` when they are as they are: the setting may have changed, and a name server ignores a table whose
/// version it already has.
fn told(mut topics: TopicTableDocument, permission: u32, since: Timestamp) -> TopicTableDocument {
    let version = &mut topics.data_version;
    version.timestamp = version.timestamp.max(i64::try_from(since.0).unwrap_or(i64::MAX));
    if permission & READ_AND_WRITE != READ_AND_WRITE {
        topics.topic_config_table.values_mut().for_each(|topic| topic.perm &= permission);
    }
    topics
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::document::{DataVersion, TopicDocument};

    fn table(permission: u32, timestamp: i64) -> TopicTableDocument {
        let topic = TopicDocument { perm: permission, ..TopicDocument::default() };
        TopicTableDocument {
            data_version: DataVersion { counter: 7, timestamp, ..DataVersion::default() },
            topic_config_table: [("t".to_owned(), topic)].into(),
        }
    }

    #[test]
    fn name_servers_are_told_what_the_broker_leaves_of_each_permission() {
        for (of_topic, of_broker, expected) in
            [(6, 6, 6), (7, 6, 7), (6, 7, 6), (4, 6, 4), (6, 4, 4), (2, 4, 0), (7, 2, 2)]
        {
            let told = told(table(of_topic, 0), of_broker, Timestamp(0));
            assert_eq!(told.topic_config_table["t"].perm, expected, "{of_topic} of {of_broker}");
        }
    }

    #[test]
    fn the_version_is_never_one_that_the_process_before_has_told() {
        let told_at = |changed, started| told(table(6, changed), 6, Timestamp(started)).data_version;
        assert_eq!((told_at(1000, 5000).timestamp, told_at(1000, 5000).counter), (5000, 7));
        assert_eq!(told_at(6000, 5000).timestamp, 6000);
    }
}
