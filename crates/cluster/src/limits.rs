//! Bounds of what a name server keeps, each with its reason, and the checks of names that go with them.

use base::Refusal;
use base::cursor::preview;
use base::limits::{FRAME_SIZE_MAX, INTERNAL_TOPIC_NAME_SIZE_MAX};

/// Broker names: ten times the largest published clusters. A list of all of them fits a frame.
pub const BROKERS_MAX: usize = 10_000;

/// Processes under one broker name: a master and its replicas.
pub const REPLICAS_MAX: usize = 128;

/// Longest name of a broker, cluster or topic, in bytes. Brokers are often named after hosts (253 at most), and
/// topics after a prefix and a group or broker.
pub const NAME_SIZE_MAX: usize = 512;

/// Longest address, in bytes: a host name and a port.
pub const ADDRESS_SIZE_MAX: usize = 512;

/// Longest key or namespace of the key-value table, in bytes: keys are topics.
pub const KEY_SIZE_MAX: usize = 1024;

/// Longest value of the key-value table, in bytes: an order of queues over a thousand brokers.
pub const VALUE_SIZE_MAX: usize = 64 * 1024;

/// All keys and values together, in bytes: a namespace is answered in one frame.
pub const KEY_VALUES_SIZE_MAX: usize = 8 * 1024 * 1024;

/// Notices of a changed lowest broker id that wait to be sent. They are hints: the oldest are dropped.
pub const NOTICES_MAX: usize = 1024;

/// Text of a change of settings, in bytes: all settings with comments many times over.
pub const SETTINGS_TEXT_SIZE_MAX: usize = 64 * 1024;

/// Largest body that a network thread reads itself, in bytes. Packed, a topic takes some ten bytes: a broker with a few hundred is
/// registered at once, and one with many thousands by a job.
pub const BODY_HERE_SIZE_MAX: usize = 4 * 1024;

/// Topics of the registry that a network thread walks over itself.
pub const TOPICS_HERE_MAX: usize = 4096;

/// Bytes of a frame that an answer's header may take.
pub const ANSWER_HEADER_SIZE_MAX: usize = 256 * 1024;

const _: () = assert!(INTERNAL_TOPIC_NAME_SIZE_MAX < NAME_SIZE_MAX);
const _: () = assert!(VALUE_SIZE_MAX + KEY_SIZE_MAX < KEY_VALUES_SIZE_MAX);
// Escaping can double a text.
const _: () = assert!(2 * KEY_VALUES_SIZE_MAX <= FRAME_SIZE_MAX);
const _: () = assert!(2 * VALUE_SIZE_MAX < ANSWER_HEADER_SIZE_MAX);

/// Checks a name as it may travel: not empty, not too long, no blank and no control character.
///
/// Looser than what a broker lets its clients create, since official brokers register topics named after hosts.
pub fn check_name(kind: &'static str, name: &str) -> Result<(), Refusal> {
    check(name, NAME_SIZE_MAX).map_err(|problem| Refusal::BadName { kind, name: preview(name.as_bytes()), problem })
}

/// Checks an address: host and port as text.
pub fn check_address(address: &str) -> Result<(), Refusal> {
    check(address, ADDRESS_SIZE_MAX).map_err(|problem| {
        let shown = preview(address.as_bytes());
        Refusal::BadRequest(format!("the broker address [{shown}] {problem}; expected host:port"))
    })
}

fn check(text: &str, limit: usize) -> Result<(), String> {
    if text.is_empty() {
        Err("is empty".to_owned())
    } else if text.len() > limit {
        Err(format!("is {} bytes long; at most {limit} are allowed", text.len()))
    } else if let Some(bad) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Err(format!("contains {bad:?}; blanks and control characters are not allowed"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_and_retry_topics_pass_and_broken_ones_do_not() {
        for name in ["a", "broker-a.example.com", "%RETRY%group", "主题", "rmq_sys_SYNC_BROKER_MEMBER_a.b"] {
            assert_eq!(check_name("topic", name), Ok(()), "{name}");
        }
        for name in ["", " ", "a b", "a\n", "a\0", &"x".repeat(NAME_SIZE_MAX + 1)] {
            assert!(check_name("topic", name).is_err(), "{name:?}");
            assert!(check_address(name).is_err(), "{name:?}");
        }
    }
}
