//! Apache RocketMQ, as the script in `bench/peers/rocketmq` fetches and runs it: a name server, and a broker for each group.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{PeerSetup, Started, free_port, scripts};
use crate::compare::scenario::{BrokerNeeds, Flush};
use crate::error::BenchError;
use crate::rocketmq::route::registered_brokers;
use crate::target::Target;

/// Versions whose artifacts are complete, the usual one first.
pub(super) const VERSIONS: [&str; 2] = ["5.4.0", "4.9.7"];

/// Brokers register some seconds after they listen.
const REGISTERED_WITHIN: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// A broker takes its port, two below (the fast one) and one above (replication).
const SPARE_PORTS: u16 = 2;

pub(super) fn start(
    version: &str,
    needs: BrokerNeeds,
    setup: &PeerSetup,
    directory: &Path,
) -> Result<Started, BenchError> {
    let run =
        |name: &str, arguments: &[&str], port: u16| scripts::ROCKETMQ.run(setup, directory, name, arguments, port);
    let (names, port) = (directory.join("names"), free_port(0)?);
    let names = names.display().to_string();
    let name_server = run("namesrv", &["namesrv", version, &names, &port.to_string()], port)?;
    let address = format!("127.0.0.1:{port}");
    let flush = match needs.flush {
        Flush::Async => "flushDiskType=ASYNC_FLUSH",
        Flush::Sync => "flushDiskType=SYNC_FLUSH",
    };
    let mut processes = Vec::new();
    for number in 0..needs.groups {
        let name = format!("broker-{number}");
        let (home, port) = (directory.join(&name).display().to_string(), free_port(SPARE_PORTS)?);
        let named = format!("brokerName={name}");
        let arguments = ["broker", version, &home, &address, &port.to_string(), &named, flush];
        processes.push(run(&name, &arguments, port)?);
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
    Ok(Started::at(Target::NameServer(vec![address]), processes))
}
