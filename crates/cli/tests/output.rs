//! The broker's own output: whatever becomes of standard output and standard error, it works, says so, and stops in good order.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use std::fs::OpenOptions;
use std::io::{PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Output, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use support::{Ports, Serve, eventually};

/// A device that takes nothing: every write finds it full.
fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into()
}

/// A pipe whose reader has gone.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// A pipe with no room left, and the end that nobody reads.
fn stuck() -> (PipeReader, Stdio) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let flags = fcntl_getfl(writer.as_fd()).expect("its flags");
    fcntl_setfl(writer.as_fd(), flags | OFlags::NONBLOCK).expect("does not wait");
    while writer.write(&[b' '; 4096]).is_ok() {}
    while writer.write(b" ").is_ok() {}
    fcntl_setfl(writer.as_fd(), flags).expect("waits again");
    (reader, writer.into())
}

/// Sends through it, has it log, and stops it: as if nothing were the matter.
fn works_and_stops_in_good_order(serve: &mut Serve, is_dropped: bool) {
    serve.wait_until_up();
    for _ in 0..3 {
        serve.send_nonsense();
    }
    // The line is written after the connection is closed.
    eventually("the log lines", || serve.figure("sluice_protocol_errors_total") == 3);
    eventually("lines dropped", || is_dropped == (serve.figure("sluice_stderr_lines_dropped_total") > 0));
    let sent = serve.bench_send(100);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert_eq!(serve.page("/health"), (200, "{\"status\":\"up\"}".to_owned()));
    serve.signal(Signal::TERM);
    assert_eq!(serve.wait().code(), Some(0));
    assert!(!serve.data().join("abort").exists());
}

#[test]
fn it_works_without_anyone_to_read_its_log() {
    for stderr in [closed(), full()] {
        works_and_stops_in_good_order(&mut Serve::start(Ports::free(), Stdio::null(), stderr, &[]), true);
    }
}

#[test]
fn it_works_without_anyone_to_read_its_ready_line() {
    for stdout in [closed(), full()] {
        works_and_stops_in_good_order(&mut Serve::start(Ports::free(), stdout, Stdio::null(), &[]), false);
    }
}

#[test]
fn it_works_beside_a_pipe_that_nobody_reads() {
    let (_unread, stderr) = stuck();
    works_and_stops_in_good_order(&mut Serve::start(Ports::free(), Stdio::null(), stderr, &[]), false);
    let (_unread, stdout) = stuck();
    works_and_stops_in_good_order(&mut Serve::start(Ports::free(), stdout, Stdio::null(), &[]), false);
}

/// What was logged while nobody read is there for whoever reads again.
#[test]
fn a_log_that_is_read_late_is_whole() {
    let (mut reader, stderr) = stuck();
    let mut serve = Serve::start(Ports::free(), Stdio::null(), stderr, &[]);
    serve.wait_until_up();
    for _ in 0..500 {
        serve.send_nonsense();
    }
    eventually("the log lines", || serve.figure("sluice_protocol_errors_total") == 500);
    assert_eq!(serve.figure("sluice_stderr_lines_dropped_total"), 0);
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        text
    });
    serve.signal(Signal::TERM);
    assert!(serve.wait().success());
    let text = reading.join().expect("reads");
    assert_eq!(text.matches("the client sent bytes that are not of this protocol").count(), 500);
    assert!(text.contains("stopped"), "{text}");
}

#[test]
fn a_start_that_fails_ends_with_its_code_whatever_takes_the_reason() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("address").port();
    let (_unread, stuck) = stuck();
    for stderr in [closed(), full(), stuck] {
        let ports = Ports { rocketmq: port, ..Ports::free() };
        let mut serve = Serve::start(ports, Stdio::null(), stderr, &[]);
        assert_eq!(serve.wait().code(), Some(1));
    }
}

/// Only builds with debug assertions can be told to panic.
#[cfg(debug_assertions)]
mod a_thread_that_panics {
    use super::*;
    use std::net::TcpStream;
    use std::path::Path;

    fn start_with_fault(thread: &str, fault: &Path) -> Serve {
        let told = format!("{thread}:{}", fault.display());
        let mut serve = Serve::start(Ports::free(), Stdio::null(), Stdio::piped(), &[("SLUICE_PANIC", &told)]);
        serve.wait_until_up();
        serve
    }

    /// Every thread of a broker: the process ends by itself, says why, and the next start has everything.
    #[test]
    fn ends_the_process_in_order_and_nothing_acknowledged_is_lost() {
        let scratch = tempfile::tempdir().expect("directory");
        for thread in ["log-sync", "log-pages", "key-index", "delay", "housekeeping"] {
            let fault = scratch.path().join(thread);
            let mut serve = start_with_fault(thread, &fault);
            assert!(serve.bench_send(100).status.success());
            std::fs::write(&fault, "").expect("writes");
            assert_eq!(serve.wait().code(), Some(1));
            let log = serve.log();
            for words in ["SLUICE_PANIC says so", &format!("the thread [{thread}] panicked"), "start it again"] {
                assert!(log.contains(words), "[{words}] in: {log}");
            }
            assert!(serve.data().join("abort").exists(), "the next start must read the log again");
            let mut again = serve.start_again();
            again.wait_until_up();
            assert_eq!(messages_in_log(&again), 100);
            again.signal(Signal::TERM);
            assert!(again.wait().success());
        }
    }

    fn messages_in_log(serve: &Serve) -> usize {
        let dumped: Output = serve.sluice(&["store", "dump", &serve.data().display().to_string(), "--topic", "bench"]);
        String::from_utf8_lossy(&dumped.stdout).lines().count()
    }

    /// While clients are given time to take their answers, health says why the process ends.
    #[test]
    fn is_told_by_health_until_the_process_has_ended() {
        let scratch = tempfile::tempdir().expect("directory");
        let fault = scratch.path().join("fault");
        let mut serve = start_with_fault("housekeeping", &fault);
        assert!(serve.bench_send(2000).status.success());
        let unread: TcpStream = serve.ask_for_much_and_read_nothing();
        std::fs::write(&fault, "").expect("writes");
        eventually("health tells", || serve.page("/health").0 == 503);
        assert!(serve.page("/health").1.contains("the thread [housekeeping] panicked"));
        drop(unread);
        assert_eq!(serve.wait().code(), Some(1));
    }
}

/// The address that the ready line shows leads on, and each figure is described by its whole name.
#[test]
fn the_console_has_a_first_page_and_figures_that_are_described() {
    let mut serve = Serve::start(Ports::free(), Stdio::null(), Stdio::null(), &[]);
    serve.wait_until_up();
    let (status, page) = serve.page("/");
    assert_eq!(status, 200);
    for link in ["href=\"/health\"", "href=\"/metrics\""] {
        assert!(page.contains(link), "[{link}] in {page}");
    }
    let plain = serve.page("/metrics").1;
    for line in ["# HELP sluice_messages_in_total Messages stored.", "# TYPE sluice_messages_in_total counter"] {
        assert!(plain.lines().any(|one| one == line), "[{line}] in {plain}");
    }
    assert!(serve.bench_send(10).status.success());
    let slowest = serve
        .page("/metrics")
        .1
        .lines()
        .find_map(|line| line.strip_prefix("sluice_publish_max_seconds ").map(str::to_owned));
    let slowest: f64 = slowest.and_then(|value| value.parse().ok()).expect("a number");
    assert!((0.0..60.0).contains(&slowest), "{slowest} s");
}
