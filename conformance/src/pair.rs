//! A master and its slave, both Sluice's, and what a test asks of them.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use wire::rocketmq::code::request;

use crate::connection::Connection;
use crate::free_port;
use crate::sluice::{Setup, Sluice};

/// A slave gives a silent master up after 20 s, and tries every 3 s.
const WITHIN: Duration = Duration::from_secs(60);

/// How a member of a broker group over `data` is started; small files, so that some of them are crossed.
pub fn member(data: &Path, name_server: &str, name: &str, id: u32, role: &str) -> Setup {
    Setup::broker(data, name_server)
        .set("brokerName", name)
        .set("brokerId", id)
        .set("brokerRole", role)
        .set("haListenPort", free_port())
        .set("mappedFileSizeCommitLog", 1 << 20)
        .set("mappedFileSizeConsumeQueue", 20_000)
}

/// Waits until it is so; `what` says what is wrong otherwise.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Where the log of a broker ends.
pub fn log_end(broker: &Sluice) -> u64 {
    let answer = Connection::open(&broker.broker).call(request::GET_BROKER_RUNTIME_INFO, &[], &[]);
    let table: Value = serde_json::from_slice(&answer.body).expect("a table");
    table["table"]["commitLogMaxOffset"].as_str().expect("an end").parse().expect("a number")
}

/// Waits until the slave has what the master has.
pub fn wait_until_followed(master: &Sluice, slave: &Sluice) {
    until("the slave does not have the log", || log_end(slave) == log_end(master));
}

/// Both, with what starts the master again.
#[derive(Debug)]
pub struct Pair {
    /// How the master is started, with the same ports each time.
    pub setup: Setup,
    /// The master.
    pub master: Sluice,
    /// Its slave, which it does not wait for.
    pub slave: Sluice,
}

impl Pair {
    /// Starts both in `scratch`, as brokers of that name.
    pub fn start(scratch: &Path, name_server: &str, name: &str) -> Self {
        let data = |role: &str| scratch.join(format!("{name}-{role}"));
        let setup = member(&data("master"), name_server, name, 0, "ASYNC_MASTER");
        let master = setup.start();
        let slave = member(&data("slave"), name_server, name, 1, "SLAVE").start();
        Self { setup, master, slave }
    }
}
