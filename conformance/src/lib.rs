//! Runs the built binary, official brokers and official clients as processes of their own, for the tests beside this crate.
//!
//! Whatever is started here ends with the value that stands for it, by its process id. Every process has its own scratch
//! directory and its own ports on loopback.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "starts processes"
)]

pub mod certificates;
pub mod channel;
pub mod connection;
pub mod directory;
pub mod guide;
pub mod http;
pub mod java;
pub mod ledger;
pub mod loop_disk;
pub mod machine;
pub mod pair;
pub mod perf_test;
pub mod pop;
pub mod process;
pub mod program;
pub mod sender;
pub mod sluice;

use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// The repository's root.
pub fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).canonicalize().expect("the repository is there")
}

/// Where ports are taken from: below those the system gives to outgoing connections, which would take a port between our
/// look at it and a process's use of it.
const PORTS: std::ops::Range<u16> = 12_000..32_000;
/// A RocketMQ broker takes a port, the one two below and the one above.
const PORTS_EACH: u16 = 4;

/// A port nobody uses, with the one two below and the one above free too. No two calls of a test run get the same.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let slots = u32::from((PORTS.end - PORTS.start) / PORTS_EACH);
    loop {
        // Test programs that run at the same time begin at different places.
        let slot = std::process::id().wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % slots;
        let first = PORTS.start + slot as u16 * PORTS_EACH;
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (first..first + PORTS_EACH).all(is_free) {
            return first + 2;
        }
    }
}

/// An address by which other machines reach this one, if it has one.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent; this asks which address it would come from.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

/// How many messages the large tests move: fewer in everyday runs, `SLUICE_CONFORMANCE_COUNT` in full ones.
pub fn message_count(everyday: u64) -> u64 {
    number_in("SLUICE_CONFORMANCE_COUNT").unwrap_or(everyday)
}

/// How often the power is cut: a few times in everyday runs, `SLUICE_CONFORMANCE_CUTS` in full ones.
pub fn cut_count(everyday: u64) -> u64 {
    number_in("SLUICE_CONFORMANCE_CUTS").unwrap_or(everyday)
}

/// Whether promises are tried with the original too, to know what it does: not in everyday runs, since it does not change.
pub fn tries_original() -> bool {
    number_in("SLUICE_CONFORMANCE_ORIGINAL").is_some_and(|number| number > 0)
}

/// Whether comparisons are made that take several minutes: not in everyday runs.
pub fn compares_at_length() -> bool {
    number_in("SLUICE_CONFORMANCE_COMPARE").is_some_and(|number| number > 0)
}

/// How often brokers are killed under consumers: a few times in everyday runs, `SLUICE_CONFORMANCE_KILLS` in full ones.
pub fn kill_count(everyday: u64) -> u64 {
    number_in("SLUICE_CONFORMANCE_KILLS").unwrap_or(everyday)
}

/// What chance follows from: another number each time, unless `SLUICE_CONFORMANCE_SEED` says which. It is printed.
pub fn seed() -> u64 {
    let seed = number_in("SLUICE_CONFORMANCE_SEED").unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    });
    println!("SLUICE_CONFORMANCE_SEED={seed}");
    seed
}

/// How often a disk is filled: a few times in everyday runs, `SLUICE_CONFORMANCE_FILLS` in full ones.
pub fn fill_count(everyday: u64) -> u64 {
    number_in("SLUICE_CONFORMANCE_FILLS").unwrap_or(everyday)
}

/// How many combinations of processes are swapped: a few in everyday runs, `SLUICE_CONFORMANCE_SWAPS` in full ones.
pub fn swap_count(everyday: u64) -> u64 {
    number_in("SLUICE_CONFORMANCE_SWAPS").unwrap_or(everyday)
}

/// How often a directory changes between brokers: there and back in everyday runs, `SLUICE_CONFORMANCE_TURNS` turns in full ones.
pub fn turn_count(everyday: u64) -> u64 {
    number_in("SLUICE_CONFORMANCE_TURNS").unwrap_or(everyday)
}

/// How many ways through a guide are gone: the one there in everyday runs, `SLUICE_CONFORMANCE_ROUTES` in full ones.
pub fn route_count(everyday: u64) -> u64 {
    number_in("SLUICE_CONFORMANCE_ROUTES").unwrap_or(everyday)
}

/// Whether each flag of PerfTest is tried without the others too: not in everyday runs, which have them together.
pub fn tries_every_flag_alone() -> bool {
    number_in("SLUICE_CONFORMANCE_FLAGS").is_some_and(|number| number > 0)
}

/// A test cannot do here what it is for. That fails it, unless `SLUICE_CONFORMANCE_MAY_SKIP=1` says that such tests count as passed.
pub fn skip(why: &str) {
    let may_skip = std::env::var("SLUICE_CONFORMANCE_MAY_SKIP").is_ok_and(|value| value == "1");
    assert!(may_skip, "{why}. SLUICE_CONFORMANCE_MAY_SKIP=1 lets this test pass without having been run");
    println!("skipped: {why}");
}

fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text} is no number: {error}")))
}
