//! Runs the built binary, official brokers and official clients as processes of their own, for the tests beside this crate.
//!
//! Whatever is started here ends with the value that stands for it, by its process id. Every process has its own scratch
//! directory and its own ports on loopback.

pub mod connection;
pub mod java;
pub mod process;
pub mod sluice;

use std::net::TcpListener;
use std::path::PathBuf;

/// The repository's root.
pub fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).canonicalize().expect("the repository is there")
}

/// A port nobody uses at the moment, with the one two below and the one above free too, as a RocketMQ broker needs.
pub fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("address").port();
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if port < 65_000 && is_free(port - 2) && is_free(port - 1) && is_free(port + 1) {
            return port;
        }
    }
}

/// How many messages the large tests move: fewer in everyday runs, `SLUICE_CONFORMANCE_COUNT` in full ones.
pub fn message_count(everyday: u64) -> u64 {
    std::env::var("SLUICE_CONFORMANCE_COUNT").ok().and_then(|text| text.parse().ok()).unwrap_or(everyday)
}
