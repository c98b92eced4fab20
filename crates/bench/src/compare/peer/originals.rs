//! The originals, as the scripts in `peers/` fetch and run them. The binary carries the scripts, and puts them where the programs are
//! kept.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use client::target::Target;

use super::process::{Ground, Process, Started, free_port};
use crate::compare::scenario::step::{BrokerNeeds, Flush, Replication};
use crate::error::BenchError;
use crate::rocketmq::route::registered_brokers;

/// Versions of RocketMQ whose artifacts are complete, the usual one first.
pub(super) const ROCKETMQ_VERSIONS: [&str; 2] = ["5.4.0", "4.9.7"];

/// Brokers register some seconds after they listen.
const REGISTERED_WITHIN: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// A broker takes its port, two below (the fast one) and one above (replication).
const ROCKETMQ_SPARE_PORTS: u16 = 2;
/// In 5.x the role alone waits for nobody: how many brokers have to have a message says a setting of its own, which 4.9 passes over.
const SYNC_MASTER: [&str; 3] = ["brokerRole=SYNC_MASTER", "inSyncReplicas=2", "minInSyncReplicas=1"];

/// A name server, and for each group a broker and its slave, if it has one.
pub(super) fn start_rocketmq(version: &str, needs: BrokerNeeds, ground: Ground<'_>) -> Result<Started, BenchError> {
    let port = free_port(0)?;
    let arguments = ["namesrv", version, &ground.path("names"), &port.to_string()];
    let name_server = ROCKETMQ.run("namesrv", &arguments, port, ground)?;
    let address = format!("127.0.0.1:{port}");
    let target = Target::NameServer(vec![address.clone()]);
    let flush = match needs.flush {
        Flush::Async => "flushDiskType=ASYNC_FLUSH",
        Flush::Sync => "flushDiskType=SYNC_FLUSH",
    };
    let broker = |process: &str, group: &str, own: &[&str]| {
        let port = free_port(ROCKETMQ_SPARE_PORTS)?;
        let (home, listens, named) = (ground.path(process), port.to_string(), format!("brokerName={group}"));
        let arguments = [&["broker", version, &home, &address, &listens, &named, flush], own].concat();
        ROCKETMQ.run(process, &arguments, port, ground)
    };
    let role = match needs.replication {
        Replication::None | Replication::Async => &["brokerRole=ASYNC_MASTER"][..],
        Replication::Sync => &SYNC_MASTER,
    };
    let mut processes = Vec::new();
    for number in 0..needs.groups {
        let group = format!("broker-{number}");
        processes.push(broker(&group, &group, role)?);
        if needs.has_slaves() {
            // Name servers tell where the master is: 5.x forgets a haMasterAddress of its own.
            let mut slave = broker(&format!("{group}-slave"), &group, &["brokerId=1", "brokerRole=SLAVE"])?;
            slave.wait_until_it_follows(&target, &group)?;
            processes.push(slave);
        }
    }
    let deadline = Instant::now() + REGISTERED_WITHIN;
    while registered_brokers(&address).unwrap_or_default() < needs.groups as usize {
        if Instant::now() > deadline {
            let problem = format!("the brokers did not register at {address}");
            return Err(BenchError::NotStarted { name: "rocketmq".to_owned(), problem });
        }
        thread::sleep(LOOK_INTERVAL);
    }
    processes.push(name_server);
    Ok(Started::at(target, processes))
}

/// Version of RabbitMQ in Debian stable.
pub(super) const RABBITMQ_VERSIONS: [&str; 1] = ["3.10.8"];

/// A broker of these two takes its port and the one above.
const SPARE_PORTS: u16 = 1;

/// One broker, and the process Erlang nodes find each other in.
pub(super) fn start_rabbitmq(version: &str, needs: BrokerNeeds, ground: Ground<'_>) -> Result<Started, BenchError> {
    // Whether an answer waits for the disk is up to who publishes: confirms of persistent messages do.
    check_alone("rabbitmq", needs)?;
    let (names, port) = (free_port(0)?, free_port(SPARE_PORTS)?);
    let name_process = RABBITMQ.run("names", &["names", version, &names.to_string()], names, ground)?;
    let arguments = ["broker", version, &ground.path("broker"), &port.to_string(), &names.to_string()];
    let broker = RABBITMQ.run("rabbitmq", &arguments, port, ground)?;
    let target = format!("amqp://guest:guest@127.0.0.1:{port}").parse()?;
    Ok(Started::at(target, vec![broker, name_process]))
}

/// Version of Kafka.
pub(super) const KAFKA_VERSIONS: [&str; 1] = ["4.1.1"];

/// One node that is its own controller.
pub(super) fn start_kafka(version: &str, needs: BrokerNeeds, ground: Ground<'_>) -> Result<Started, BenchError> {
    check_alone("kafka", needs)?;
    let port = free_port(SPARE_PORTS)?;
    let flush = match needs.flush {
        Flush::Async => "log.flush.interval.ms=1000",
        Flush::Sync => "log.flush.interval.messages=1",
    };
    let arguments = ["broker", version, &ground.path("broker"), &port.to_string(), flush];
    let broker = KAFKA.run("kafka", &arguments, port, ground)?;
    Ok(Started { address: format!("kafka://127.0.0.1:{port}"), target: None, processes: vec![broker] })
}

/// Refuses to start a cluster, or a slave, of what is started as one broker alone.
fn check_alone(name: &str, needs: BrokerNeeds) -> Result<(), BenchError> {
    if needs.brokers() == 1 {
        return Ok(());
    }
    let problem = "it is started as one broker alone, not as a cluster or with a slave".to_owned();
    Err(BenchError::NotStarted { name: name.to_owned(), problem })
}

/// A JVM takes some seconds; the first time what it runs is downloaded too.
const READY_WITHIN: Duration = Duration::from_secs(300);

/// A script and what it needs beside it.
struct Script {
    /// Its name, and that of its folder.
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

const ROCKETMQ: Script = Script {
    name: "rocketmq",
    files: &[
        ("rocketmq", include_str!("../../../../../peers/rocketmq/rocketmq")),
        ("pom.xml", include_str!("../../../../../peers/rocketmq/pom.xml")),
    ],
};

const RABBITMQ: Script =
    Script { name: "rabbitmq", files: &[("rabbitmq", include_str!("../../../../../peers/rabbitmq/rabbitmq"))] };

const KAFKA: Script = Script {
    name: "kafka",
    files: &[
        ("kafka", include_str!("../../../../../peers/kafka/kafka")),
        ("pom.xml", include_str!("../../../../../peers/kafka/pom.xml")),
    ],
};

impl Script {
    /// Runs it with `arguments` until it listens on `port`; `name` is what the process is called here.
    fn run(&self, name: &str, arguments: &[&str], port: u16, ground: Ground<'_>) -> Result<Process, BenchError> {
        let mut process = Process::start(name, &self.install(ground.setup.cache.as_deref())?, arguments, ground)?;
        process.wait_for_port(port, READY_WITHIN).map(|()| process)
    }

    /// Puts it into `cache` or the user's own cache folder, and tells where it is.
    fn install(&self, cache: Option<&Path>) -> Result<PathBuf, BenchError> {
        let folder = cache.map_or_else(default_cache, Path::to_owned).join(self.name);
        let failed = |source| BenchError::Disk { directory: folder.display().to_string(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        for (name, text) in self.files {
            let path = folder.join(name);
            // Not written anew while it may be running.
            if fs::read_to_string(&path).is_ok_and(|known| known == *text) {
                continue;
            }
            fs::write(&path, text).map_err(failed)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        Ok(folder.join(self.name))
    }
}

/// Where programs of other makers are kept between runs.
fn default_cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).unwrap_or_else(|| PathBuf::from("/var/tmp")).join("sluice/peers")
}
