//! Looking at the machine: the one part of the doctor that reads files, opens ports and takes times.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "looks at the machine")]

mod clock;
mod disk;
mod machine;
mod mounts;

use std::net::TcpListener;
use std::path::Path;
use std::{fs, io};

use settings::{FlushMode, OneBroker, Role, Settings};

use super::facts::{Disk, Facts, Port, PortState, Wants};

/// What a broker keeps in memory beside the end of the log: old extents, key slots, what is not yet written, tables.
const MEMORY_BESIDE_TAIL: u64 = 256 << 20;

/// What a broker with these settings asks for.
pub fn wants(settings: &Settings) -> Wants {
    let percent = |value: u32| u8::try_from(value).unwrap_or(100);
    Wants {
        connections_max: settings.server.connections_max as u64,
        segment_size: settings.storage.segment_size,
        sync_flush: settings.storage.flush == FlushMode::Sync,
        disk_used_percent: percent(settings.retention.disk_used_percent),
        disk_refuse_percent: percent(settings.retention.disk_refuse_percent),
        memory: (settings.storage.tail_cache_size + MEMORY_BESIDE_TAIL) * settings.brokers().len() as u64,
    }
}

/// Everything there is to know, measured with a broker's eyes.
pub fn facts(role: Role, settings: &Settings) -> Facts {
    let load = machine::load();
    let ticks = machine::cpu_ticks();
    Facts {
        kernel: machine::kernel(),
        open_files: Some(machine::open_files()),
        ports: ports(role, settings),
        clock: clock::look(),
        memory: machine::memory(),
        processor: machine::processor(load, ticks),
        disks: disks(settings),
    }
}

/// The data directory of each broker, and the log's where that is another.
fn disks(settings: &Settings) -> Vec<Disk> {
    let brokers = settings.brokers();
    let several = brokers.len() > 1;
    let mut disks = Vec::new();
    for OneBroker { settings, .. } in brokers {
        let purpose = |what: &str| if several { format!("{} {what}", settings.broker.name) } else { what.to_owned() };
        let log = settings.log_directory();
        disks.push(disk::examine(purpose("data"), &settings.storage.directory, &log));
        if settings.storage.log_directory.is_some() {
            disks.push(disk::examine(purpose("log"), &log, &log));
        }
    }
    disks
}

fn ports(role: Role, settings: &Settings) -> Vec<Port> {
    let host = &settings.listen.host;
    let mut ports = Vec::new();
    if role != Role::Broker {
        ports.push(try_port("nameserver.port", host, settings.nameserver.port, false));
    }
    for one in settings.brokers() {
        let rocketmq = one.settings.rocketmq.port;
        ports.push(try_port("rocketmq.port", host, rocketmq, false));
        if let Some(old) = one.settings.rocketmq.old_client_port() {
            ports.push(try_port("rocketmq.port", host, old, true));
        }
    }
    ports.push(try_port("console.port", host, settings.console.port, false));
    ports
}

/// Opens a port as the broker would, and closes it.
fn try_port(setting: &'static str, host: &str, port: u16, is_optional: bool) -> Port {
    let state = match TcpListener::bind((host, port)) {
        Ok(_) => PortState::Free,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => PortState::InUse,
        Err(error) => PortState::Refused(error.to_string()),
    };
    Port { setting, host: host.to_owned(), port, is_optional, state }
}

/// A small file of the kernel, without the white space around it.
fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// A small file of the kernel that holds one number.
fn number(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The word in brackets, as in `always [madvise] never`; a file with one word has none around it.
fn chosen(text: &str) -> Option<&str> {
    match text.split_once('[') {
        Some((_, rest)) => rest.split_once(']').map(|(word, _)| word),
        None => text.split_whitespace().next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("[none] mq-deadline"), Some("none"));
        assert_eq!(chosen("none"), Some("none"));
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn a_port_in_use_is_told_from_a_free_one() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("address").port();
        assert_eq!(try_port("console.port", "127.0.0.1", port, false).state, PortState::InUse);
        assert_eq!(try_port("console.port", "127.0.0.1", 0, false).state, PortState::Free);
        // An address for documentation: no machine has it.
        let refused = try_port("console.port", "192.0.2.1", 0, false).state;
        assert!(matches!(refused, PortState::Refused(_)), "{refused:?}");
    }
}
