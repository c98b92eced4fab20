//! Sluice: this very binary, everything in one process, or one process a broker.

use std::time::Duration;

use client::target::Target;

use super::process::{Ground, Process, Started};
use crate::compare::scenario::step::{BrokerNeeds, Flush, Protocol, Replication};
use crate::error::BenchError;

const READY_WITHIN: Duration = Duration::from_secs(30);
/// What a run writes is gone after it: until the disk is really full nothing is refused, and nothing deleted that is still to be read.
const TO_THE_LAST_BYTE: [&str; 2] = ["retention.disk_refuse_percent=100", "retention.force_enabled=false"];

/// A name server, and for each group a broker and its slave, if it has one.
pub(super) fn start(needs: BrokerNeeds, ground: Ground<'_>) -> Result<Started, BenchError> {
    let flush = match needs.flush {
        Flush::Async => "storage.flush=async",
        Flush::Sync => "storage.flush=sync",
    };
    if needs.brokers() == 1 {
        let arguments = ["serve".to_owned(), "--data".to_owned(), ground.path("data-0")];
        let mut settings = vec!["nameserver.port=0", "rocketmq.port=0", "console.port=0", flush];
        if needs.protocol == Protocol::Amqp {
            settings.push("amqp.port=0");
        }
        let (process, ready) = run("sluice", &arguments, &settings, ground)?;
        let address = match needs.protocol {
            Protocol::RocketMq => format!("rocketmq://{}", address_behind(&ready, "name server ")),
            Protocol::Amqp => format!("amqp://{}", address_behind(&ready, "AMQP ")),
        };
        return Ok(Started::at(address.parse()?, vec![process]));
    }
    let names = format!("storage.directory={}", ground.path("names"));
    let settings = ["nameserver.port=0", "console.port=0", &names];
    let (name_server, ready) = run("namesrv", &["namesrv".to_owned()], &settings, ground)?;
    let address = address_behind(&ready, "name server ");
    let target: Target = format!("rocketmq://{address}").parse()?;
    let broker = |process: &str, group: &str, own: [&str; 2]| {
        let arguments = ["broker".to_owned(), "-n".to_owned(), address.to_owned()];
        let group = format!("broker.name={group}");
        let data = format!("storage.directory={}", ground.path(&format!("data-{process}")));
        let ports = ["rocketmq.port=0", "replication.port=0", "console.port=0"];
        let settings = [&ports[..], &[&group, &data, flush], &own].concat();
        run(process, &arguments, &settings, ground).map(|(process, _)| process)
    };
    let role = match needs.replication {
        Replication::None | Replication::Async => "broker.role=async_master",
        Replication::Sync => "broker.role=sync_master",
    };
    let mut processes = Vec::new();
    for number in 0..needs.groups {
        let group = format!("broker-{number}");
        processes.push(broker(&group, &group, [role, "broker.id=0"])?);
        if needs.has_slaves() {
            let mut slave = broker(&format!("{group}-slave"), &group, ["broker.role=slave", "broker.id=1"])?;
            slave.wait_until_it_follows(&target, &group)?;
            processes.push(slave);
        }
    }
    processes.push(name_server);
    Ok(Started::at(target, processes))
}

/// Starts one process; gives it with the line by which it says that it is ready.
fn run(
    name: &str,
    arguments: &[String],
    settings: &[&str],
    ground: Ground<'_>,
) -> Result<(Process, String), BenchError> {
    let binary = std::env::current_exe()
        .map_err(|source| BenchError::NotStarted { name: name.to_owned(), problem: source.to_string() })?;
    let settings = settings.iter().chain(&TO_THE_LAST_BYTE).flat_map(|&setting| ["--set", setting]);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).chain(settings).collect();
    let mut process = Process::start(name, &binary, &arguments, ground)?;
    let line = process.wait_until("say that it is ready", READY_WITHIN, |process| {
        process.output().lines().find(|line| line.contains(" ready in ")).map(str::to_owned)
    })?;
    Ok((process, line))
}

/// The address that stands behind those words.
fn address_behind<'a>(line: &'a str, words: &str) -> &'a str {
    let rest = line.split(words).nth(1).unwrap_or_default();
    rest.split([',', ' ']).next().unwrap_or_default()
}
