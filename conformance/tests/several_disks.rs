//! One process with a broker for each of two disks: one cluster to official clients and tools, and what fails on one disk is
//! not felt on the other.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use conformance::connection::{Answer, Connection};
use conformance::java::{CLIENT_VERSIONS, mqadmin, run_program};
use conformance::sluice::{Setup, Sluice};
use conformance::{message_count, skip};
use wire::rocketmq::code::{request, response};

const WAIT_MAX: Duration = Duration::from_secs(60);
const QUEUES: u64 = 4;

/// Two brokers with small files; the second over `second`.
fn setup(scratch: &Path, second: &Path) -> Setup {
    Setup::serve_over(&[&scratch.join("one"), second])
        .set("storage.segment_size", "16MiB")
        .set("storage.queue_file_entries", "1000")
        .set("storage.index_slots", "1000")
        .set("storage.index_entries", "100000")
        .set("retention.check_interval", "100ms")
        // Full before anything is deleted to make room.
        .set("retention.force_enabled", "false")
}

/// Makes a topic on every broker of the cluster, as an administrator does.
fn make_topic(sluice: &Sluice, topic: &str) {
    let queues = QUEUES.to_string();
    let arguments = ["updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", &queues, "-w", &queues];
    let said = mqadmin(&[&arguments[..], &["-n", &sluice.name_server]].concat());
    for broker in sluice.brokers() {
        assert!(said.contains(&format!("create topic to {broker} success")), "{said}");
    }
}

/// Messages of a topic on one broker.
fn stored(broker: &str, topic: &str) -> u64 {
    let mut connection = Connection::open(broker);
    let mut end = |queue: u64| {
        let place = [("topic", topic), ("queueId", &*queue.to_string())];
        let answer = connection.call(request::GET_MAX_OFFSET, &place, &[]);
        answer.field("offset").parse::<u64>().unwrap_or_else(|_| panic!("{answer:?}"))
    };
    (0..QUEUES).map(&mut end).sum()
}

/// Every message is acknowledged: what one broker refuses the client sends to another.
fn produce(version: &str, sluice: &Sluice, scratch: &Path, topic: &str, count: u64) {
    let expected = count.to_string();
    let flags = [("topic", topic), ("count", &*expected), ("threads", "4"), ("mode", "sync")];
    let produced = run_program(version, "Produce", &sluice.name_server, scratch, &flags);
    assert_eq!((produced["ok"].as_u64(), produced["failed"].as_u64()), (Some(count), Some(0)), "{produced}");
}

fn consume(version: &str, sluice: &Sluice, scratch: &Path, topic: &str, count: u64) {
    let (expected, group) = (count.to_string(), format!("readers-of-{topic}"));
    let flags =
        [("topic", topic), ("group", &*group), ("expect", &*expected), ("from", "first"), ("idle-seconds", "3")];
    let consumed = run_program(version, "Consume", &sluice.name_server, scratch, &flags);
    assert_eq!(consumed["distinct"].as_u64(), Some(count), "{consumed}");
    for wrong in ["duplicates", "corrupt", "foreign"] {
        assert_eq!(consumed[wrong].as_u64(), Some(0), "{wrong}: {consumed}");
    }
}

#[test]
fn tools_and_clients_see_two_masters_of_one_cluster() {
    let scratch = tempfile::tempdir().expect("directory");
    let scratch = scratch.path();
    let mut sluice = setup(scratch, &scratch.join("two")).start();
    let brokers = sluice.brokers();
    assert_eq!(brokers.len(), 2, "{}", sluice.ready_line);
    let listed = mqadmin(&["clusterList", "-n", &sluice.name_server]);
    for (name, address) in ["broker-a", "broker-a-2"].iter().zip(&brokers) {
        let row = |line: &&str| line.split_whitespace().nth(1) == Some(name);
        let row = listed.lines().find(row).unwrap_or_else(|| panic!("{name} in {listed}"));
        assert!(row.starts_with("DefaultCluster") && row.contains(address), "{row}");
    }
    for version in CLIENT_VERSIONS {
        let topic = format!("spread-{}", version.replace('.', "-"));
        make_topic(&sluice, &topic);
        let route = mqadmin(&["topicRoute", "-t", &topic, "-n", &sluice.name_server]);
        assert!(brokers.iter().all(|broker| route.contains(broker)), "{route}");
        let count = message_count(20_000);
        produce(version, &sluice, scratch, &topic, count);
        let shares: Vec<_> = brokers.iter().map(|broker| stored(broker, &topic)).collect();
        assert_eq!(shares.iter().sum::<u64>(), count);
        assert!(shares.iter().all(|&share| share > count / 4), "{shares:?}");
        consume(version, &sluice, scratch, &topic, count);
    }
    for name in ["broker-a", "broker-a-2"] {
        assert!(figure(&sluice, "sluice_messages_in_total", name) > 0, "{name}");
    }
    let both_up = r#"{"brokers":{"broker-a":{"status":"up"},"broker-a-2":{"status":"up"}},"status":"up"}"#;
    assert_eq!(sluice.console_page("/health"), (200, both_up.to_owned()));
    assert!(sluice.stop().success());
}

/// A figure of one broker, as the console shows it.
fn figure(sluice: &Sluice, name: &str, broker: &str) -> u64 {
    let (_, metrics) = sluice.console_page("/metrics");
    let label = format!("{{broker=\"{broker}\"}}");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(&*label)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {name} of {broker} in\n{metrics}"))
}

/// Waits until what a broker holds is on its disk. What is not there yet when the disk fails may be lost: that is what
/// `storage.flush = async` promises, and the kernel forgets pages it could not write whenever it likes.
fn wait_until_durable(sluice: &Sluice, broker: &str) {
    let started = Instant::now();
    let appended = figure(sluice, "sluice_log_written_bytes", broker);
    while figure(sluice, "sluice_log_durable_bytes", broker) < appended {
        assert!(started.elapsed() < WAIT_MAX, "{broker} does not sync");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Has the second broker's disk fail under load by `mount`, a shell command; gives the refusal, and what the console says.
fn one_disk_fails(mount: &str) -> Option<(Answer, String, String)> {
    let scratch = tempfile::tempdir().expect("directory");
    let scratch = scratch.path();
    for name in ["disk", "behind"] {
        std::fs::create_dir(scratch.join(name)).expect("makes");
    }
    let script = format!("cd {} && {mount}", scratch.display());
    let allowed = Command::new("unshare").args(["--mount", "sh", "-c", &script]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        skip(&format!("a disk of its own needs the right to mount: {mount}"));
        return None;
    }
    let script = format!("{script} && exec \"$@\"");
    let sluice =
        setup(scratch, &scratch.join("disk/two")).within(&["unshare", "--mount", "sh", "-c", &script, "sh"]).start();
    let (count, version) = (message_count(5_000), "5.4.0");
    for topic in ["before", "after"] {
        make_topic(&sluice, topic);
    }
    produce(version, &sluice, scratch, "before", count);
    wait_until_durable(&sluice, "broker-a-2");

    let brokers = sluice.brokers();
    let mut second = Connection::open(&brokers[1]);
    let started = Instant::now();
    let refused = loop {
        let answer = second.send_message("filling", 0, "", &[7; 100_000]);
        if answer.code != response::SUCCESS {
            break answer;
        }
        assert!(started.elapsed() < WAIT_MAX, "the disk does not fail");
    };
    assert_eq!(refused.code, response::SERVICE_NOT_AVAILABLE, "{refused:?}");

    produce(version, &sluice, scratch, "after", count);
    // A full disk may have room left in its last segment for small messages.
    let shares = (stored(&brokers[0], "after"), stored(&brokers[1], "after"));
    assert!(shares.0 + shares.1 == count && shares.1 < count / 4, "{shares:?}");
    for topic in ["before", "after"] {
        consume(version, &sluice, scratch, topic, count);
    }
    let (status, health) = sluice.console_page("/health");
    assert_eq!(status, 200, "{health}");
    for part in [r#""status":"degraded""#, r#""broker-a":{"status":"up"}"#, r#""broker-a-2":{"reason":"#] {
        assert!(health.contains(part), "{part} in {health}");
    }
    Some((refused, health, sluice.console_page("/metrics").1))
}

#[test]
fn a_full_disk_leaves_the_other_serving() {
    let Some((refused, health, _)) = one_disk_fails("mount -t tmpfs -o size=160m tmpfs disk") else { return };
    assert!(refused.remark.contains("full") || refused.remark.contains("space"), "{}", refused.remark);
    assert!(health.contains("disk/two/commitlog is full: "), "{health}");
}

#[test]
fn a_failing_disk_leaves_the_other_serving() {
    // A disk that takes less than it says: what lies behind it is full long before.
    let mount = "mount -t tmpfs -o size=64m tmpfs behind && truncate -s 1g behind/image \
                 && mkfs.ext4 -q -O ^has_journal behind/image && mount -o loop behind/image disk";
    let Some((refused, health, metrics)) = one_disk_fails(mount) else { return };
    assert!(refused.remark.contains("accepts no more writes"), "{}", refused.remark);
    assert!(health.contains("accepts no more writes"), "{health}");
    for (name, value) in [("broker-a", 0), ("broker-a-2", 1)] {
        let line = format!("sluice_log_poisoned{{broker=\"{name}\"}} {value}");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}
