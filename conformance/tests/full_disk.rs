//! A full disk: senders are told, consumers go on, writes resume by themselves once there is room, nothing acknowledged is lost.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::sluice::Setup;
use wire::rocketmq::code::{request, response};

const WAIT_MAX: Duration = Duration::from_secs(60);

#[test]
fn a_full_disk_refuses_and_recovers() {
    let allowed = Command::new("unshare").args(["--mount", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        println!("skipped: a disk of its own needs the right to mount (unshare --mount)");
        return;
    }
    let scratch = tempfile::tempdir().expect("directory");
    let disk = scratch.path().join("disk");
    std::fs::create_dir(&disk).expect("makes");
    let mount = format!("mount -t tmpfs -o size=160m tmpfs {} && exec \"$@\"", disk.display());
    let sluice = Setup::serve(&disk.join("data"))
        .set("storage.segment_size", "16MiB")
        .set("storage.queue_file_entries", "1000")
        .set("storage.index_slots", "1000")
        .set("storage.index_entries", "100000")
        .set("retention.check_interval", "100ms")
        // Full before anything is deleted to make room.
        .set("retention.force_enabled", "false")
        .within(&["unshare", "--mount", "sh", "-c", &mount, "sh"])
        .start();
    let seen_from_here = PathBuf::from(format!("/proc/{}/root{}", sluice.id(), disk.display()));
    let mut connection = Connection::open(&sluice.broker);
    let filler = seen_from_here.join("filler");
    std::fs::write(&filler, vec![1; 60 << 20]).expect("takes room");
    let body = vec![7; 100_000];
    let mut stored = 0_u64;
    let started = Instant::now();
    let refused = loop {
        let answer = connection.send_message("filling", 0, "", &body);
        if answer.code != response::SUCCESS {
            break answer;
        }
        stored += 1;
        assert!(started.elapsed() < WAIT_MAX, "the disk does not fill");
    };
    assert_eq!(refused.code, response::SERVICE_NOT_AVAILABLE, "{refused:?}");
    assert!(refused.remark.contains("full") || refused.remark.contains("space"), "{}", refused.remark);
    assert!(stored > 100, "{stored}");
    let place = [("topic", "filling"), ("queueId", "0")];
    assert_eq!(connection.call(request::GET_MAX_OFFSET, &place, &[]).field("offset"), stored.to_string());
    read_all(&mut connection, stored, &body);

    std::fs::remove_file(&filler).expect("makes room");
    let freed = Instant::now();
    while connection.send_message("filling", 0, "", &body).code != response::SUCCESS {
        assert!(freed.elapsed() < WAIT_MAX, "writes do not resume");
        std::thread::sleep(Duration::from_millis(50));
    }
    read_all(&mut connection, stored + 1, &body);
}

fn read_all(connection: &mut Connection, count: u64, body: &[u8]) {
    let mut offset = 0;
    while offset < count {
        let start = offset.to_string();
        let fields = [
            ("consumerGroup", "readers"),
            ("topic", "filling"),
            ("queueId", "0"),
            ("queueOffset", &*start),
            ("maxMsgNums", "8"),
            ("sysFlag", "4"),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "0"),
            ("subscription", "*"),
            ("subVersion", "0"),
        ];
        let pulled = connection.call(request::PULL_MESSAGE, &fields, &[]);
        assert_eq!(pulled.code, response::SUCCESS, "at {offset}: {}", pulled.remark);
        let mut rest = &pulled.body[..];
        while !rest.is_empty() {
            let record = base::record::Record::decode(rest).expect("a record");
            assert_eq!((record.queue_offset.0, record.body), (offset, body));
            rest = &rest[record.size..];
            offset += 1;
        }
    }
}
