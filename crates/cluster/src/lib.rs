//! Who is there, who has which queues, and who has copies of the log: the name server, what a broker tells it, and replication.
//!
//! [`name_server`] is the registry of brokers and routes with its sessions; [`registration`] is the other end, the
//! requests a Sluice broker sends to name servers and the answers it reads. [`replication`] is what a master tells its replicas. All speak
//! RocketMQ's protocols through `wire`, so the other end may be an official process of 4.9 or 5.x.
//!
//! Nothing here opens a socket, reads a clock or writes a file: time is passed in, and what must be kept or sent is
//! handed to the crate `server`, which asks for it. Nothing here knows what a message means.
//!
//! A name server keeps nothing on disk but its key-value table. After a crash it starts empty and is complete again
//! when every broker has registered, which each does at least every 30 seconds.

pub mod limits;
pub mod name_server;
pub mod registration;
pub mod replication;

use wire::rocketmq::frame::{Header, Language};

/// The version Sluice speaks as, an ordinal of `MQVersion`: `V5_4_0`.
pub const SPOKEN_VERSION: i32 = 493;

/// The language Sluice names in its headers. Every peer of every age knows this one; an unknown name is an error to
/// official clients before 4.9. No peer acts on it.
pub const SPOKEN_LANGUAGE: Language = Language::JAVA;

/// A header without a remark, as Sluice sends it.
const fn spoken_header(code: i32, opaque: i32, flag: i32) -> Header<'static> {
    Header { code, language: SPOKEN_LANGUAGE, version: SPOKEN_VERSION, opaque, flag, remark: None }
}
