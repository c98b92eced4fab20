//! Has a slave's broker follow its master, over two connections: one to the master's port for clients, for its tables, and one to its port
//! for replicas, for its log. What is said there is the business of `cluster::replication`.
//!
//! The log is asked for once the tables have come: what a Sluice master's tables do not have its log tells of from there on.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::session::Session;
use base::{LogOffset, Monotonic, Now, QueueId};
use broker::{Broker, Unknown};
use bytes::{Bytes, BytesMut};
use cluster::registration::RegisterAnswer;
use cluster::replication::{
    FollowerLog, FollowerSession, FollowerState, MasterSession, Newest, Owed, Place, Settled, Times,
};
use format::master_tables::MasterTables;
use format::state_documents::StateDocuments;
use parking_lot::Mutex;
use storage::schedule::WriteSchedule;
use tokio::sync::watch;

use crate::announcements::Announcements;
use crate::clock;
use crate::drive::{Drive, Stop};
use crate::tls::Connector;
use crate::wakeup::Wakeup;

/// Pause before a master that is gone is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The same for one that has answered nothing that helps.
const RETRY_INTERVAL_OF_REFUSED: Duration = Duration::from_secs(3);

/// How often the same trouble is told, ms.
const TELL_INTERVAL_MS: u64 = 60_000;

/// Time limit for opening a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Where a master is, `host:port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MasterAddress {
    /// Its port for clients.
    clients: Option<String>,
    /// Its port for replicas.
    log: Option<String>,
}

/// What is known of where the master is.
#[derive(Debug)]
pub(crate) struct MasterWatch {
    address: watch::Sender<MasterAddress>,
    /// Where its log is, if the settings say it.
    log: Option<String>,
}

impl MasterWatch {
    pub(crate) fn new(log: Option<String>) -> Self {
        Self { address: watch::Sender::default(), log }
    }

    /// A name server has answered the slave's registration.
    pub(crate) fn note(&self, answer: &RegisterAnswer) {
        let RegisterAnswer { ha_address, master_address, .. } = answer;
        let Some(clients) = master_address else { return };
        let found = MasterAddress { clients: Some(clients.clone()), log: self.log.clone().or(ha_address.clone()) };
        self.address.send_if_modified(|known| {
            let is_new = *known != found;
            *known = found;
            is_new
        });
    }
}

/// A slave that follows.
#[derive(Clone)]
pub(crate) struct Follower {
    pub(crate) broker: Arc<Broker>,
    pub(crate) master: Arc<MasterWatch>,
    pub(crate) announcements: Arc<Announcements>,
    pub(crate) drive: Drive,
    pub(crate) times: Times,
    /// How the master's port for clients is connected to. TLS is not spoken on the one for replicas.
    pub(crate) connector: Connector,
    pub(crate) stop: Stop,
}

impl Follower {
    /// Follows until the process stops.
    pub(crate) async fn run(self) {
        let followed = Arc::new(Followed {
            broker: self.broker.clone(),
            masters: watch::Sender::default(),
            writing: Mutex::default(),
        });
        tokio::join!(self.clone().ask(followed.clone()), self.follow(followed));
    }

    /// Asks for tables, again and again.
    async fn ask(mut self, followed: Arc<Followed>) {
        let mut trouble = Trouble::new("the master's tables");
        let mut address = self.master.address.subscribe();
        while !*self.stop.borrow() {
            let Some(clients) = address.borrow_and_update().clients.clone() else {
                self.pause(address.changed()).await;
                continue;
            };
            let (wakeup, waker) = Wakeup::new();
            let session = MasterSession::new(followed.clone(), waker);
            let problem = self.talk(&self.connector.clone(), &clients, session, &wakeup).await;
            let was_ready = followed.masters.send_replace(None).is_some();
            let pause = trouble.tell(&clients, &problem, was_ready);
            self.pause(tokio::time::sleep(pause)).await;
        }
    }

    /// Follows the log, whenever tables have come.
    async fn follow(mut self, followed: Arc<Followed>) {
        let mut trouble = Trouble::new("the master's log");
        let mut masters = followed.masters.subscribe();
        let mut address = self.master.address.subscribe();
        while !*self.stop.borrow() {
            let (part, log) = (masters.borrow_and_update().clone(), address.borrow_and_update().log.clone());
            let (Some(part), Some(log)) = (part, log) else {
                let either = async {
                    tokio::select! {
                        _ = masters.changed() => {}
                        _ = address.changed() => {}
                    }
                };
                self.pause(either).await;
                continue;
            };
            let (wakeup, waker) = Wakeup::new();
            let before = followed.broker.following.end();
            let is_unseen = part.start == before && before > LogOffset(0);
            let session = FollowerSession::new(followed.clone(), part, self.times, waker, clock::monotonic());
            if trouble.is_over() {
                tracing::info!(master = log, end = before.0, "the master's log is followed");
            }
            if is_unseen {
                tracing::warn!(
                    master = log,
                    end = before.0,
                    "the master's log begins where this one ends: there is nothing to compare, and it is taken for what follows"
                );
            }
            let problem = self.talk(&Connector::Plain, &log, session, &wakeup).await;
            let pause = trouble.tell(&log, &problem, followed.broker.following.end() > before);
            // Name servers are to show this broker in its place, and know where it is next.
            self.announcements.note_change();
            self.pause(tokio::time::sleep(pause)).await;
        }
    }

    /// Holds a conversation over one connection. Gives why it has ended.
    async fn talk(&mut self, connector: &Connector, address: &str, session: impl Session, wakeup: &Wakeup) -> String {
        let mut connected = match tokio::time::timeout(CONNECT_LIMIT, connector.connect(address, session)).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(problem)) => return problem,
            Err(_) => return "no connection".to_owned(),
        };
        self.drive.converse(&mut connected.socket, &mut connected.session, wakeup).await.to_string()
    }

    async fn pause<T>(&mut self, wait: impl Future<Output = T>) {
        tokio::select! {
            _ = wait => {}
            _ = self.stop.changed() => {}
        }
    }
}

/// Tells of what goes wrong, now and then.
struct Trouble {
    what: &'static str,
    told_at: Option<Monotonic>,
}

impl Trouble {
    const fn new(what: &'static str) -> Self {
        Self { what, told_at: None }
    }

    /// Whether nothing has gone wrong since it last went well.
    const fn is_over(&self) -> bool {
        self.told_at.is_none()
    }

    /// A conversation has ended. Gives how long to wait before the next.
    fn tell(&mut self, master: &str, problem: &str, had_gone_well: bool) -> Duration {
        let (what, now) = (self.what, clock::monotonic());
        let is_news = self.told_at.is_none_or(|told_at| now.ms_since(told_at) >= TELL_INTERVAL_MS);
        if had_gone_well || is_news {
            tracing::warn!(master, problem, "{what} cannot be had; trying again");
            self.told_at = Some(now);
        } else {
            tracing::debug!(master, problem, "{what} still cannot be had");
        }
        if had_gone_well {
            self.told_at = None;
            return RETRY_INTERVAL;
        }
        RETRY_INTERVAL_OF_REFUSED
    }
}

/// A slave's broker, to the sessions.
struct Followed {
    broker: Arc<Broker>,
    /// The part of its log that the master has, once the tables have come.
    masters: watch::Sender<Option<Range<LogOffset>>>,
    writing: Mutex<WriteSchedule>,
}

impl FollowerLog for Followed {
    fn kept(&self) -> LogOffset {
        self.broker.following.kept()
    }

    fn tail(&self, size: usize) -> Result<(LogOffset, Bytes), String> {
        self.broker.following.tail(size).map_err(|error| error.to_string())
    }

    fn lend_buffer(&self, size: usize) -> BytesMut {
        self.broker.store().lend_buffer(size)
    }

    fn take_buffer_back(&self, rest: BytesMut, used: usize) {
        self.broker.store().take_buffer_back(rest, used);
    }

    fn append(&self, start: LogOffset, pieces: &[Bytes]) -> Result<LogOffset, String> {
        self.broker.following.append(start, pieces).map_err(|error| error.to_string())
    }

    fn try_append(&self, start: LogOffset, pieces: &[Bytes]) -> Option<Result<LogOffset, String>> {
        let began = clock::monotonic();
        let mut writing = self.writing.lock();
        let appended = writing.writes_here(began).then(|| self.broker.following.append_little(start, pieces))??;
        if WriteSchedule::was_blocked(began, clock::monotonic()) {
            writing.note_blocked(began);
        }
        Some(appended.map_err(|error| error.to_string()))
    }

    fn note_sent(&self, sent: LogOffset, now: Now) {
        self.broker.following.note_sent(sent, now);
    }
}

impl FollowerState for Followed {
    fn end(&self) -> LogOffset {
        self.broker.following.end()
    }

    fn newest(&self) -> Result<Option<Newest>, String> {
        let newest = self.broker.following.newest().map_err(|error| error.to_string())?;
        Ok(newest.map(|(start, record)| Newest { start, record }))
    }

    fn owed(&self, tables: &StateDocuments) -> Owed {
        let Unknown { groups, offsets } = self.broker.following.unknown_to(tables);
        let settled = |(topic, group, queue, offset): (String, String, u32, i64)| {
            // Of a queue that cannot be read now nothing is told in this round.
            let newest = self.broker.following.newest_in(&topic, QueueId(queue)).ok()?;
            let newest = newest.map(|(queue_offset, log_offset)| Place { queue_offset, log_offset });
            Some(Settled { topic, group, queue, offset, newest })
        };
        Owed { groups, offsets: offsets.into_iter().filter_map(settled).collect() }
    }

    fn note_told(&self, told: &[Settled]) -> Result<(), String> {
        let told = told.iter().map(|told| (&*told.topic, &*told.group, told.queue, told.offset));
        self.broker.note_told(told).map_err(|refusal| refusal.to_string())
    }

    fn take_tables(&self, tables: MasterTables) -> Result<(), String> {
        self.broker.take_tables(tables, clock::now()).map_err(|refusal| refusal.to_string())
    }

    fn note_ready(&self, masters: Range<LogOffset>) {
        self.masters.send_if_modified(|known| {
            let is_new = known.is_none();
            *known = Some(masters);
            is_new
        });
    }
}
