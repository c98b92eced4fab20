//! The story of the process: listen, open, serve, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use base::metric::Metrics;
use broker::{Broker, Mailbox};
use console::Sources;
use dialect::rocketmq::{RocketSession, SessionOptions};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::background::{Background, Bells};
use crate::bell::Bell;
use crate::broker_process;
use crate::drive::{Drive, Stop};
use crate::error::StartError;
use crate::name_server_process;
use crate::net;
use crate::registration::Registrar;
use crate::settings::{Level, Loaded, Role};

/// Connections of official clients of 4.4 and before: they use the port two below (`vipChannelEnabled`).
pub(crate) const OLD_CLIENT_PORT_DISTANCE: u16 = 2;

/// Runs until a signal or `stop_when` asks to stop; returns when everything is on the disk.
pub fn run(role: Role, loaded: Loaded) -> Result<(), StartError> {
    let started = Instant::now();
    for notice in &loaded.notices {
        match notice.level {
            Level::Info => tracing::info!("{notice}"),
            Level::Warning => tracing::warn!("{notice}"),
        }
    }
    raise_file_limit();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if loaded.settings.server.threads > 0 {
        builder.worker_threads(loaded.settings.server.threads);
    }
    let runtime = builder.enable_all().thread_name("network").build().map_err(StartError::Threads)?;
    runtime.block_on(Process { role, loaded, started }.serve())
}

struct Process {
    role: Role,
    loaded: Loaded,
    started: Instant,
}

/// What the ready line names.
#[derive(Default)]
struct Ready {
    parts: Vec<String>,
}

impl Process {
    async fn serve(self) -> Result<(), StartError> {
        let settings = &self.loaded.settings;
        let (stopper, stop) = watch::channel(false);
        let metrics = Arc::new(Metrics::default());
        let (alive, mut ended) = mpsc::channel::<()>(1);
        let drive = Drive {
            metrics: metrics.clone(),
            stop: stop.clone(),
            idle_timeout: settings.rocketmq.idle_timeout,
            connections_max: settings.server.connections_max as u64,
            _alive: alive,
        };
        let mut ready = Ready::default();
        let mut own_name_server = None;
        // Ports first: a port in use is the most common problem, and found before anything is touched.
        let name_server = match self.role {
            Role::Broker => None,
            _ => Some(self.listen(settings.nameserver.port, "nameserver.port")?),
        };
        let rocketmq = match self.role {
            Role::NameServer => None,
            _ => Some(self.listen(settings.rocketmq.port, "rocketmq.port")?),
        };
        let console = self.listen(settings.console.port, "console.port")?;
        if let Some(listener) = name_server {
            let address = local(&listener);
            ready.parts.push(format!("name server {address}"));
            if self.role == Role::Serve {
                own_name_server = Some(reachable(address).to_string());
            }
            let server = name_server_process::open(settings)?;
            tokio::spawn(name_server_process::serve(server.clone(), listener, drive.clone()));
            tokio::spawn(name_server_process::do_chores(server, settings.clone(), stop.clone()));
        }
        let running = match rocketmq {
            Some(listener) => {
                let (broker, background, ports) =
                    self.start_broker(listener, own_name_server, &metrics, &drive).await?;
                ready.parts.push(format!("RocketMQ {ports}"));
                Some((broker, background))
            }
            None => None,
        };
        ready.parts.push(format!("console http://{}", local(&console)));
        let sources = Sources { metrics, broker: running.as_ref().map(|(broker, _)| broker.clone()) };
        tokio::spawn(serve_console(console, sources, stop.clone()));
        self.announce(&ready);
        wait_for_signal().await;
        tracing::info!("stopping: answering what was received");
        let _ = stopper.send(true);
        drop(drive);
        if tokio::time::timeout(settings.server.drain_timeout, ended.recv()).await.is_err() {
            tracing::warn!("some connections did not end in time (server.drain_timeout)");
        }
        if let Some((broker, background)) = running {
            tokio::task::block_in_place(|| {
                background.stop();
                broker.close(crate::clock::now())
            })?;
        }
        tracing::info!("stopped");
        Ok(())
    }

    fn listen(&self, port: u16, setting: &'static str) -> Result<TcpListener, StartError> {
        let settings = &self.loaded.settings;
        net::listen(&settings.listen.host, port, settings.server.backlog, setting)
    }

    async fn start_broker(
        &self,
        listener: TcpListener,
        own_name_server: Option<String>,
        metrics: &Arc<Metrics>,
        drive: &Drive,
    ) -> Result<(Arc<Broker>, Background, String), StartError> {
        let settings = &self.loaded.settings;
        let mut ports = local(&listener).to_string();
        let port = local(&listener).port();
        let (address, store_host) = broker_process::advertised_address(settings, port)?;
        let bells = Arc::new(Bells::default());
        let broker =
            tokio::task::block_in_place(|| broker_process::open(settings, store_host, metrics, bells.clone()))?;
        let background =
            Background::start(&broker, &bells, broker_process::intervals(settings)).map_err(StartError::Threads)?;
        let options = broker_process::session_options(settings, &self.loaded.effective);
        tokio::spawn(accept_clients(listener, broker.clone(), options.clone(), drive.clone()));
        let old_port = settings.rocketmq.port.checked_sub(OLD_CLIENT_PORT_DISTANCE).filter(|&port| port > 0);
        match old_port.map(|port| self.listen(port, "rocketmq.port")) {
            Some(Ok(listener)) => {
                ports.push_str(&format!(" (and {} for old clients)", local(&listener).port()));
                tokio::spawn(accept_clients(listener, broker.clone(), options, drive.clone()));
            }
            Some(Err(error)) => tracing::warn!(%error, "clients of RocketMQ 4.4 and before will not find their port"),
            None => {}
        }
        let registrar = Registrar {
            broker: broker.clone(),
            bells,
            identity: broker_process::identity(settings, &address),
            interval: settings.broker.registration_interval,
            timeout: settings.broker.registration_timeout,
            stop: drive.stop.clone(),
        };
        for name_server in &settings.broker.name_servers {
            tokio::spawn(registrar.clone().run(name_server.clone(), oneshot::channel().0));
        }
        match own_name_server {
            Some(name_server) => {
                let (first, registered) = oneshot::channel();
                tokio::spawn(registrar.run(name_server, first));
                // Clients that read the ready line find the broker at our own name server.
                let _ = registered.await;
            }
            None if settings.broker.name_servers.is_empty() => tracing::warn!(
                "no name server is given: clients that ask one will not find this broker; name it with -n HOST:PORT (broker.name_servers)"
            ),
            None => {}
        }
        Ok((broker, background, ports))
    }

    /// One line on standard output: whoever waits for the process waits for this.
    fn announce(&self, ready: &Ready) {
        let settings = &self.loaded.settings;
        let data = match self.role {
            Role::NameServer => String::new(),
            _ => format!(", data {}", settings.storage.directory.display()),
        };
        println!(
            "sluice {} ready in {} ms: {}{data}",
            env!("CARGO_PKG_VERSION"),
            self.started.elapsed().as_millis(),
            ready.parts.join(", ")
        );
        if !is_local(&settings.listen.host) {
            tracing::warn!(
                "listening on {}: anyone who reaches this address may read, write and administrate; nothing is authenticated",
                settings.listen.host
            );
        }
    }
}

async fn accept_clients(listener: TcpListener, broker: Arc<Broker>, options: Arc<SessionOptions>, drive: Drive) {
    let mut stop = drive.stop.clone();
    loop {
        tokio::select! {
            (socket, peer) = net::accept(&listener) => {
                if !drive.has_room(peer) {
                    continue;
                }
                let (bell, waker) = Bell::new();
                let session = RocketSession::new(broker.clone(), Mailbox::new(waker), options.clone(), canonical(peer));
                tokio::spawn(drive.clone().run(socket, session, bell, peer.to_string()));
            }
            _ = stop.changed() => return,
        }
    }
}

async fn serve_console(listener: TcpListener, sources: Sources, mut stop: Stop) {
    let stopped = async move {
        let _ = stop.changed().await;
    };
    if let Err(error) = console::serve(listener, sources, stopped).await {
        tracing::error!(%error, "the console ended");
    }
}

/// An IPv4 peer of an IPv6 socket is an IPv4 peer.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

fn local(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

/// An address to connect to, for one that was listened on.
fn reachable(listened: SocketAddr) -> SocketAddr {
    if listened.ip().is_unspecified() { SocketAddr::from(([127, 0, 0, 1], listened.port())) } else { listened }
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// As many open files as the system allows without asking: one for each connection and for each queue in use.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}
