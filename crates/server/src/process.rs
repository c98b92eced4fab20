//! The life of the process: listen, open the brokers, serve, drain, stop.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use base::metric::Traffic;
use console::{Sources, Token};
use settings::{ClientAuth, Level, Loaded, Origin, Role, TlsMode};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::brokers::{Brokers, Listening};
use crate::clock;
use crate::console_thread;
use crate::drive::{Drive, Stop};
use crate::dump::Dump;
use crate::error::StartError;
use crate::files::{self, FileShares};
use crate::jobs::{JOBS_AT_ONCE_MAX, Jobs};
use crate::logging;
use crate::name_server_process;
use crate::net;
use crate::running::Running;
use crate::service_manager;
use crate::signals::{Asked, Signals};
use crate::supervision::Supervisor;
use crate::system_figures;
use crate::tls;

/// Runs the process until a signal or a failed part ends it. Returns once everything is durable.
pub fn run(origin: Origin, loaded: Loaded) -> Result<(), StartError> {
    let role = origin.role;
    let started = Instant::now();
    let traffic = Arc::new(Traffic::default());
    // Dropped last, so that the last lines are written.
    let log = &loaded.settings.log;
    let (_log, level) = logging::start(log.format, &log.level, traffic.clone()).map_err(StartError::Threads)?;
    for notice in &loaded.notices {
        match notice.level {
            Level::Info => tracing::info!("{notice}"),
            Level::Warning => tracing::warn!("{notice}"),
        }
    }
    let brokers = if role == Role::NameServer { 0 } else { loaded.settings.brokers().len() };
    let shares = FileShares::of(files::raise_limit(), brokers as u64);
    // Each thread has a heap, of which whole pieces of 2 MiB would be in memory for a few bytes.
    if let Err(error) = nix::sys::prctl::set_thp_disable(true) {
        tracing::debug!(%error, "transparent huge pages cannot be turned off");
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if loaded.settings.server.threads > 0 {
        builder.worker_threads(loaded.settings.server.threads);
    }
    // The bounds on jobs of each broker and of the name server, one thread per broker for its start and stop, one for name server chores,
    // one for certificates and one for settings that are read again.
    builder.max_blocking_threads(JOBS_AT_ONCE_MAX * (brokers + 1) + brokers + 3);
    let runtime = builder.enable_all().thread_name("network").build().map_err(StartError::Threads)?;
    let running = Arc::new(Running::new(origin, loaded.clone(), level));
    let process = Process { role, running, loaded, started, traffic, supervisor: Supervisor::default(), shares };
    runtime.block_on(process.serve())
}

struct Process {
    role: Role,
    running: Arc<Running>,
    /// The settings it was started with.
    loaded: Loaded,
    started: Instant,
    traffic: Arc<Traffic>,
    supervisor: Supervisor,
    shares: FileShares,
}

impl Process {
    async fn serve(self) -> Result<(), StartError> {
        let (settings, shares) = (&self.loaded.settings, self.shares);
        let (stopper, stop) = watch::channel(false);
        let (alive, mut ended) = mpsc::channel::<()>(1);
        let mut parts = Vec::new();
        let mut own_name_server = None;
        // Ports first: a port in use is the most common error, and should be found before any directory is touched.
        let name_server = match self.role {
            Role::Broker => None,
            _ => Some(self.listen(settings.nameserver.port, "nameserver.port")?),
        };
        let listening = match self.role {
            Role::NameServer => Listening::default(),
            _ => Listening::start(settings)?,
        };
        let console = self.listen(settings.console.port, "console.port")?;
        let token = settings.console.token_file.as_deref().map(token_of).transpose()?;
        let console_address = net::local(&console);
        // The console begins before there is anything to show, and keeps running while the process stops: it says why.
        let (opener, opened) = oneshot::channel();
        let (_console_stopper, console_stop) = watch::channel(false);
        console_thread::start(console, opened, shares.console as usize, console_stop, &self.supervisor)
            .map_err(StartError::Threads)?;
        self.supervisor.spawn("watchdog", service_manager::keep_telling());
        let drive = self.drive(stop.clone(), alive)?;
        if let Some(listener) = name_server {
            let address = net::local(&listener);
            parts.push(format!("name server {address}"));
            if self.role == Role::Serve {
                own_name_server = Some(net::reachable(address).to_string());
            }
            let server = name_server_process::open(settings)?;
            let sessions = server.clone();
            self.supervisor
                .spawn("name server", drive.clone().serve(listener, move |waker, _| sessions.session(waker)));
            let doing_chores = name_server_process::do_chores(server, settings.nameserver.scan_interval, stop.clone());
            self.supervisor.spawn("name server's chores", doing_chores);
        }
        let queue_files_max = shares.queues_of_store as usize;
        let mut brokers = listening.open(&self.running, queue_files_max, &self.supervisor).await?;
        self.running.set_brokers(brokers.shared());
        // Before this a signal kills the process, which is harmless as no client has been answered yet.
        let mut signals = Signals::listen().map_err(StartError::Signals)?;
        let dump = Dump { started: self.started, traffic: self.traffic.clone(), brokers: brokers.shared() };
        let served = tokio::select! {
            ports = brokers.serve(own_name_server.as_deref(), &drive) => Ok(ports),
            // Registration may hang while clients hold all connections of the process's own name server.
            why = self.reason_to_end(&mut signals, &dump) => Err(why),
        };
        let ending = Arc::new(OnceLock::new());
        match served {
            Ok(ports) => {
                parts.extend(ports);
                parts.push(format!("console http://{console_address}"));
                parts.extend(brokers.only_directory().map(|directory| format!("data {}", directory.display())));
                let _ = opener.send(self.sources(&brokers, token, ending.clone()));
                self.announce(&parts);
                let why = self.reason_to_end(&mut signals, &dump).await;
                service_manager::stopping(&why);
                let _ = ending.set(why);
            }
            Err(why) => tracing::warn!(why, "the process ends before it was ready"),
        }
        tracing::info!("stopping: answering what was received");
        let _ = stopper.send(true);
        drop(drive);
        self.drain(&mut ended, &mut signals, &dump).await;
        self.stop(brokers).await
    }

    /// What the console shows.
    fn sources(&self, brokers: &Brokers, token: Option<Token>, ending: Arc<OnceLock<String>>) -> Sources {
        Sources {
            traffic: self.traffic.clone(),
            brokers: brokers.shared(),
            settings: self.running.clone(),
            token,
            ending,
            process: system_figures::read,
            now: clock::now,
            names_max: self.loaded.settings.console.metric_names_max,
        }
    }

    fn drive(&self, stop: Stop, alive: mpsc::Sender<()>) -> Result<Drive, StartError> {
        let settings = &self.loaded.settings;
        let tls = tls::open(settings, self.traffic.clone())?;
        if let Some((files, texts)) = tls.watched {
            let keeping_current = tls::keep_current(tls.port.clone(), files, texts, stop.clone());
            self.supervisor.spawn("certificates", keeping_current);
        }
        Ok(Drive {
            traffic: self.traffic.clone(),
            stop,
            connections_max: self.shares.connections.min(settings.server.connections_max as u64),
            refusals_quiet_until: Arc::default(),
            jobs: Jobs::default(),
            budget: Arc::default(),
            tls: tls.port,
            _alive: alive,
        })
    }

    /// Waits for a reason to stop.
    async fn reason_to_end(&self, signals: &mut Signals, dump: &Dump) -> String {
        loop {
            tokio::select! {
                asked = signals.next() => match asked {
                    Asked::Stop => return "the process was asked to stop".to_owned(),
                    Asked::Dump => dump.start(),
                    Asked::ReadSettings => {
                        let running = self.running.clone();
                        drop(tokio::task::spawn_blocking(move || running.read_again()));
                    }
                },
                () = self.supervisor.failed() => return self.supervisor.failure().unwrap_or_default().to_owned(),
            }
        }
    }

    /// Waits until all connections have `ended`, the time limit, or a second signal to stop.
    async fn drain(&self, ended: &mut mpsc::Receiver<()>, signals: &mut Signals, dump: &Dump) {
        let limit = tokio::time::sleep(self.loaded.settings.server.drain_timeout);
        tokio::pin!(limit);
        loop {
            tokio::select! {
                _ = ended.recv() => return,
                () = &mut limit => {
                    tracing::warn!("some connections did not end in time (server.drain_timeout)");
                    return;
                }
                asked = signals.next() => match asked {
                    Asked::Stop => {
                        tracing::warn!("asked to stop once more: some connections are not waited for");
                        return;
                    }
                    Asked::Dump => dump.start(),
                    Asked::ReadSettings => {}
                },
            }
        }
    }

    async fn stop(&self, brokers: Brokers) -> Result<(), StartError> {
        brokers.stop().await?;
        if let Some(failure) = self.supervisor.failure() {
            return Err(StartError::Panicked(failure.to_owned()));
        }
        tracing::info!("stopped");
        Ok(())
    }

    fn listen(&self, port: u16, setting: &'static str) -> Result<TcpListener, StartError> {
        let settings = &self.loaded.settings;
        net::listen(&settings.listen.host, port, settings.server.backlog, setting)
    }

    /// Tells the service manager, and prints the ready line, which scripts wait for, on standard output. On its own thread, since a pipe that nobody reads blocks it
    /// forever, and the process has to work all the same.
    fn announce(&self, parts: &[String]) {
        let settings = &self.loaded.settings;
        let took_ms = self.started.elapsed().as_millis();
        let line = format!("sluice {} ready in {took_ms} ms: {}", env!("CARGO_PKG_VERSION"), parts.join(", "));
        service_manager::ready(&line);
        let printing = thread::Builder::new().name("ready-line".to_owned()).spawn(move || {
            if let Err(error) = writeln!(std::io::stdout(), "{line}") {
                tracing::warn!(%error, line, "the ready line cannot be printed");
            }
        });
        if let Err(error) = printing {
            tracing::warn!(%error, "the ready line cannot be printed");
        }
        let admits_only_known =
            settings.tls.mode() == TlsMode::Enforcing && settings.tls.client_auth == ClientAuth::Require;
        if !is_local(&settings.listen.host) && !admits_only_known {
            tracing::warn!(
                "listening on {}: anyone who reaches this address may read, write and administrate; nothing is authenticated",
                settings.listen.host
            );
        }
    }
}

/// The token in a file.
fn token_of(file: &Path) -> Result<Token, StartError> {
    let read = std::fs::read_to_string(file).map_err(|error| error.to_string());
    read.and_then(|text| Token::of(&text)).map_err(|why| StartError::Setting {
        name: "console.token_file",
        problem: format!("{}: {why}; `openssl rand -hex 32` makes a token", file.display()),
    })
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
