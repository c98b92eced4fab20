//! Settings: from files and command lines to typed, checked options.
//!
//! [`table`] is the one table of Sluice's settings, and [`rocketmq`] says what becomes of every key
//! of RocketMQ's configuration files. [`load`] lays the sources over each other (defaults, file,
//! `--set`, flags; the environment is not read) and gives [`Settings`], with [`Notice`]s to log, or
//! [`Errors`] that name the place, the key, what was found and what was expected.

mod brokers;
mod checks;
mod choice;
mod conversion;
mod document;
mod entry;
mod error;
mod file;
mod gathered;
mod kind;
mod load;
mod nearest;
mod notice;
mod origin;
mod properties;
pub mod reference;
mod resolve;
pub mod rocketmq;
pub mod table;
mod tls_checks;
mod values;

use std::path::PathBuf;

/// Official clients of 4.4 and before connect to the port two below (`vipChannelEnabled`).
const OLD_CLIENT_PORT_DISTANCE: u16 = 2;

pub use brokers::OneBroker;
pub use choice::{BrokerRole, CertificateUser, ClientAuth, FlushMode, LogFormat, RequestMode, TlsMode};
pub use conversion::Conversion;
pub use entry::Place;
pub use error::{Claim, Error, Errors};
pub use file::{File, Format, Role, load_file};
pub use kind::{Kind, Problem, Value, duration};
pub use load::{Effective, Loaded, load};
pub use notice::{Level, Notice};
pub use origin::{Changed, Origin};
pub use reference::{reference_markdown, sample_toml};
pub use table::{
    Broker, Console, Delay, Fetch, Group, Listen, Log, Message, Nameserver, Offset, Query, Retention, Rocketmq, Server,
    Settings, Storage, Tls, Topic,
};

impl Settings {
    /// The address that clients are told; nothing when it is to be found at start, because the
    /// process listens on every address and was not told which one is its own.
    pub fn advertised_host(&self) -> Option<&str> {
        let listened = Some(self.listen.host.as_str()).filter(|host| !checks::is_wildcard(host));
        self.broker.host.as_deref().or(listened)
    }

    /// Directory of the log.
    pub fn log_directory(&self) -> PathBuf {
        let usual = || self.storage.directory.join("commitlog");
        self.storage.log_directory.clone().unwrap_or_else(usual)
    }

    /// Directory of the self-signed certificate.
    pub fn tls_directory(&self) -> PathBuf {
        self.first_directory().join("tls")
    }

    /// File of the name server's key-value table.
    pub fn kv_path(&self) -> PathBuf {
        let usual = || self.first_directory().join("nameserver").join("kvConfig.json");
        self.nameserver.kv_path.clone().unwrap_or_else(usual)
    }
}

impl Rocketmq {
    /// The port that old clients use, if there is room for one below `rocketmq.port`.
    pub fn old_client_port(&self) -> Option<u16> {
        self.port.checked_sub(OLD_CLIENT_PORT_DISTANCE).filter(|&port| port > 0)
    }
}

#[cfg(test)]
mod tests;
