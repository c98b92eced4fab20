//! Settings that are one of a few words.

use super::kind::Value;
use super::values::Field;

/// When a producer is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// Once the message is in the page cache.
    Async,
    /// Once the message is on disk.
    Sync,
}

/// Part that the broker plays in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerRole {
    /// Answers producers without waiting for replicas.
    AsyncMaster,
    /// Answers them once replicas have their messages too.
    SyncMaster,
    /// Follows a master, and takes no messages of its own.
    Slave,
}

/// How consumers ask for messages that leave it to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestMode {
    /// Each from queues of its own.
    Pull,
    /// From queues that they share.
    Pop,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Whether the ports of broker and name server speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    Disabled,
    /// With clients that begin with it.
    Permissive,
    /// Always.
    Enforcing,
}

/// Whether a TLS client is asked for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// No.
    None,
    /// It is verified if there is one.
    Optional,
    /// Without one it is refused.
    Require,
}

/// What of a client's certificate is its user's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUser {
    /// Its common name.
    CommonName,
    /// The whole name.
    DistinguishedName,
}

/// What the words of a setting mean.
macro_rules! words {
    ($($type:ident: $($word:literal = $meaning:ident),*;)*) => {$(
        impl Field for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    $(Value::Text(word) if word == $word => Some(Self::$meaning),)*
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    FlushMode: "async" = Async, "sync" = Sync;
    BrokerRole: "async_master" = AsyncMaster, "sync_master" = SyncMaster, "slave" = Slave;
    RequestMode: "pull" = Pull, "pop" = Pop;
    TlsMode: "disabled" = Disabled, "permissive" = Permissive, "enforcing" = Enforcing;
    ClientAuth: "none" = None, "optional" = Optional, "require" = Require;
    CertificateUser: "common_name" = CommonName, "distinguished_name" = DistinguishedName;
    LogFormat: "text" = Text, "json" = Json;
}
