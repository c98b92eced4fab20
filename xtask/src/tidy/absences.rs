//! What must not occur in a crate: sockets, files, clocks, tasks, another protocol, words of a protocol.

use super::Finding;
use crate::source::Source;
use crate::tokens::{is_name, lines_of, tokens};

/// Something that may be named in some places only.
struct Absence {
    what: &'static str,
    /// Tokens that name it.
    patterns: &'static [&'static [&'static str]],
    /// Beginnings of paths where it may be named.
    allowed: &'static [&'static str],
    remedy: &'static str,
}

const ABSENCES: &[Absence] = &[
    Absence {
        what: "sockets and tasks",
        patterns: &[
            &["tokio"],
            &["TcpStream"],
            &["TcpListener"],
            &["UdpSocket"],
            &["UnixStream"],
            &["UnixListener"],
            &["async"],
            &["await"],
        ],
        allowed: &["crates/doctor/", "crates/server/", "crates/console/", "crates/bench/", "crates/cli/"],
        remedy: "take bytes and give bytes (a sans-IO session); the crate `server` owns sockets and tasks",
    },
    Absence {
        what: "the file system",
        patterns: &[&["std", "::", "fs"], &["fs", "::"], &["File", "::"], &["OpenOptions"]],
        allowed: &[
            "crates/storage/src/disk/real.rs",
            "crates/settings/",
            "crates/doctor/",
            "crates/server/",
            "crates/cli/",
            "crates/bench/",
            "xtask/",
        ],
        remedy: "go through storage::disk, or take the bytes as a value",
    },
    Absence {
        what: "clocks and threads",
        patterns: &[
            &["Instant", "::", "now"],
            &["SystemTime", "::", "now"],
            &["thread", "::", "spawn"],
            &["thread", "::", "scope"],
            &["thread", "::", "Builder"],
        ],
        allowed: &[
            "crates/storage/src/disk/real.rs",
            "crates/doctor/",
            "crates/server/",
            "crates/bench/",
            "crates/cli/",
            "xtask/",
        ],
        remedy: "take `now` as a value; the crate `server` reads the clock and has the threads",
    },
];

/// Crates with one folder per protocol; a folder never names another.
const PROTOCOL_CRATES: &[&str] = &["crates/wire/src/", "crates/dialect/src/"];

/// The protocols, as folders are named.
const PROTOCOLS: &[&str] = &["rocketmq", "amqp", "kafka"];

/// Words of one protocol or another, in parts.
const PROTOCOL_WORDS: &[&str] = &["opaque", "delivery_tag", "partition", "partitions", "correlation_id"];

/// Checks one file; tests are free.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if source.is_test || !(source.path.starts_with("crates/") || source.path.starts_with("xtask/")) {
        return findings;
    }
    let found = source.tokens(false);
    let mut report = |pattern: &[&str], problem: &str, remedy: &str| {
        for line in lines_of(&found, pattern) {
            let problem = format!("`{}`: {problem}", pattern.concat());
            findings.push(Finding::new(&source.path, line, problem, remedy));
        }
    };
    for absence in ABSENCES.iter().filter(|absence| !starts_with_any(&source.path, absence.allowed)) {
        let problem = format!("{} may only be named in {}", absence.what, absence.allowed.join(", "));
        absence.patterns.iter().for_each(|pattern| report(pattern, &problem, absence.remedy));
    }
    let own = PROTOCOL_CRATES.iter().find_map(|folder| source.path.strip_prefix(folder)?.split_once('/'));
    if let Some((own, _)) = own {
        for other in PROTOCOLS.iter().filter(|other| **other != own) {
            let remedy = "what two protocols share belongs in base or broker";
            report(&[other], &format!("the folder {own} names another protocol"), remedy);
        }
    }
    if source.path.starts_with("crates/dialect/") {
        report(&["storage", "::"], "dialect must not know storage", "ask the broker, which owns the store");
    }
    if source.path.starts_with("crates/broker/") {
        findings.extend(protocol_words(source));
    }
    findings.sort();
    findings.dedup();
    findings
}

/// Words of a protocol anywhere in the file, comments and literals included.
fn protocol_words(source: &Source) -> Vec<Finding> {
    let found = tokens(&source.text);
    let mut findings = Vec::new();
    for (at, token) in found.iter().enumerate().filter(|(_, token)| !source.is_test_line(token.line)) {
        let follows_dot = at.checked_sub(1).and_then(|at| found.get(at)).is_some_and(|before| before.text == ".");
        // Methods of the standard library.
        let is_standard = token.text == "partition_point" || follows_dot && token.text == "partition";
        if !is_name(token.text) || is_standard {
            continue;
        }
        let parts = format!("_{}_", snake_case(token.text));
        if let Some(word) = PROTOCOL_WORDS.iter().find(|word| parts.contains(&format!("_{word}_"))) {
            let problem = format!("`{}`: broker has a protocol's word, {word}", token.text);
            findings.push(Finding::new(
                &source.path,
                token.line,
                problem,
                "use the house's word (docs/glossary.md); the dialect translates",
            ));
        }
    }
    findings
}

/// `DeliveryTag` as `delivery_tag`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if letter.is_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
        snake.extend(letter.to_lowercase());
    }
    snake
}

fn starts_with_any(path: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| path.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::new(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn rooms_keep_to_themselves() {
        for (path, text, is_found) in [
            ("crates/wire/src/a.rs", "use std::net::{IpAddr, TcpStream};", true),
            ("crates/wire/src/a.rs", "use std::net::IpAddr;", false),
            ("crates/wire/src/a.rs", "// tokio\nlet x = \"tokio\";", false),
            ("crates/broker/src/a.rs", "use tokio::sync;", true),
            ("crates/server/src/a.rs", "use tokio::net::TcpStream;", false),
            ("crates/console/src/a.rs", "async fn f() {}", false),
            ("crates/cluster/src/a.rs", "async fn f() {}", true),
            ("crates/storage/src/disk/real.rs", "use std::fs::{self, File};", false),
            ("crates/storage/src/store.rs", "use std::fs::File;", true),
            ("crates/storage/src/store.rs", "DiskFile::open(x)", false),
            ("crates/storage/src/store.rs", "use std::{fs, io};\nlet x = fs::read(y);", true),
            ("crates/console/src/a.rs", "File::open(x)", true),
            ("crates/cluster/src/a.rs", "let now = Instant::now();", true),
            ("crates/cluster/src/a.rs", "std::thread::spawn(f)", true),
            ("crates/broker/src/a.rs", "std::thread::park()", false),
            ("crates/bench/src/a.rs", "Instant::now() + std::thread::spawn(f)", false),
            ("xtask/src/a.rs", "std::fs::read(x); Instant::now()", false),
            ("crates/wire/src/rocketmq/a.rs", "use crate::amqp::frame;", true),
            ("crates/wire/src/rocketmq/a.rs", "use crate::rocketmq::frame;", false),
            ("crates/wire/src/probe.rs", "use crate::{amqp, kafka};", false),
            ("crates/dialect/src/amqp/a.rs", "wire::rocketmq::frame", true),
            ("crates/dialect/src/amqp/a.rs", "storage::Entry", true),
            ("crates/dialect/src/amqp/a.rs", "broker::Entry", false),
            ("crates/base/tests/a.rs", "std::thread::spawn(f)", false),
            ("crates/base/src/a.rs", "#[cfg(test)]\nmod tests { use std::fs; }", false),
            ("conformance/src/a.rs", "std::thread::spawn(f)", false),
        ] {
            assert_eq!(!lines(path, text).is_empty(), is_found, "{path}: {text}");
        }
    }

    #[test]
    fn broker_speaks_no_protocols_words() {
        for (text, is_found) in [
            ("let opaque = 1;", true),
            ("/// The opaque number.", true),
            ("struct DeliveryTag;", true),
            ("let last_delivery_tag = 1;", true),
            ("fn partition_id() {}", true),
            ("\"CorrelationId\"", true),
            ("list.partition(|x| x.is_ok())", false),
            ("list.partition_point(|x| *x < 1)", false),
            ("let compartment = delivery + tag;", false),
            ("#[cfg(test)]\nmod tests { fn opaque() {} }", false),
        ] {
            assert_eq!(!lines("crates/broker/src/a.rs", text).is_empty(), is_found, "{text}");
            assert_eq!(lines("crates/dialect/src/a.rs", text), [0; 0]);
        }
    }

    #[test]
    fn places_are_lines() {
        assert_eq!(lines("crates/base/src/a.rs", "\n\nuse std::fs;\nFile::open(std::fs::x)"), [3, 4, 4, 4]);
    }
}
