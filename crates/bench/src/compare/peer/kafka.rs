//! Apache Kafka, as the script in `bench/peers/kafka` fetches and runs it: one node that is its own controller.

use std::path::Path;

use super::{PeerSetup, Started, check_alone, free_port, scripts};
use crate::compare::scenario::{BrokerNeeds, Flush};
use crate::error::BenchError;

pub(super) const VERSIONS: [&str; 1] = ["4.1.1"];

/// A broker takes its port and the one above.
const SPARE_PORTS: u16 = 1;

pub(super) fn start(
    version: &str,
    needs: BrokerNeeds,
    setup: &PeerSetup,
    directory: &Path,
) -> Result<Started, BenchError> {
    check_alone("kafka", needs)?;
    let port = free_port(SPARE_PORTS)?;
    let home = directory.join("broker").display().to_string();
    let flush = match needs.flush {
        Flush::Async => "log.flush.interval.ms=1000",
        Flush::Sync => "log.flush.interval.messages=1",
    };
    let arguments = ["broker", version, &home, &port.to_string(), flush];
    let broker = scripts::KAFKA.run(setup, directory, "kafka", &arguments, port)?;
    Ok(Started { address: format!("kafka://127.0.0.1:{port}"), target: None, processes: vec![broker] })
}
