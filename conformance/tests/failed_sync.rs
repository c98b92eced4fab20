//! A sync that fails: the broker says so and promises nothing more, consumers go on, and a restart on a well disk heals it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::skip;
use conformance::sluice::Setup;
use rustix::process::{Pid, Signal, kill_process};
use wire::rocketmq::code::response;

const WAIT_MAX: Duration = Duration::from_secs(30);
const TOPIC: &str = "syncing";
const COUNT: u64 = 50;

#[test]
fn after_a_failed_sync_nothing_more_is_promised_and_reading_goes_on() {
    let scratch = tempfile::tempdir().expect("directory");
    let setup = Setup::serve(&scratch.path().join("data")).set("storage.flush", "sync");
    let mut sluice = setup.start();
    let mut connection = Connection::open(&sluice.broker);
    connection.make_topic(TOPIC, 1);
    for number in 0..COUNT {
        assert_eq!(connection.send_message(TOPIC, 0, "", &body_of(number)).code, response::SUCCESS);
    }
    let Some(failing) = FailingSyncs::of(sluice.id()) else { return };
    let is_refused = |connection: &mut Connection| {
        let answer = connection.send_message(TOPIC, 0, "", b"not promised");
        assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE, "{answer:?}");
        assert!(answer.remark.contains("sync") && answer.remark.contains("check the disk"), "{}", answer.remark);
    };
    is_refused(&mut connection);
    drop(failing);
    // The disk is well again, and still nothing is promised: what the failed sync lost cannot be told.
    is_refused(&mut connection);
    let (status, health) = sluice.console_page("/health");
    assert!(status == 503 && health.contains("cannot sync"), "{status} {health}");
    let (_, metrics) = sluice.console_page("/metrics");
    assert!(metrics.lines().any(|line| line == "sluice_log_poisoned 1"), "{metrics}");
    all_are_there(&mut connection);

    sluice.kill();
    let sluice = setup.start();
    let mut connection = Connection::open(&sluice.broker);
    all_are_there(&mut connection);
    assert_eq!(sluice.console_page("/health").0, 200);
    assert_eq!(connection.send_message(TOPIC, 0, "", b"promised").code, response::SUCCESS);
}

fn body_of(number: u64) -> Vec<u8> {
    format!("message {number}").into_bytes()
}

fn all_are_there(connection: &mut Connection) {
    let end = connection.read_queue(TOPIC, 0, 0, |record| {
        let number = record.queue_offset.0;
        assert!(number >= COUNT || record.body == body_of(number), "{number}");
    });
    assert!(end >= COUNT, "{end}");
}

/// Every `fdatasync` of a process fails with an I/O error as long as this is there.
struct FailingSyncs(Child);

impl FailingSyncs {
    /// `None` where processes cannot be traced and that may be skipped.
    fn of(id: u32) -> Option<Self> {
        let started = Command::new("strace")
            .args(["-f", "-qq", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO"])
            .args(["-o", "/dev/null", "-p", &id.to_string()])
            .stdin(Stdio::null())
            .spawn();
        let tracer = match started {
            Ok(tracer) => tracer,
            Err(error) => {
                skip(&format!("failing a sync needs strace: {error}"));
                return None;
            }
        };
        let mut failing = Self(tracer);
        let deadline = Instant::now() + WAIT_MAX;
        while !is_traced(id) {
            if let Ok(Some(status)) = failing.0.try_wait() {
                skip(&format!("strace may not trace another process: {status}"));
                return None;
            }
            assert!(Instant::now() < deadline, "strace does not attach");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(failing)
    }
}

impl Drop for FailingSyncs {
    fn drop(&mut self) {
        // Asked to stop, it lets the process go.
        let asked = kill_process(Pid::from_child(&self.0), Signal::TERM);
        assert!(asked.is_ok() || std::thread::panicking(), "strace cannot be signalled: {asked:?}");
        let _ = self.0.wait();
    }
}

/// Whether all threads of a process are traced.
fn is_traced(id: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).expect("the process runs");
    threads.flatten().all(|thread| {
        std::fs::read_to_string(thread.path().join("status"))
            .is_ok_and(|status| status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0")))
    })
}
