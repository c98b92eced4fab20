//! The brokers of a process: one for each directory of `storage.dirs`, told apart by name, port and directory.
//!
//! The first has the name and the port of the settings; the others count on from there by their position in the list. Whoever
//! is taken out of the list leaves an empty text, so that the others keep theirs.

use std::path::PathBuf;

use super::kind::Value;
use super::table::Settings;

/// From one broker's port to the next: as in RocketMQ's examples, and more than the ports around one (two below for old
/// clients, one above for replicas).
pub(super) const PORT_STEP: u16 = 10;

/// One broker of the process.
#[derive(Clone, Debug, PartialEq)]
pub struct OneBroker {
    /// Its position in `storage.dirs`, counted from 1; nothing if that is not set.
    pub position: Option<usize>,
    /// Settings of this broker, as if it were the only one.
    pub settings: Settings,
}

impl Settings {
    /// The brokers that a process with these settings runs.
    pub fn brokers(&self) -> Vec<OneBroker> {
        if self.storage.dirs.is_empty() {
            return vec![OneBroker { position: None, settings: self.clone() }];
        }
        let taken = |directory: &PathBuf| !directory.as_os_str().is_empty();
        let positions = (1..).zip(&self.storage.dirs).filter(|(_, directory)| taken(directory));
        positions.map(|(position, directory)| self.broker_at(position, directory.clone())).collect()
    }

    fn broker_at(&self, position: usize, directory: PathBuf) -> OneBroker {
        let mut settings = self.clone();
        settings.storage.dirs.clear();
        settings.storage.directory = directory;
        if position > 1 {
            settings.broker.name = format!("{}-{position}", self.broker.name);
            // The checks see to it that there is such a port.
            settings.rocketmq.port = self.port_at(position).unwrap_or_default();
            let above = settings.rocketmq.port.saturating_sub(self.rocketmq.port);
            settings.replication.port =
                self.replication.port.map(|port| if port == 0 { 0 } else { port.saturating_add(above) });
        }
        OneBroker { position: Some(position), settings }
    }

    /// The port for replicas of a broker.
    pub fn replication_port(&self) -> u16 {
        let beside = if self.rocketmq.port == 0 { 0 } else { self.rocketmq.port.saturating_add(1) };
        self.replication.port.unwrap_or(beside)
    }

    /// The port of a position; 0 stays 0. Nothing where ports end.
    pub(super) fn port_at(&self, position: usize) -> Option<u16> {
        let first = self.rocketmq.port;
        let above = u16::try_from(position.saturating_sub(1)).ok()?.checked_mul(PORT_STEP)?;
        if first == 0 { Some(0) } else { first.checked_add(above) }
    }

    /// The first data directory: where a process keeps what belongs to no broker.
    pub(super) fn first_directory(&self) -> PathBuf {
        let mut brokers = self.brokers().into_iter();
        brokers.next().map_or_else(|| self.storage.directory.clone(), |one| one.settings.storage.directory)
    }

    /// The value of a setting that a broker may have for itself.
    pub fn own_value(&self, name: &str) -> Option<Value> {
        match name {
            "broker.name" => Some(Value::Text(self.broker.name.clone())),
            "rocketmq.port" => Some(Value::Integer(self.rocketmq.port.into())),
            "storage.directory" => Some(Value::Path(self.storage.directory.clone())),
            _ => None,
        }
    }
}
