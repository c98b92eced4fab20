//! Starting and stopping: quick when all is well, clear about the thing and the remedy when not, nothing lost.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use conformance::connection::Connection;
use conformance::sluice::Setup;
use wire::rocketmq::code::{request, response};

fn refusal_of(setup: &Setup) -> String {
    let output = setup.run_to_end();
    assert!(!output.status.success(), "it started");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn assert_says(text: &str, wanted: &[&str]) {
    for word in wanted {
        assert!(text.contains(word), "expected [{word}] in: {text}");
    }
}

#[test]
fn ready_in_a_blink_and_healthy() {
    let scratch = tempfile::tempdir().expect("directory");
    let mut sluice = Setup::serve(&scratch.path().join("data")).start();
    let (status, page) = sluice.console_page("/health");
    assert_eq!((status, page.as_str()), (200, "{\"status\":\"up\"}"));
    let (status, metrics) = sluice.console_page("/metrics");
    assert_eq!(status, 200);
    assert_says(&metrics, &["# HELP sluice_messages_in", "sluice_messages_in_total 0", "sluice_topics"]);
    assert!(sluice.stop().success());
}

/// Whoever waits for the ready line may ask to stop at once.
#[test]
fn a_stop_right_after_the_ready_line_is_orderly() {
    for _ in 0..20 {
        let scratch = tempfile::tempdir().expect("directory");
        let mut sluice = Setup::serve(&scratch.path().join("data")).start();
        assert!(sluice.stop().success());
        assert!(!scratch.path().join("data/abort").exists());
    }
}

#[test]
fn an_orderly_stop_answers_everything_and_keeps_everything() {
    let scratch = tempfile::tempdir().expect("directory");
    let setup = Setup::serve(&scratch.path().join("data"));
    let mut sluice = setup.start();
    let mut connection = Connection::open(&sluice.broker);
    let offsets: Vec<_> =
        (0..100).map(|_| connection.send_message("kept", 0, "", b"x").field("queueOffset").to_owned()).collect();
    assert_eq!(offsets, (0..100).map(|n: i32| n.to_string()).collect::<Vec<_>>());
    assert!(sluice.stop().success());
    assert!(!scratch.path().join("data/abort").exists());
    let sluice = setup.start();
    let answer =
        Connection::open(&sluice.broker).call(request::GET_MAX_OFFSET, &[("topic", "kept"), ("queueId", "0")], &[]);
    assert_eq!((answer.code, answer.field("offset")), (response::SUCCESS, "100"));
}

#[test]
fn a_port_in_use_is_named_with_its_setting() {
    let scratch = tempfile::tempdir().expect("directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("address").port();
    let text = refusal_of(&Setup::serve(&scratch.path().join("data")).set("rocketmq.port", port));
    assert_says(&text, &[&port.to_string(), "rocketmq.port", "stop the process that uses the port"]);
}

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let scratch = tempfile::tempdir().expect("directory");
    let data = scratch.path().join("data");
    let _first = Setup::serve(&data).start();
    assert_says(&refusal_of(&Setup::serve(&data)), &["in use by another process", "--data"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let scratch = tempfile::tempdir().expect("directory");
    let file = scratch.path().join("file");
    std::fs::write(&file, "no directory").expect("writes");
    assert_says(&refusal_of(&Setup::serve(&file.join("data"))), &["file/data", "choose another directory"]);
    let read_only = Path::new("/proc/sluice-data");
    assert_says(&refusal_of(&Setup::serve(read_only)), &["/proc/sluice-data"]);
    let closed = scratch.path().join("closed");
    std::fs::create_dir(&closed).expect("makes");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).expect("closes");
    if std::fs::write(closed.join("probe"), "").is_err() {
        assert_says(&refusal_of(&Setup::serve(&closed.join("data"))), &["cannot create", "write access"]);
    }
}

#[test]
fn an_unknown_setting_names_the_nearest() {
    let scratch = tempfile::tempdir().expect("directory");
    let data = scratch.path().join("data");
    assert_says(&refusal_of(&Setup::serve(&data).set("storage.segmentsize", "1GiB")), &["storage.segment_size"]);
    assert_says(&refusal_of(&Setup::serve(&data).set("flushDiskTyp", "SYNC_FLUSH")), &["flushDiskType"]);
    assert!(!data.exists(), "nothing is made before the settings are good");
}

#[test]
fn a_damaged_document_stops_the_start_unless_its_backup_helps() {
    let scratch = tempfile::tempdir().expect("directory");
    let data = scratch.path().join("data");
    let setup = Setup::serve(&data);
    let mut sluice = setup.start();
    for topic in ["one", "two"] {
        assert_eq!(Connection::open(&sluice.broker).send_message(topic, 0, "", b"x").code, response::SUCCESS);
    }
    sluice.stop();
    let document = data.join("config/topics.json");
    std::fs::write(&document, "{\"topicConfigTable\":").expect("writes");
    let mut sluice = setup.start();
    let answer =
        Connection::open(&sluice.broker).call(request::GET_MAX_OFFSET, &[("topic", "two"), ("queueId", "0")], &[]);
    assert_eq!(answer.field("offset"), "1", "{answer:?}");
    sluice.stop();
    std::fs::write(&document, "{\"topicConfigTable\":").expect("writes");
    std::fs::write(data.join("config/topics.json.bak"), "nonsense").expect("writes");
    assert_says(&refusal_of(&setup), &["topics.json is damaged", "restore"]);
}

#[test]
fn damaged_indexes_cost_time_but_no_message() {
    let scratch = tempfile::tempdir().expect("directory");
    let data = scratch.path().join("data");
    let setup = Setup::serve(&data);
    let mut sluice = setup.start();
    let mut connection = Connection::open(&sluice.broker);
    for number in 0..50 {
        let properties = format!("KEYS\u{1}k{number}\u{2}");
        assert_eq!(connection.send_message("indexed", 0, &properties, b"x").code, response::SUCCESS);
    }
    sluice.stop();
    for name in std::fs::read_dir(data.join("index")).expect("lists") {
        std::fs::write(name.expect("entry").path(), "damaged").expect("writes");
    }
    std::fs::write(data.join("consumequeue/indexed/0/00000000000000000000"), "damaged").expect("writes");
    let sluice = setup.start();
    let mut connection = Connection::open(&sluice.broker);
    let max = connection.call(request::GET_MAX_OFFSET, &[("topic", "indexed"), ("queueId", "0")], &[]);
    assert_eq!(max.field("offset"), "50");
    let fields = [
        ("topic", "indexed"),
        ("key", "k7"),
        ("maxNum", "10"),
        ("beginTimestamp", "0"),
        ("endTimestamp", "9999999999999"),
    ];
    assert_eq!(connection.call(request::QUERY_MESSAGE, &fields, &[]).code, response::SUCCESS);
}

#[test]
fn a_damaged_log_keeps_its_neighbours() {
    let scratch = tempfile::tempdir().expect("directory");
    let data = scratch.path().join("data");
    let setup = Setup::serve(&data);
    let mut sluice = setup.start();
    let mut connection = Connection::open(&sluice.broker);
    for number in 0..10 {
        connection.send_message("damaged", 0, "", format!("message number {number}").as_bytes());
    }
    sluice.stop();
    let segment = data.join("commitlog/00000000000000000000");
    let mut bytes = std::fs::read(&segment)
        .map(|mut bytes| {
            bytes.truncate(1 << 20);
            bytes
        })
        .expect("reads");
    let at = bytes.windows(16).position(|window| window == b"message number 4").expect("there");
    bytes[at] ^= 1;
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(&segment).expect("opens");
    file.write_all_at(&bytes[at..at + 1], at as u64).expect("writes");
    std::fs::remove_dir_all(data.join("consumequeue")).expect("removes");
    let sluice = setup.start();
    let fields = [
        ("consumerGroup", "readers"),
        ("topic", "damaged"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "32"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    let found = Connection::open(&sluice.broker).call(request::PULL_MESSAGE, &fields, &[]);
    assert_eq!((found.code, found.field("nextBeginOffset")), (response::SUCCESS, "10"));
    assert!(found.body.windows(16).any(|window| window == b"message number 5"));
}
