//! Rules between settings, and what a RocketMQ file leaves to defaults that differ here.

use base::limits;

use super::brokers::{OneBroker, PORT_STEP};
use super::choice::BrokerRole;
use super::entry::Place;
use super::error::Error;
use super::file::{File, Format, Role};
use super::gathered::Gathered;
use super::kind::Value;
use super::notice::{Level, Notice};
use super::table::Settings;
use super::tls_checks;

/// What a record adds to the body of its message, at most: fields, names and properties.
const RECORD_OVERHEAD_SIZE_MAX: u64 = limits::PROPERTIES_SIZE_MAX as u64 + 1024;

pub(super) fn check(settings: &Settings, role: Role, file: Option<&File>, gathered: &mut Gathered) {
    check_identity(settings, gathered);
    check_directories(settings, gathered);
    check_ports(settings, role, gathered);
    check_registration_in_time(settings, role, gathered);
    check_disk_percents(settings, gathered);
    check_log_size(settings, gathered);
    check_delays_fit(settings, gathered);
    check_record_fits(settings, gathered);
    tls_checks::check(&settings.tls, gathered);
    tls_checks::check_port(&settings.tls, ("amqp.tls_port", settings.amqp.tls_port), gathered);
    if file.is_some_and(|file| file.format() == Format::Properties) {
        note_other_defaults(settings, role, gathered);
    }
}

fn check_identity(settings: &Settings, gathered: &mut Gathered) {
    let expected = match (settings.broker.role, settings.broker.id) {
        (BrokerRole::Slave, 0) => Some("a number above 0 for a slave (broker.role): 0 is its master"),
        (BrokerRole::AsyncMaster | BrokerRole::SyncMaster, 1..) => Some("0 for a master; or set broker.role to slave"),
        _ => None,
    };
    if let Some(expected) = expected {
        gathered.errors.push(Error::Invalid {
            place: gathered.place("broker.id"),
            key: "broker.id".to_owned(),
            found: settings.broker.id.to_string(),
            expected: expected.to_owned(),
        });
    }
    if let Some(host) = settings.broker.host.as_deref().filter(|host| is_wildcard(host)) {
        gathered.errors.push(Error::Invalid {
            place: gathered.place("broker.host"),
            key: "broker.host".to_owned(),
            found: host.to_owned(),
            expected: "an address that clients can connect to".to_owned(),
        });
    }
}

/// Whether the host stands for every address of the machine.
pub(super) fn is_wildcard(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified())
}

/// One directory or several: not both, and no log directory that several brokers would share.
fn check_directories(settings: &Settings, gathered: &mut Gathered) {
    let first = "storage.dirs";
    if settings.storage.dirs.is_empty() {
        return;
    }
    for second in ["storage.directory", "storage.log_directory"] {
        if gathered.place(second) != Place::Default {
            let places = Box::new([gathered.place(first), gathered.place(second)]);
            gathered.errors.push(Error::NotBoth { first, second, places });
        }
    }
    let count = settings.storage.dirs.len();
    if settings.port_at(count).is_none() {
        let port = settings.rocketmq.port;
        let fit = usize::from((u16::MAX - port) / PORT_STEP) + 1;
        gathered.errors.push(Error::Invalid {
            place: gathered.place(first),
            key: first.to_owned(),
            found: format!("{count} directories"),
            expected: format!("at most {fit}, as ports go from rocketmq.port ({port}) up to 65535 by {PORT_STEP}"),
        });
    }
}

fn check_ports(settings: &Settings, role: Role, gathered: &mut Gathered) {
    let mut ports = Vec::new();
    if role != Role::Broker {
        ports.push(("`nameserver.port`".to_owned(), settings.nameserver.port));
    }
    if role != Role::NameServer {
        let port_of = |(index, one): (usize, OneBroker)| match index {
            0 => ("`rocketmq.port`".to_owned(), one.settings.rocketmq.port),
            _ => (format!("the port of {}", one.settings.broker.name), one.settings.rocketmq.port),
        };
        ports.extend(settings.brokers().into_iter().enumerate().map(port_of));
        // That which follows from another port is not insisted on.
        if let Some(port) = settings.replication.port {
            ports.push(("`replication.port`".to_owned(), port));
        }
    }
    let of_amqp = [("`amqp.port`", settings.amqp.port), ("`amqp.tls_port`", settings.amqp.tls_port)];
    for (name, port) in of_amqp.into_iter().filter(|_| role != Role::NameServer) {
        ports.extend(port.map(|port| (name.to_owned(), port)));
    }
    ports.push(("`console.port`".to_owned(), settings.console.port));
    for (index, (first, port)) in ports.iter().enumerate() {
        for (second, other) in ports.iter().skip(index + 1) {
            if port == other && *port != 0 {
                let (first, second) = (first.clone(), second.clone());
                gathered.errors.push(Error::SamePort { first, second, port: *port });
            }
        }
    }
}

/// A broker that registers less often than its name server waits would be missing from routes most of the time.
fn check_registration_in_time(settings: &Settings, role: Role, gathered: &mut Gathered) {
    let interval = settings.broker.registration_interval;
    let nameserver = &settings.nameserver;
    let patience = [
        ("nameserver.broker_timeout", nameserver.broker_timeout),
        ("nameserver.idle_timeout", nameserver.idle_timeout),
    ];
    for (name, time) in patience.into_iter().filter(|(_, time)| *time <= interval) {
        let (time, interval) = (Value::Duration(time), Value::Duration(interval));
        match role {
            Role::Broker => {}
            Role::Serve => gathered.errors.push(Error::Invalid {
                place: gathered.place(name),
                key: name.to_owned(),
                found: time.to_string(),
                expected: format!(
                    "more than broker.registration_interval, which is {interval}: the broker would be missing from routes in between"
                ),
            }),
            // Brokers elsewhere may be set to anything; this is what they have by themselves.
            Role::NameServer => {
                let text = format!(
                    "is {time}: brokers that register every {interval}, as is usual, will be missing from routes in between"
                );
                warn(gathered, name, text);
            }
        }
    }
}

/// RocketMQ files often set one of the three above another; the broker then simply acts earlier.
fn check_disk_percents(settings: &Settings, gathered: &mut Gathered) {
    let retention = &settings.retention;
    let steps = [
        ("retention.disk_used_percent", retention.disk_used_percent),
        ("retention.disk_force_percent", retention.disk_force_percent),
        ("retention.disk_refuse_percent", retention.disk_refuse_percent),
    ];
    for ((name, percent), (next, next_percent)) in steps.iter().zip(steps.iter().skip(1)) {
        if percent > next_percent {
            let text = format!("is {percent}, above {next}, which acts first at {next_percent}");
            warn(gathered, name, text);
        }
    }
}

/// A delayed message waits in the log, and goes with it.
fn check_delays_fit(settings: &Settings, gathered: &mut Gathered) {
    let age = settings.retention.age;
    if settings.delay.levels.iter().any(|delay| *delay >= age) {
        let text =
            "is not longer than the longest of delay.levels: a message may be removed before it is due".to_owned();
        warn(gathered, "retention.age", text);
    }
}

/// Files go as a whole, and never the one being written.
fn check_log_size(settings: &Settings, gathered: &mut Gathered) {
    let (size, segment_size) = (settings.retention.size, settings.storage.segment_size);
    if size > 0 && size < segment_size {
        let text = format!(
            "is {size} bytes, but a file of the log has {segment_size} (storage.segment_size), and the one being written \
             always stays"
        );
        warn(gathered, "retention.size", text);
    }
}

fn check_record_fits(settings: &Settings, gathered: &mut Gathered) {
    let segment_size = settings.storage.segment_size;
    if settings.message.size_max + RECORD_OVERHEAD_SIZE_MAX > segment_size {
        let text = format!(
            "is {} bytes, but a file of the log has {segment_size}; larger messages are refused",
            settings.message.size_max
        );
        warn(gathered, "message.size_max", text);
    }
}

fn note_other_defaults(settings: &Settings, role: Role, gathered: &mut Gathered) {
    // Whoever has clients told the same address means it.
    let is_meant = settings.broker.host.as_ref() == Some(&settings.listen.host);
    if gathered.place("listen.host") == Place::Default && !is_meant {
        let host = &settings.listen.host;
        let text = format!(
            "is {host}; RocketMQ would listen on 0.0.0.0, as bindAddress=0.0.0.0 or --listen \
             0.0.0.0 ask for"
        );
        warn(gathered, "listen.host", text);
    }
    let stores_by_default = gathered.place("storage.directory") == Place::Default && settings.storage.dirs.is_empty();
    if role != Role::NameServer && stores_by_default {
        let directory = settings.storage.directory.display();
        let text = format!("is {directory}; RocketMQ would use store in the home directory");
        warn(gathered, "storage.directory", text);
    }
}

fn warn(gathered: &mut Gathered, name: &str, text: String) {
    let place = gathered.place(name);
    gathered.notices.push(Notice { level: Level::Warning, key: name.to_owned(), place, text });
}
