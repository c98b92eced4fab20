//! The brokers of the process, one per data directory.
//!
//! Each is opened and stopped on its own thread, since each waits for its own disk. A process starts with all brokers or none: if one
//! cannot be opened, the others are stopped in an orderly way.

use std::path::Path;
use std::sync::Arc;

use broker::Broker;
use settings::{BrokerRole, OneBroker, Settings};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::Span;

use crate::broker_options;
use crate::broker_process::BrokerProcess;
use crate::directories;
use crate::drive::Drive;
use crate::error::StartError;
use crate::net;
use crate::replication::ReplicationPort;
use crate::running::Running;
use crate::supervision::Supervisor;

/// Brokers that listen, and whose directories are not opened yet.
#[derive(Default)]
pub(crate) struct Listening(Vec<(OneBroker, Ports)>);

/// The ports of a broker.
pub(crate) struct Ports {
    /// For RocketMQ's clients.
    pub(crate) clients: TcpListener,
    /// For replicas.
    pub(crate) replicas: Option<ReplicationPort>,
    /// For AMQP's clients.
    pub(crate) amqp: AmqpPorts,
}

/// The ports for AMQP.
#[derive(Default)]
pub(crate) struct AmqpPorts {
    /// With TLS or without, as for RocketMQ's clients.
    pub(crate) either: Option<TcpListener>,
    /// With TLS alone.
    pub(crate) tls: Option<TcpListener>,
}

impl AmqpPorts {
    /// Of several brokers the first has them, and a slave serves nobody there.
    fn listen(one: &OneBroker) -> Result<Self, StartError> {
        let of = &one.settings;
        if one.position.is_some_and(|position| position != 1) || of.broker.role == BrokerRole::Slave {
            return Ok(Self::default());
        }
        let listen = |port: Option<u16>, setting| {
            port.map(|port| net::listen(&of.listen.host, port, of.server.backlog, setting)).transpose()
        };
        Ok(Self { either: listen(of.amqp.port, "amqp.port")?, tls: listen(of.amqp.tls_port, "amqp.tls_port")? })
    }
}

pub(crate) struct Brokers(Vec<BrokerProcess>);

impl Listening {
    /// Listens on the ports of each broker.
    pub(crate) fn start(settings: &Settings) -> Result<Self, StartError> {
        let brokers = settings.brokers();
        directories::check(&brokers)?;
        let several = brokers.len() > 1;
        let listen = |one: OneBroker| {
            let of = &one.settings;
            let listener = net::listen(&of.listen.host, of.rocketmq.port, of.server.backlog, "rocketmq.port");
            let ports = listener.and_then(|clients| {
                Ok(Ports { clients, replicas: ReplicationPort::listen(of)?, amqp: AmqpPorts::listen(&one)? })
            });
            match ports {
                Ok(ports) => Ok((one, ports)),
                Err(problem) => Err(problem.of(&of.broker.name, several)),
            }
        };
        brokers.into_iter().map(listen).collect::<Result<_, _>>().map(Self)
    }

    /// Opens all brokers, each with at most `queue_files_max` open queue files.
    pub(crate) async fn open(
        self,
        running: &Arc<Running>,
        queue_files_max: usize,
        supervisor: &Supervisor,
    ) -> Result<Brokers, StartError> {
        let several = self.0.len() > 1;
        let open_one = |(one, ports): (OneBroker, Ports)| {
            let session_options = broker_options::session_options(&one.settings, running);
            let name = one.settings.broker.name.clone();
            let span = if several { tracing::error_span!("broker", name) } else { Span::none() };
            let supervisor = supervisor.clone();
            spawn_blocking(move || {
                let opened =
                    span.in_scope(|| BrokerProcess::open(one, session_options, ports, &supervisor, queue_files_max));
                opened.map_err(|problem| problem.of(&name, several))
            })
        };
        let opening: Vec<_> = self.0.into_iter().map(open_one).collect();
        let (mut opened, mut problems) = (Vec::new(), Vec::new());
        for one in opening {
            match outcome(one).await {
                Ok(broker) => opened.push(broker),
                Err(problem) => problems.push(problem),
            }
        }
        let brokers = Brokers(opened);
        match problems.into_iter().next() {
            None => Ok(brokers),
            Some(problem) => {
                let _ = brokers.stop().await;
                Err(problem)
            }
        }
    }
}

impl Brokers {
    /// Serves and registers all brokers. Returns text about each for the ready line.
    pub(crate) async fn serve(&mut self, own_name_server: Option<&str>, drive: &Drive) -> Vec<String> {
        let several = self.0.len() > 1;
        let mut parts = Vec::new();
        for one in &mut self.0 {
            let ports = one.serve(own_name_server, drive).await;
            let (name, data) = (one.name(), one.directory().display());
            parts.push(if several {
                format!("{name} RocketMQ {ports} data {data}")
            } else {
                format!("RocketMQ {ports}")
            });
        }
        parts
    }

    /// The directory, if there is only one broker.
    pub(crate) fn only_directory(&self) -> Option<&Path> {
        if let [one] = &*self.0 { Some(one.directory()) } else { None }
    }

    /// The brokers, for console and dump.
    pub(crate) fn shared(&self) -> Vec<Arc<Broker>> {
        self.0.iter().map(|one| one.broker.clone()).collect()
    }

    /// Stops all brokers. An error of one does not keep the others from stopping.
    pub(crate) async fn stop(self) -> Result<(), StartError> {
        let stopping: Vec<_> = self.0.into_iter().map(|one| spawn_blocking(|| one.stop())).collect();
        let mut end = Ok(());
        for one in stopping {
            let outcome = outcome(one).await;
            if let (Err(_), Err(problem)) = (&end, &outcome) {
                tracing::error!(%problem, "another broker did not stop in good order");
            }
            end = end.and(outcome);
        }
        end
    }
}

/// The result of a blocking task; a panic becomes an error.
async fn outcome<T, E>(work: JoinHandle<Result<T, E>>) -> Result<T, StartError>
where
    StartError: From<E>,
{
    let ended = work.await.map_err(|error| StartError::Threads(error.into()))?;
    Ok(ended?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::Level;
    use settings::{Loaded, Origin, Role};

    fn loaded(directories: &[&Path]) -> Loaded {
        let texts: Vec<_> = directories.iter().map(|one| one.display().to_string()).collect();
        let mut set = vec![format!("storage.dirs={}", texts.join(";"))];
        for small in ["rocketmq.port=0", "storage.segment_size=64KiB", "storage.index_enabled=false"] {
            set.push(small.to_owned());
        }
        set.push("storage.tail_cache_size=1MiB".to_owned());
        Origin::new(Role::Broker, None, set, Vec::new()).load().expect("settings")
    }

    async fn open(loaded: &Loaded) -> Result<Brokers, StartError> {
        let origin = Origin::new(Role::Broker, None, Vec::new(), Vec::new());
        let running = Arc::new(Running::new(origin, loaded.clone(), Level::none()));
        Listening::start(&loaded.settings)?.open(&running, 256, &Supervisor::default()).await
    }

    #[tokio::test]
    async fn each_directory_has_a_broker_of_its_own_name() {
        let scratch = tempfile::tempdir().expect("directory");
        let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
        let brokers = open(&loaded(&[&one, &two])).await.expect("opens");
        let names: Vec<_> = brokers.shared().iter().map(|broker| broker.options().broker_name.clone()).collect();
        assert_eq!(names, ["broker-a", "broker-a-2"]);
        let hosts: Vec<_> = brokers.shared().iter().map(|broker| broker.options().store_host).collect();
        assert_ne!(hosts[0], hosts[1]);
        assert!(one.join("abort").exists() && two.join("abort").exists());
        brokers.stop().await.expect("stops");
        assert!(!one.join("abort").exists() && !two.join("abort").exists());
        let refused = open(&loaded(&[&two, &one])).await.map(drop).expect_err("they changed positions").to_string();
        assert!(refused.contains("position 1") && refused.contains("two/config/place.json"), "{refused}");
    }

    #[tokio::test]
    async fn if_one_cannot_be_opened_it_is_named_and_the_others_are_closed_in_good_order() {
        let scratch = tempfile::tempdir().expect("directory");
        let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
        std::fs::create_dir_all(two.join("config")).expect("makes");
        for name in ["topics.json", "topics.json.bak"] {
            std::fs::write(two.join("config").join(name), "nonsense").expect("writes");
        }
        let problem = open(&loaded(&[&one, &two])).await.map(drop).expect_err("it is damaged").to_string();
        assert!(problem.starts_with("broker-a-2: ") && problem.contains("two/config/topics.json"), "{problem}");
        assert!(one.join("checkpoint").exists() && !one.join("abort").exists());
    }

    #[tokio::test]
    async fn a_port_in_use_is_told_with_the_broker_and_nothing_is_touched() {
        let scratch = tempfile::tempdir().expect("directory");
        let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
        let mut loaded = loaded(&[&one, &two]);
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        loaded.settings.rocketmq.port = taken.local_addr().expect("address").port() - 10;
        // The first port may be taken by chance; then the error is about that one.
        let problem = open(&loaded).await.map(drop).expect_err("it is in use").to_string();
        assert!(problem.contains("broker-a") && problem.contains("rocketmq.port"), "{problem}");
        assert!(!one.exists() && !two.exists());
    }
}
