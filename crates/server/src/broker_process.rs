//! One broker of the process: its store, its threads, its port, its registration at the name servers.
//!
//! **Owns** a broker from the opening of its directory to its last sync. The brokers of a process share only the network threads, the
//! console and the name server, so that a failed disk affects one broker alone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Now;
use base::metric::Metrics;
use broker::{Broker, Mailbox, Surroundings};
use dialect::amqp::{AmqpOptions, AmqpSession};
use dialect::rocketmq::{RocketSession, SessionOptions};
use settings::{OneBroker, Settings};
use storage::{Recovery, StorageError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::background::{Background, BrokerHost};
use crate::broker_options;
use crate::brokers::{AmqpPorts, Ports};
use crate::clock;
use crate::directories;
use crate::disk_watch::DiskWatch;
use crate::drive::{Drive, Stop};
use crate::error::StartError;
use crate::following::{Follower, MasterWatch};
use crate::jobs::Jobs;
use crate::net;
use crate::registration::Registrar;
use crate::replication::ReplicationPort;
use crate::supervision::Supervisor;
use crate::tls::{self, Connector};

/// Recovery logs its progress if it takes longer than this.
const SILENT_RECOVERY: Duration = Duration::from_secs(1);

/// How often refused requests are logged.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct BrokerProcess {
    settings: Settings,
    pub(crate) broker: Arc<Broker>,
    /// Taken by `serve`.
    listener: Option<TcpListener>,
    /// The same.
    amqp: AmqpPorts,
    /// The same.
    replication: Option<ReplicationPort>,
    /// Where replicas connect.
    replication_port: u16,
    /// The address that clients are told to connect to.
    address: String,
    session_options: Arc<SessionOptions>,
    host: Arc<BrokerHost>,
    background: Background,
    supervisor: Supervisor,
    jobs: Jobs,
    connector: Connector,
    /// Where the master of a slave is.
    master: Arc<MasterWatch>,
    /// Names the broker in log lines, if there are several.
    span: Span,
    /// Dropped last: what closes the directory may find a disk that hangs.
    _disk_watch: DiskWatch,
}

impl BrokerProcess {
    /// Opens the store, with recovery if necessary, and starts the threads, in the current tracing span. Blocks.
    pub(crate) fn open(
        one: OneBroker,
        session_options: Arc<SessionOptions>,
        Ports { clients: listener, replicas: replication, amqp }: Ports,
        supervisor: &Supervisor,
        queue_files_max: usize,
    ) -> Result<Self, StartError> {
        let OneBroker { position, settings } = one;
        let (address, store_host) = broker_options::advertised_address(&settings, net::local(&listener).port())?;
        let connector = tls::connector(&settings.tls)?;
        let host = Arc::new(BrokerHost::default());
        let metrics = Arc::new(Metrics::default());
        let mut store_options = broker_options::store_options(&settings);
        store_options.open_queue_files = store_options.open_queue_files.min(queue_files_max);
        let now = clock::now();
        let seed = now.wall.0 ^ u64::from(std::process::id()) << 32;
        let options = broker_options::broker_options(&settings, store_host);
        let surroundings = Surroundings { metrics, host: host.clone(), seed };
        // Before anything is read: a disk that hangs now is told of, too.
        let disk_watch = DiskWatch::start(store_options.disk.clone(), supervisor).map_err(StartError::Threads)?;
        let broker = Arc::new(open_broker(options, store_options, surroundings, now)?);
        directories::record_position(&settings.storage.directory, position)?;
        let background = Background::start(
            &broker,
            &host,
            settings.storage.flush_interval,
            broker_options::intervals(&settings),
            supervisor,
        );
        Ok(Self {
            broker,
            listener: Some(listener),
            amqp,
            replication_port: replication.as_ref().map_or_else(|| settings.replication_port(), ReplicationPort::port),
            replication,
            address,
            session_options,
            host,
            background: background.map_err(StartError::Threads)?,
            supervisor: supervisor.clone(),
            jobs: Jobs::default(),
            connector,
            master: Arc::new(MasterWatch::new(settings.replication.master.first().cloned())),
            span: Span::current(),
            settings,
            _disk_watch: disk_watch,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.broker.name
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.settings.storage.directory
    }

    /// Accepts clients and registers. Returns text about its ports, once clients of `own_name_server` can find the broker.
    pub(crate) async fn serve(&mut self, own_name_server: Option<&str>, drive: &Drive) -> String {
        let Some(listener) = self.listener.take() else { return String::new() };
        let mut ports = net::local(&listener).to_string();
        self.accept(listener, drive);
        let (host, backlog) = (&self.settings.listen.host, self.settings.server.backlog);
        let old_port = self.settings.rocketmq.old_client_port();
        match old_port.map(|port| net::listen(host, port, backlog, "rocketmq.port")) {
            Some(Ok(listener)) => {
                ports.push_str(&format!(" (and {} for old clients)", net::local(&listener).port()));
                self.accept(listener, drive);
            }
            Some(Err(error)) => tracing::warn!(%error, "clients of RocketMQ 4.4 and before will not find their port"),
            None => {}
        }
        ports.push_str(&self.serve_amqp(drive));
        if let Some(replication) = self.replication.take() {
            let drive = Drive { jobs: self.jobs.clone(), ..drive.clone() };
            let serving = replication.serve(self.broker.clone(), drive).instrument(self.span.clone());
            self.supervisor.spawn("replicas", serving);
        }
        if self.broker.follows() {
            self.supervisor.spawn("following", self.follower(drive).run().instrument(self.span.clone()));
        }
        let telling = tell_refused(self.broker.clone(), drive.stop.clone()).instrument(self.span.clone());
        self.supervisor.spawn("refused requests", telling);
        self.register(own_name_server, drive).await;
        ports
    }

    fn accept(&self, listener: TcpListener, drive: &Drive) {
        let drive = Drive { jobs: self.jobs.clone(), ..drive.clone() };
        let (broker, options) = (self.broker.clone(), self.session_options.clone());
        let begin = move |waker, peer| {
            RocketSession::new(broker.clone(), Mailbox::new(waker), options.clone(), net::canonical(peer))
        };
        self.supervisor.spawn("clients", drive.serve(listener, begin));
    }

    /// Accepts clients of AMQP. Returns text about its ports.
    fn serve_amqp(&mut self, drive: &Drive) -> String {
        let AmqpPorts { either, tls } = std::mem::take(&mut self.amqp);
        // One for both: a request that came in at one port may be answered at the other.
        let options = broker_options::amqp_options(&self.settings);
        let mut ports = String::new();
        if let Some(listener) = either {
            ports.push_str(&format!(", AMQP {}", net::local(&listener)));
            self.accept_amqp(listener, options.clone(), drive.clone());
        }
        if let Some(listener) = tls {
            ports.push_str(&format!(", AMQP with TLS {}", net::local(&listener)));
            self.accept_amqp(listener, options, Drive { tls: Arc::new(drive.tls.demanding()), ..drive.clone() });
        }
        ports
    }

    fn accept_amqp(&self, listener: TcpListener, options: Arc<AmqpOptions>, drive: Drive) {
        let (broker, drive) = (self.broker.clone(), Drive { jobs: self.jobs.clone(), ..drive });
        let begin = move |waker, peer| {
            AmqpSession::new(broker.clone(), Mailbox::new(waker), options.clone(), net::canonical(peer))
        };
        self.supervisor.spawn("AMQP clients", drive.serve(listener, begin));
    }

    fn follower(&self, drive: &Drive) -> Follower {
        Follower {
            broker: self.broker.clone(),
            master: self.master.clone(),
            announcements: self.host.announcements.clone(),
            times: broker_options::replication_times(&self.settings),
            stop: drive.stop.clone(),
            drive: Drive { jobs: self.jobs.clone(), traffic: Arc::default(), ..drive.clone() },
            connector: self.connector.clone(),
        }
    }

    async fn register(&self, own_name_server: Option<&str>, drive: &Drive) {
        let registrar = Registrar {
            broker: self.broker.clone(),
            announcements: self.host.announcements.clone(),
            identity: Arc::new(broker_options::identity(&self.settings, &self.address, self.replication_port)),
            times: broker_options::registration_times(&self.settings),
            stop: drive.stop.clone(),
            drive: Drive { jobs: self.jobs.clone(), traffic: Arc::default(), ..drive.clone() },
            connector: self.connector.clone(),
            master: self.master.clone(),
        };
        let name_servers = &self.settings.broker.name_servers;
        for name_server in name_servers {
            let registering = registrar.clone().run(name_server.clone(), oneshot::channel().0);
            self.supervisor.spawn("registration", registering.instrument(self.span.clone()));
        }
        match own_name_server {
            Some(name_server) => {
                let (first, registered) = oneshot::channel();
                let registrar = Registrar { connector: Connector::Own(drive.tls.own()), ..registrar };
                let registering = registrar.run(name_server.to_owned(), first);
                self.supervisor.spawn("registration", registering.instrument(self.span.clone()));
                let _ = registered.await;
            }
            None if name_servers.is_empty() => tracing::warn!(
                "no name server is given: clients that ask one will not find this broker; name it with -n HOST:PORT (broker.name_servers)"
            ),
            None => {}
        }
    }

    /// Stops the threads and makes everything durable. Blocks.
    ///
    /// If a thread panicked, only offsets are saved and the directory is left as by a killed process: acknowledged messages are in the
    /// log, and the next start recovers them instead of trusting what that thread left in memory.
    pub(crate) fn stop(self) -> Result<(), StorageError> {
        let _marked = self.span.enter();
        if self.background.stop() {
            return self.broker.close(clock::now());
        }
        tracing::warn!(
            "a thread of the broker panicked: its directory is left as after a kill, and read again at the next start"
        );
        self.broker.save(clock::now())
    }
}

fn open_broker(
    options: broker::Options,
    store: storage::Options,
    surroundings: Surroundings,
    now: Now,
) -> Result<Broker, StorageError> {
    let started = Instant::now();
    let mut shown = Instant::now();
    let (broker, recovery) = Broker::open(options, store, surroundings, now, &mut |progress| {
        if started.elapsed() > SILENT_RECOVERY && shown.elapsed() > SILENT_RECOVERY {
            shown = Instant::now();
            tracing::info!(
                done_bytes = progress.done,
                total_bytes = progress.total,
                "reading the log after an unclean stop"
            );
        }
    })?;
    report(&recovery, started.elapsed());
    Ok(broker)
}

fn report(recovery: &Recovery, took: Duration) {
    if !recovery.was_clean {
        tracing::info!(
            records = recovery.records,
            truncated_bytes = recovery.truncated_bytes,
            took_ms = took.as_millis() as u64,
            "the last process did not stop in good order; recovered"
        );
    }
    if recovery.truncated_bytes > 0 {
        tracing::warn!(
            bytes = recovery.truncated_bytes,
            "the end of the log was unfinished and is truncated: what a kill or a power cut has interrupted, unless a file was damaged since"
        );
    }
    for path in &recovery.set_aside {
        tracing::error!(path = %path.display(), "a whole log segment lies after unfinished bytes; it is moved aside, not removed");
    }
    for path in &recovery.unusable {
        tracing::warn!(path = %path.display(), "a file of queue entries or keys has the wrong size, or cannot be read; it is moved aside and made again from the log");
    }
    if recovery.entries_made_again {
        tracing::info!(records = recovery.records, "all queue entries were made again from the log");
    }
}

/// Logs refused requests, each kind at most once a minute.
async fn tell_refused(broker: Arc<Broker>, mut stop: Stop) {
    loop {
        for told in broker.refused().take_due() {
            let (request, answer) = (told.kind.request, told.kind.answer);
            tracing::warn!(
                request,
                code = told.code,
                answer,
                count = told.count,
                from = told.from,
                remark = told.remark,
                "requests refused"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(TELL_INTERVAL) => {}
            _ = stop.changed() => return,
        }
    }
}
