//! What must not occur in a crate and no lint knows: another protocol, words of a protocol, system calls beside the disk. Clocks,
//! threads, files and sockets are clippy's (`clippy.toml`).

use super::Finding;
use crate::source::{Source, words};

/// Crates with one folder per protocol; a folder never names another.
const PROTOCOL_CRATES: &[&str] = &["crates/wire/src/", "crates/dialect/src/"];

/// The protocols, as folders are named.
const PROTOCOLS: &[&str] = &["rocketmq", "amqp", "kafka"];

/// Words of one protocol or another, as `snake_case` has them; a longer name may have them as its parts.
const PROTOCOL_WORDS: &[&str] = &[
    "rocketmq",
    "rocket_mq",
    "java",
    "mqadmin",
    "namesrv",
    "tbw102",
    "opaque",
    "language",
    "perm",
    "consume_type",
    "message_model",
    "consume_from_where",
    "consumer_ids",
    "reconsume",
    "amqp",
    "rabbitmq",
    "rabbit_mq",
    "delivery_tag",
    "correlation_id",
    "kafka",
    "partition",
    "partitions",
];

/// Where broker gives the record's format a value or takes one: the fields have the format's names.
const FORMAT_FIELDS: &[&str] = &["record.reconsume_times", "reconsume_times: message.delivery_count"];

/// The file of `storage` that asks the system; and what it asks with.
const DISK: &str = "crates/storage/src/disk/real.rs";
const SYSTEM_CALLS: &[&str] = &["rustix", "libc"];

/// Whether a line makes something of storage public under broker's name.
fn gives_storage_away(code: &str) -> bool {
    let is_name = ["pub use ", "pub type "].iter().any(|start| code.trim_start().starts_with(start));
    is_name && words(code).any(|(_, word)| word == "storage")
}

/// Checks one file; all but the first rule leave tests alone.
pub fn check(source: &Source) -> Vec<Finding> {
    let path = &source.path;
    let mut findings = Vec::new();
    for (line, number) in source.text.lines().zip(1..) {
        if line.trim_start().starts_with("#[ignore") {
            let remedy =
                "mend the test or remove it; a test that needs more than a checkout says so when it is skipped";
            findings.push(Finding::new(path, number, "`#[ignore]`", remedy));
        }
    }
    let own = PROTOCOL_CRATES.iter().find_map(|folder| path.strip_prefix(folder)?.split_once('/'));
    for (number, line) in source.shipped() {
        let code = line.split("//").next().unwrap_or_default();
        if let Some((own, _)) = own
            && let Some((_, other)) = words(code).find(|(_, word)| *word != own && PROTOCOLS.contains(word))
        {
            let problem = format!("`{other}`: the folder {own} names another protocol");
            findings.push(Finding::new(path, number, problem, "what two protocols share belongs in base or broker"));
        }
        let is_way_to_storage = path.starts_with("crates/broker/src/") && gives_storage_away(code)
            || path.starts_with("crates/dialect/src/") && code.contains(".store()");
        if is_way_to_storage {
            let problem = format!("`{}`: dialect must not reach storage through broker", code.trim());
            findings.push(Finding::new(path, number, problem, "give broker a type or a method of its own"));
        }
        if path.starts_with("crates/storage/")
            && path != DISK
            && words(code).any(|(_, word)| SYSTEM_CALLS.contains(&word))
        {
            findings.push(Finding::new(
                path,
                number,
                format!("only {DISK} asks the system"),
                "go through storage::disk",
            ));
        }
        if path.starts_with("crates/broker/")
            && let Some(word) = protocol_word(line)
        {
            let problem = format!("`{word}`: broker has a protocol's word");
            let remedy = "use the house's word (docs/glossary.md); the dialect translates";
            findings.push(Finding::new(path, number, problem, remedy));
        }
    }
    findings
}

/// A word of a protocol anywhere in the line, comments and literals included.
fn protocol_word(line: &str) -> Option<&str> {
    let format_fields: Vec<_> = FORMAT_FIELDS.iter().flat_map(|field| line.match_indices(field)).collect();
    words(line).find_map(|(at, word)| {
        let is_called = line.get(..at).is_some_and(|before| before.ends_with('.'));
        // Methods of the standard library.
        let is_standard = word == "partition_point" || is_called && word == "partition";
        let is_of_format = format_fields.iter().any(|(start, field)| (*start..start + field.len()).contains(&at));
        let parts = format!("_{}_", snake_case(word));
        let has = |wanted: &&str| parts.contains(&format!("_{wanted}_"));
        (!is_standard && !is_of_format && PROTOCOL_WORDS.iter().any(has)).then_some(word)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::new(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn crates_keep_to_themselves() {
        for (path, text, is_found) in [
            ("crates/wire/src/rocketmq/a.rs", "use crate::amqp::frame;", true),
            ("crates/wire/src/rocketmq/a.rs", "use crate::rocketmq::frame; // not amqp", false),
            ("crates/wire/src/probe.rs", "use crate::{amqp, kafka};", false),
            ("crates/dialect/src/amqp/a.rs", "wire::rocketmq::frame", true),
            ("crates/storage/src/disk/real.rs", "use rustix::fs;", false),
            ("crates/storage/src/log.rs", "use rustix::fs;", true),
            ("crates/storage/src/log.rs", "unsafe { libc::open(x) }", true),
            ("crates/storage/src/log.rs", "// as libc does\n#[cfg(test)]\nmod tests { use rustix; }", false),
            ("crates/broker/src/lib.rs", "pub use storage::ReadMode;", true),
            ("crates/broker/src/lib.rs", "pub use {::storage::ReadMode, base::Now};", true),
            ("crates/broker/src/lib.rs", "pub type Mode = storage::ReadMode;", true),
            ("crates/broker/src/lib.rs", "use storage::ReadMode;", false),
            ("crates/dialect/src/rocketmq/a.rs", "broker.store().read()", true),
            ("crates/server/src/a.rs", "broker.store().read()", false),
            ("crates/base/tests/a.rs", "#[test]\n#[ignore]\nfn f() {}", true),
            ("crates/base/tests/a.rs", "#[ignore = \"slow\"]", true),
            ("crates/base/tests/a.rs", "// #[ignore]", false),
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
            ("// as RocketMQ does", true),
            ("\"taken over from rocketmq\"", true),
            ("/// What Java wrote.", true),
            ("let java_wrote = true;", true),
            ("\"create it (mqadmin updateTopic)\"", true),
            ("const TEMPLATE: &str = \"TBW102\";", true),
            ("pub consume_type: String,", true),
            ("group.message_model.clone()", true),
            ("enum ConsumeFromWhere {}", true),
            ("if settings.notify_consumer_ids_changed_enable {", true),
            ("pub language: u8,", true),
            ("template.settings.perm", true),
            ("topic.permission(), permits, permanent, perms", false),
            ("pub reconsume_times: i32,", true),
            ("max_reconsume_times: record.reconsume_times,", true),
            ("delivery_count: record.reconsume_times,", false),
            ("reconsume_times: message.delivery_count,", false),
            ("// a KafkaBatch, an amqp queue", true),
        ] {
            assert_eq!(!lines("crates/broker/src/a.rs", text).is_empty(), is_found, "{text}");
            assert_eq!(lines("crates/dialect/src/a.rs", text), [0; 0]);
        }
        assert_eq!(lines("crates/broker/src/a.rs", "\nopaque\n\nopaque"), [2, 4]);
    }
}
