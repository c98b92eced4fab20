//! RabbitMQ's official clients, unchanged, against `sluice serve` with an AMQP port. Each program checks its own promises.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conformance::certificates::Authority;
use conformance::process::Process;
use conformance::program::{self, amqp_programs, java, run};
use conformance::sluice::{Setup, Sluice};
use conformance::{free_port, kill_count, message_count};

/// A program that takes so long does not end.
const LIMIT: Duration = Duration::from_secs(120);

fn serve(data: &Path) -> (Setup, Sluice, u16) {
    let (setup, port) = Setup::serve_amqp(data);
    let sluice = setup.start();
    assert!(sluice.ready_line.contains(&format!("AMQP 127.0.0.1:{port}")), "{}", sluice.ready_line);
    (setup, sluice, port)
}

fn python(program: &str, arguments: &[&str]) -> Command {
    let mut command = program::python("pika.txt");
    command.arg(program).args(arguments);
    command
}

/// Runs a program that says `NAME: holds` for each of `count` promises.
fn keeps(count: usize, command: &mut Command) {
    let said = run(command);
    assert!(said.lines().count() == count && said.lines().all(|line| line.ends_with(": holds")), "{said}");
}

#[test]
fn pika_finds_connections_exchanges_and_channels_to_do_what_they_can() {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, port) = Setup::serve_amqp(&scratch.path().join("data"));
    let _sluice = setup.set("listen.host", "0.0.0.0").start();
    let mut program = python("check.py", &[&port.to_string()]);
    match conformance::own_address() {
        Some(address) => _ = program.arg(address.to_string()),
        None => conformance::skip("that guests come from this machine alone needs an address beside loopback"),
    }
    keeps(14, &mut program);
}

#[test]
fn pika_finds_queues_to_do_what_they_can() {
    let scratch = tempfile::tempdir().expect("directory");
    let (_, _sluice, port) = serve(&scratch.path().join("data"));
    keeps(11, &mut python("queues.py", &[&port.to_string()]));
}

#[test]
fn pika_says_all_there_is_to_say() {
    let scratch = tempfile::tempdir().expect("directory");
    let (_, _sluice, port) = serve(&scratch.path().join("data"));
    run(&mut python("speak.py", &[&port.to_string()]));
}

/// A broker that knows users by certificates, at a port of TLS alone.
fn serve_with_certificates(data: &Path, authority: &Authority) -> (Setup, Sluice, [String; 2]) {
    ["server", "guest", "stranger"].iter().for_each(|name| authority.sign(name));
    let path = |file: &str| authority.path(file).display().to_string();
    let (setup, port) = Setup::serve_amqp(data);
    let tls_port = free_port();
    let setup = setup
        .set("amqp.tls_port", tls_port)
        .set("tls.certificate", path("server.pem"))
        .set("tls.key", path("server.key"))
        .set("tls.client_auth", "optional")
        .set("tls.client_ca", path("ca.pem"));
    let sluice = setup.start();
    assert!(sluice.ready_line.contains(&format!("AMQP with TLS 127.0.0.1:{tls_port}")), "{}", sluice.ready_line);
    (setup, sluice, [port.to_string(), tls_port.to_string()])
}

#[test]
fn pika_is_let_in_by_a_certificate_of_a_user_over_a_port_of_tls_alone() {
    let (scratch, authority) = (tempfile::tempdir().expect("directory"), Authority::new());
    let (_, _sluice, [_, port]) = serve_with_certificates(&scratch.path().join("data"), &authority);
    let connect = |name: &str| {
        let files = ["ca.pem", &format!("{name}.pem"), &format!("{name}.key")];
        let files = files.map(|file| authority.path(file).display().to_string());
        run(&mut python("certificate.py", &[&port, &files[0], &files[1], &files[2]]))
    };
    assert_eq!(connect("guest").trim(), "let in: by certificate");
    let refused = connect("stranger");
    assert!(refused.starts_with("refused:") && refused.contains("EXTERNAL"), "{refused}");
}

#[test]
fn go_finds_every_promise_kept_says_all_there_is_to_say_and_moves_every_message_in_order() {
    let (scratch, authority) = (tempfile::tempdir().expect("directory"), Authority::new());
    let (_, _sluice, [port, tls_port]) = serve_with_certificates(&scratch.path().join("data"), &authority);
    let folder = amqp_programs().join("go");
    let go = |arguments: &[&str]| run(Command::new("go").current_dir(&folder).arg("run").args(arguments));
    let certificates = authority.path("").display().to_string();
    let said = go(&["./check", &port, &tls_port, &certificates]);
    assert!(said.lines().count() == 11 && said.lines().all(|line| line.ends_with(": holds")), "{said}");
    go(&[".", &port]);
    let said = go(&["./move", &port, &message_count(5_000).to_string()]);
    assert!(said.starts_with("moved "), "{said}");
}

#[test]
fn java_finds_every_promise_kept_moves_every_message_in_order_and_recovers_from_a_kill() {
    let (scratch, authority) = (tempfile::tempdir().expect("directory"), Authority::new());
    let (setup, mut sluice, [port, tls_port]) = serve_with_certificates(&scratch.path().join("data"), &authority);
    let arguments = format!("{port} {tls_port} {} {}", authority.path("").display(), message_count(20_000));
    let mut command = java("java", scratch.path(), &arguments);
    let mut check = Process::start_told("the Java client", command.arg("-Dexec.mainClass=Check"));
    check.wait_for_line(LIMIT, |line| line == "restart");
    sluice.kill();
    let _sluice = setup.start();
    check.tell("it is back");
    check.wait_for_line(LIMIT, |line| line == "recovery after a kill: holds");
    assert!(check.wait(LIMIT).success());
}

/// A program that runs until its broker is gone.
struct Running {
    process: Process,
    lines: Receiver<String>,
    said: String,
}

impl Running {
    fn start(name: &str, command: &mut Command) -> Self {
        let mut process = Process::start(name, command.stderr(Stdio::null()));
        let lines = process.take_lines();
        Self { process, lines, said: String::new() }
    }

    /// Waits for so many lines that are wanted.
    fn wait_for(&mut self, mut count: usize, is_wanted: impl Fn(&str) -> bool) {
        while count > 0 {
            let line = self.lines.recv_timeout(LIMIT).expect("a line");
            count -= usize::from(is_wanted(&line));
            self.said.extend([&line, "\n"]);
        }
    }

    fn end(mut self) -> String {
        self.lines.iter().for_each(|line| self.said.extend([&line, "\n"]));
        self.process.wait(LIMIT);
        self.said
    }
}

/// How long before a kill an acknowledgement may have come that is not kept: 10 ms, and more on a loaded machine.
const UNTOLD_S: f64 = 0.25;

/// Lines `NUMBER WHAT` of a ledger.
fn entries<T: FromStr>(said: &str) -> Vec<(u64, T)> {
    let entries = said.lines().filter_map(|line| line.split_once(' '));
    entries.filter_map(|(number, what)| Some((number.parse().ok()?, what.parse().ok()?))).collect()
}

#[test]
fn a_kill_takes_nothing_confirmed_gives_back_only_what_was_acknowledged_just_before_and_marks_what_somebody_had() {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, mut sluice, port) = serve(&scratch.path().join("data"));
    let at = port.to_string();
    for kill in 0..kill_count(2) {
        let queue = format!("ledger-{kill}");
        let mut producing = Running::start("the producer", &mut python("ledger.py", &["produce", &at, &queue]));
        let mut acknowledging = Running::start("the consumer", &mut python("ledger.py", &["acknowledge", &at, &queue]));
        producing.wait_for(101, |_| true);
        acknowledging.wait_for(51, |line| !line.ends_with("given") && !line.ends_with("sent"));
        std::thread::sleep(Duration::from_secs(1));
        let killed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64();
        sluice.kill();
        let (produced, consumed) = (producing.end(), acknowledging.end());
        sluice = setup.start();
        let came = entries::<u8>(&run(&mut python("ledger.py", &["drain", &at, &queue])));
        judge(&produced, &consumed, &came, killed);
    }
}

fn judge(produced: &str, consumed: &str, came: &[(u64, u8)], killed: f64) {
    let told = |what: &str| -> BTreeSet<u64> {
        entries::<String>(consumed).into_iter().filter(|(_, said)| said == what).map(|(number, _)| number).collect()
    };
    // Of what was sent at last nobody knows whether the broker had it.
    let (given, sent) = (told("given"), told("sent"));
    let acknowledged: BTreeMap<u64, f64> = entries(consumed).into_iter().collect();
    let confirmed: Vec<u64> = produced.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(confirmed.len() > 100 && acknowledged.len() > 50, "{} {}", confirmed.len(), acknowledged.len());
    let there: BTreeMap<u64, u8> = came.iter().copied().collect();
    let lost: Vec<_> =
        confirmed.iter().filter(|number| !sent.contains(number) && !there.contains_key(number)).collect();
    assert!(lost.is_empty(), "confirmed and lost: {lost:?}");
    assert!(came.is_sorted() && there.len() == came.len(), "in order and once");
    let is_late = |number: &&u64| acknowledged.get(number).is_some_and(|at| *at < killed - UNTOLD_S);
    let again: Vec<_> = there.keys().filter(is_late).collect();
    assert!(again.is_empty(), "acknowledged and there again: {again:?}");
    let unmarked: Vec<_> = there.iter().filter(|(number, marked)| given.contains(number) && **marked == 0).collect();
    assert!(unmarked.is_empty(), "somebody had them, and they are not marked: {unmarked:?}");
    assert!(given.iter().any(|number| there.contains_key(number)), "some had not been acknowledged");
}
