//! RabbitMQ, as the script in `bench/peers/rabbitmq` installs and runs it: one broker, and the process Erlang nodes find each other in.

use std::path::Path;

use super::{PeerSetup, Started, check_alone, free_port, scripts};
use crate::compare::scenario::BrokerNeeds;
use crate::error::BenchError;

/// Of Debian stable.
pub(super) const VERSIONS: [&str; 1] = ["3.10.8"];

/// A broker takes its port and the one above.
const SPARE_PORTS: u16 = 1;

pub(super) fn start(
    version: &str,
    needs: BrokerNeeds,
    setup: &PeerSetup,
    directory: &Path,
) -> Result<Started, BenchError> {
    // Whether an answer waits for the disk is up to who publishes: confirms of persistent messages do.
    check_alone("rabbitmq", needs)?;
    let run =
        |name: &str, arguments: &[&str], port: u16| scripts::RABBITMQ.run(setup, directory, name, arguments, port);
    let (names, port) = (free_port(0)?, free_port(SPARE_PORTS)?);
    let name_process = run("names", &["names", version, &names.to_string()], names)?;
    let home = directory.join("broker").display().to_string();
    let arguments = ["broker", version, &home, &port.to_string(), &names.to_string()];
    let broker = run("rabbitmq", &arguments, port)?;
    let address = format!("amqp://guest:guest@127.0.0.1:{port}");
    Ok(Started { address, target: None, processes: vec![broker, name_process] })
}
