//! What signals do to the built binary: as they do to a Java virtual machine, on which RocketMQ's brokers run, but for HUP.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use support::{Ports, Serve, eventually};

/// Less than `server.drain_timeout`, by far.
const SOON: Duration = Duration::from_secs(20);

/// As a terminal starts it, also where the tests themselves run without one and have SIGHUP ignored.
fn start() -> Serve {
    let wrapper = ["env", "--default-signal=HUP"];
    let mut serve = Serve::start_within(&wrapper, Ports::free(), Stdio::null(), Stdio::piped(), &[]);
    serve.wait_until_up();
    serve
}

#[test]
fn ctrl_c_and_kill_stop_it_in_good_order() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut serve = start();
        assert!(serve.bench_send(10).status.success());
        serve.signal(signal);
        assert_eq!(serve.wait().code(), Some(0), "{signal:?}");
        assert!(!serve.data().join("abort").exists(), "{signal:?}");
    }
}

/// As a service manager asks for it; `nohup` has SIGHUP ignored before the program begins.
#[test]
fn asked_by_hup_it_reads_its_settings_again_and_goes_on() {
    for wrapper in [&["env", "--default-signal=HUP"][..], &["nohup"]] {
        let mut serve = Serve::start_within(wrapper, Ports::free(), Stdio::null(), Stdio::piped(), &[]);
        serve.wait_until_up();
        let mut lines = BufReader::new(serve.take_stderr()).lines().map_while(Result::ok);
        serve.signal(Signal::HUP);
        let told = lines.any(|line| line.contains("the settings were read again: nothing is different"));
        assert!(told, "{wrapper:?}");
        assert!(serve.bench_send(10).status.success());
        serve.signal(Signal::TERM);
        assert_eq!(serve.wait().code(), Some(0));
    }
}

#[test]
fn settings_change_while_it_runs_and_what_needs_a_restart_is_refused() {
    let serve = start();
    let set = |setting: &str| serve.sluice(&["admin", "--console", &serve.console(), "broker", "set", setting]);
    assert!(set("retention.age=12h").status.success());
    let late = set("storage.flush=sync");
    assert_eq!(late.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&late.stderr).contains("storage.flush cannot change while the process runs"));
    assert!(set("maxMessageSize=10").status.success(), "by RocketMQ's name");
    let refused = String::from_utf8_lossy(&serve.bench_send(10).stdout).into_owned();
    assert!(refused.contains("at most 10 are allowed"), "{refused}");
    assert!(set("message.size_max=4MiB").status.success());
    assert!(serve.bench_send(10).status.success());
}

/// A service manager listens as systemd does.
#[test]
fn a_service_manager_is_told_that_it_is_ready_still_answers_and_stops() {
    let scratch = tempfile::tempdir().expect("directory");
    let path = scratch.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(SOON)).expect("a limit");
    let next = || {
        let mut bytes = [0; 4096];
        let size = socket.recv(&mut bytes).expect("it tells");
        String::from_utf8_lossy(&bytes[..size]).into_owned()
    };
    let variables = [("NOTIFY_SOCKET", path.to_str().expect("text")), ("WATCHDOG_USEC", "200000")];
    // As systemd says whom it means.
    let wrapper = ["sh", "-c", "WATCHDOG_PID=$$ exec \"$0\" \"$@\""];
    let serve = Serve::start_within(&wrapper, Ports::free(), Stdio::null(), Stdio::null(), &variables);
    let told: Vec<_> = std::iter::repeat_with(next).take_while(|told| !told.contains("READY=1")).collect();
    assert!(told.iter().all(|told| told == "WATCHDOG=1\n"), "{told:?}");
    assert!(serve.sluice(&["admin", "broker", "ready", "--console", &serve.console()]).status.success());
    for _ in 0..3 {
        assert_eq!(next(), "WATCHDOG=1\n");
    }
    serve.signal(Signal::TERM);
    let stopping = std::iter::repeat_with(next).find(|told| told.contains("STOPPING=1")).expect("one");
    assert!(stopping.contains("STATUS=the process was asked to stop"), "{stopping}");
}

#[test]
fn it_tells_its_state_when_asked_and_goes_on() {
    for signal in [Signal::QUIT, Signal::USR1] {
        let mut serve = start();
        assert!(serve.bench_send(10).status.success());
        let mut lines = BufReader::new(serve.take_stderr()).lines().map_while(Result::ok);
        serve.signal(signal);
        let mut told = String::new();
        while !told.contains("figures of the broker") {
            told.push_str(&lines.next().expect("it goes on to tell"));
            told.push('\n');
        }
        for words in [
            "up_seconds",
            "name=\"housekeeping\" state=\"",
            "name=\"log-writer\"",
            "connections_accepted=",
            "messages_in=10",
        ] {
            assert!(told.contains(words), "[{words}] in: {told}");
        }
        assert!(serve.bench_send(10).status.success());
        serve.signal(Signal::TERM);
        assert_eq!(serve.wait().code(), Some(0));
    }
}

/// The broker opens when the test lets it read a document, and by then a client has the only place at its own name server.
const OPENED_LATE: &str = r#"
    mkdir -p "$3/config" && mkfifo "$3/config/topics.json" && echo '{}' > "$3/config/topics.json.bak" &&
    exec "$0" "$@" --set server.connections_max=1"#;

#[test]
fn asked_before_it_is_ready_it_ends_in_good_order() {
    let ports = Ports::free();
    let wrapper = ["sh", "-c", OPENED_LATE];
    let mut serve = Serve::start_within(&wrapper, ports, Stdio::null(), Stdio::piped(), &[]);
    let mut client = None;
    eventually("its name server listens", || {
        client = TcpStream::connect(("127.0.0.1", ports.name_server)).ok();
        client.is_some()
    });
    let document = OpenOptions::new().write(true).open(serve.data().join("config/topics.json"));
    drop(document.expect("the broker reads it"));
    let mut lines = BufReader::new(serve.take_stderr()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("register")).expect("it tells");
    assert!(line.contains("cannot register"), "{line}");
    serve.signal(Signal::TERM);
    assert_eq!(serve.wait_for(SOON).code(), Some(0));
    assert!(!serve.data().join("abort").exists());
}

/// The first signal waits for a client that does not take its answers, the second does not. Nothing is lost by it.
#[test]
fn asked_once_more_it_ends_at_once_and_still_in_good_order() {
    let mut serve = start();
    assert!(serve.bench_send(2000).status.success());
    let _unread = serve.ask_for_much_and_read_nothing();
    serve.signal(Signal::TERM);
    eventually("it stops", || serve.page("/health").1.contains("asked to stop"));
    serve.signal(Signal::INT);
    assert_eq!(serve.wait_for(SOON).code(), Some(0));
    assert!(!serve.data().join("abort").exists());
}
