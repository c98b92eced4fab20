//! Brokers that are started for a comparison: Sluice itself, and the originals from the public package registries.
//!
//! **Owns** the processes of a cluster on loopback, with everything they write in one folder. **Always holds**: they are stopped
//! by process id, and the folder is removed, when the cluster is dropped. A process that is killed leaves both behind: the
//! next run uses other ports and another folder.

mod originals;
pub(crate) mod process;
mod sluice;

use std::path::PathBuf;
use std::str::FromStr;

use client::target::Target;
use serde::Serialize;
use tempfile::{Builder, TempDir};

use crate::compare::scenario::step::{BrokerNeeds, Protocol};
use crate::driver::{Spoken, driver_of};
use crate::error::BenchError;

use process::{Ground, PeerSetup, Process, Started};

/// A broker that can be started here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerKind {
    /// This very binary.
    Sluice,
    /// Apache RocketMQ.
    RocketMq,
    /// RabbitMQ.
    RabbitMq,
    /// Apache Kafka.
    Kafka,
    /// A broker that runs already; its version is its address.
    Running,
}

/// A kind and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// What.
    pub kind: PeerKind,
    /// Which.
    pub version: String,
}

/// A cluster that runs.
#[derive(Debug)]
pub struct Cluster {
    /// What it consists of.
    pub peer: Peer,
    /// Where clients find it, in the words of its protocol.
    pub address: String,
    /// The same for the load generator, if it speaks that protocol.
    target: Option<Target>,
    /// Its brokers; name servers of their own come after them.
    processes: Vec<Process>,
    brokers: usize,
    directory: TempDir,
}

impl PeerKind {
    /// Those that are started here.
    pub const ALL: [Self; 4] = [Self::Sluice, Self::RocketMq, Self::RabbitMq, Self::Kafka];

    /// Its name as people write it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Sluice => "Sluice",
            Self::RocketMq => "RocketMQ",
            Self::RabbitMq => "RabbitMQ",
            Self::Kafka => "Kafka",
            Self::Running => "Running",
        }
    }

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sluice => "sluice",
            Self::RocketMq => "rocketmq",
            Self::RabbitMq => "rabbitmq",
            Self::Kafka => "kafka",
            Self::Running => "running",
        }
    }

    const fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Sluice => &[env!("CARGO_PKG_VERSION")],
            Self::RocketMq => &originals::ROCKETMQ_VERSIONS,
            Self::RabbitMq => &originals::RABBITMQ_VERSIONS,
            Self::Kafka => &originals::KAFKA_VERSIONS,
            Self::Running => &[],
        }
    }
}

impl FromStr for Peer {
    type Err = BenchError;

    /// `NAME`, `NAME:VERSION`, or the address of a broker that runs.
    fn from_str(text: &str) -> Result<Self, BenchError> {
        if text.contains("://") {
            return Ok(Self { kind: PeerKind::Running, version: text.parse::<Target>()?.to_string() });
        }
        let (name, version) = text.split_once(':').map_or((text, None), |(name, version)| (name, Some(version)));
        let Some(kind) = PeerKind::ALL.into_iter().find(|kind| kind.name() == name) else {
            let known = PeerKind::ALL.map(PeerKind::name).join(", ");
            return Err(BenchError::WrongOption { name: "peer", problem: format!("{name:?} is not one of {known}") });
        };
        let versions = kind.versions();
        let version = version.or(versions.first().copied()).unwrap_or_default();
        if !versions.contains(&version) {
            let problem = format!("there is no {name} {version} here; there is {}", versions.join(", "));
            return Err(BenchError::WrongOption { name: "peer", problem });
        }
        Ok(Self { kind, version: version.to_owned() })
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.version)
    }
}

impl Peer {
    /// Fails early if it should run already and does not.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        match self.kind {
            PeerKind::Running => {
                let target = self.version.parse()?;
                driver_of(&target, Spoken::default()).check_reachable(&target)
            }
            PeerKind::Sluice | PeerKind::RocketMq | PeerKind::RabbitMq | PeerKind::Kafka => Ok(()),
        }
    }

    /// Whether the load generator can speak to it in that protocol.
    pub fn speaks(&self, protocol: Protocol) -> bool {
        match self.kind {
            PeerKind::Sluice => true,
            PeerKind::RocketMq => protocol == Protocol::RocketMq,
            PeerKind::RabbitMq => protocol == Protocol::Amqp,
            PeerKind::Kafka => false,
            PeerKind::Running => {
                let is_amqp = matches!(self.version.parse(), Ok(Target::Amqp(_)));
                is_amqp == (protocol == Protocol::Amqp)
            }
        }
    }

    /// Whether its consumers can pop: RocketMQ has it since 5.0.
    pub(crate) fn has_pop(&self) -> bool {
        self.kind != PeerKind::RocketMq || !self.version.starts_with("4.")
    }

    /// Fetches what it needs and starts a cluster with empty directories, ready for load.
    pub fn start(&self, needs: BrokerNeeds, setup: &PeerSetup) -> Result<Cluster, BenchError> {
        let work = setup.work_folder();
        let name = format!("sluice-bench-{}-{}-", std::process::id(), self.kind.name());
        let directory = std::fs::create_dir_all(work).and_then(|()| Builder::new().prefix(&name).tempdir_in(work));
        let directory =
            directory.map_err(|source| BenchError::Disk { directory: work.display().to_string(), source })?;
        let ground = Ground { setup, directory: directory.path() };
        let Started { address, target, processes } = match self.kind {
            PeerKind::Sluice => sluice::start(needs, ground)?,
            PeerKind::RocketMq => originals::start_rocketmq(&self.version, needs, ground)?,
            PeerKind::RabbitMq => originals::start_rabbitmq(&self.version, needs, ground)?,
            PeerKind::Kafka => originals::start_kafka(&self.version, needs, ground)?,
            PeerKind::Running => Started::at(self.version.parse()?, Vec::new()),
        };
        let brokers = if processes.len() > 1 { processes.len() - 1 } else { 1 };
        Ok(Cluster { peer: self.clone(), address, target, processes, brokers, directory })
    }
}

impl Cluster {
    /// Where the load goes.
    pub(crate) fn target(&self) -> Result<Target, BenchError> {
        self.target.clone().ok_or(BenchError::NotSpoken { peer: self.peer.kind.name() })
    }

    /// Processes of its brokers, slaves among them.
    pub fn broker_pids(&self) -> Vec<u32> {
        self.processes.iter().take(self.brokers).map(Process::id).collect()
    }

    /// Where they keep their files; nothing is known of brokers that ran already.
    pub fn data(&self) -> Vec<PathBuf> {
        if self.processes.is_empty() { Vec::new() } else { vec![self.directory.path().to_owned()] }
    }

    /// Whether all its processes run.
    pub fn is_running(&mut self) -> bool {
        self.processes.iter_mut().all(Process::is_running)
    }

    /// Fails if one of them ended by itself.
    pub(crate) fn check_running(&mut self) -> Result<(), BenchError> {
        if self.is_running() { Ok(()) } else { Err(BenchError::Died { name: self.peer.to_string() }) }
    }

    /// The command lines it was started with.
    pub fn commands(&self) -> Vec<String> {
        self.processes.iter().map(|process| process.command().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_of_the_4_series_cannot_pop() {
        let has_pop = |name: &str| name.parse::<Peer>().expect("a broker").has_pop();
        assert!(["sluice", "rocketmq", "rocketmq:5.4.0", "rocketmq://127.0.0.1:9876"].into_iter().all(has_pop));
        assert!(!has_pop("rocketmq:4.9.7"));
    }
}
