//! RabbitMQ's official clients, unchanged, against `sluice serve` with an AMQP port. Each program checks its own promises.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use conformance::certificates::Authority;
use conformance::program::{self, amqp_programs, java, run};
use conformance::sluice::{Setup, Sluice};
use conformance::{free_port, message_count};

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

#[test]
fn pika_finds_every_promise_kept() {
    let scratch = tempfile::tempdir().expect("directory");
    let (_, _sluice, port) = serve(&scratch.path().join("data"));
    let said = run(&mut python("check.py", &[&port.to_string()]));
    assert!(said.lines().count() >= 9 && said.lines().all(|line| line.ends_with("holds")), "{said}");
}

#[test]
fn pika_finds_queues_exchanges_and_channels_to_do_what_they_can() {
    let scratch = tempfile::tempdir().expect("directory");
    let (_, _sluice, port) = serve(&scratch.path().join("data"));
    let said = run(&mut python("features.py", &[&port.to_string()]));
    assert!(said.lines().count() == 16 && said.lines().all(|line| line.ends_with("holds")), "{said}");
}

#[test]
fn pika_says_all_there_is_to_say() {
    let scratch = tempfile::tempdir().expect("directory");
    let (_, _sluice, port) = serve(&scratch.path().join("data"));
    run(&mut python("speak.py", &[&port.to_string()]));
}

#[test]
fn pika_is_let_in_by_a_certificate_of_a_user_over_a_port_of_tls_alone() {
    let (scratch, authority, port) = (tempfile::tempdir().expect("directory"), Authority::new(), free_port());
    ["server", "guest", "stranger"].iter().for_each(|name| authority.sign(name));
    let path = |file: &str| authority.path(file).display().to_string();
    let sluice = Setup::serve(&scratch.path().join("data"))
        .set("amqp.tls_port", port)
        .set("tls.certificate", path("server.pem"))
        .set("tls.key", path("server.key"))
        .set("tls.client_auth", "optional")
        .set("tls.client_ca", path("ca.pem"))
        .start();
    assert!(sluice.ready_line.contains(&format!("AMQP with TLS 127.0.0.1:{port}")), "{}", sluice.ready_line);
    let port = port.to_string();
    let connect = |name: &str| {
        let files = ["ca.pem", &format!("{name}.pem"), &format!("{name}.key")].map(path);
        run(&mut python("certificate.py", &[&port, &files[0], &files[1], &files[2]]))
    };
    assert_eq!(connect("guest").trim(), "let in: by certificate");
    let refused = connect("stranger");
    assert!(refused.starts_with("refused:") && refused.contains("EXTERNAL"), "{refused}");
}

#[test]
fn go_says_all_there_is_to_say_and_moves_every_message_in_order() {
    let scratch = tempfile::tempdir().expect("directory");
    let (_, _sluice, port) = serve(&scratch.path().join("data"));
    let folder = amqp_programs().join("go");
    let (port, count) = (port.to_string(), message_count(5_000).to_string());
    run(Command::new("go").current_dir(&folder).args(["run", ".", &port]));
    let said = run(Command::new("go").current_dir(&folder).args(["run", "./move", &port, &count]));
    assert!(said.starts_with("moved "), "{said}");
}

#[test]
fn java_moves_every_message_in_order() {
    let scratch = tempfile::tempdir().expect("directory");
    let (_, _sluice, port) = serve(&scratch.path().join("data"));
    let count = message_count(20_000);
    let said = run(java("java", scratch.path(), &format!("{port} {count}")).arg("-Dexec.mainClass=Move"));
    assert!(said.contains(&format!("moved {count}")), "{said}");
}

/// A program that runs until its broker is gone.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started"))
    }

    fn end(mut self) -> String {
        let mut said = String::new();
        self.0.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
        self.0.wait().expect("ended");
        said
    }
}

#[test]
fn after_kills_no_confirmed_message_is_lost_and_none_that_was_acknowledged_comes_again() {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, mut sluice, port) = serve(&scratch.path().join("data"));
    let at = port.to_string();
    let producing = Running::start(&mut python("ledger.py", &["produce", &at, "ledger"]));
    std::thread::sleep(Duration::from_secs(3));
    let settled = run(&mut python("ledger.py", &["settle", &at, "ledger", "200"]));
    // What is settled is told to the log within 10 ms.
    std::thread::sleep(Duration::from_millis(100));
    sluice.kill();
    let confirmed = producing.end();
    drop(sluice);
    let _sluice = setup.start();
    let drained = run(&mut python("ledger.py", &["drain", &at, "ledger"]));
    let numbers =
        |text: &str| -> Vec<u64> { text.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect() };
    let (confirmed, settled) = (numbers(&confirmed), numbers(&settled));
    let came = numbers(&drained);
    assert!(confirmed.len() > 300 && settled.len() == 200, "{} {}", confirmed.len(), settled.len());
    let again: Vec<_> = came.iter().filter(|number| settled.contains(number)).collect();
    assert!(again.is_empty(), "acknowledged ones came again: {again:?}");
    let left: BTreeSet<u64> = came.iter().chain(&settled).copied().collect();
    let lost: Vec<_> = confirmed.iter().filter(|number| !left.contains(number)).collect();
    assert!(lost.is_empty(), "confirmed ones are lost: {lost:?}");
    assert!(came.is_sorted(), "in order");
    // Ten were on their way when the last consumer went.
    let was_given: BTreeMap<u64, bool> = drained
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(number, again)| Some((number.parse().ok()?, again == "1")))
        .collect();
    assert!(was_given.values().filter(|again| **again).count() <= 10, "{was_given:?}");
}

/// How long before a kill an acknowledgement may have come that is not kept: 10 ms, and more on a loaded machine.
const UNTOLD_S: f64 = 0.25;

#[test]
fn what_is_acknowledged_while_the_broker_is_killed_comes_again_only_if_that_was_just_before_and_says_so() {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, mut sluice, port) = serve(&scratch.path().join("data"));
    let at = port.to_string();
    let producing = Running::start(&mut python("ledger.py", &["produce", &at, "ledger"]));
    std::thread::sleep(Duration::from_secs(2));
    let acknowledging = Running::start(&mut python("ledger.py", &["acknowledge", &at, "ledger"]));
    std::thread::sleep(Duration::from_secs(3));
    let killed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs_f64();
    sluice.kill();
    let (confirmed, acknowledged) = (producing.end(), acknowledging.end());
    drop(sluice);
    let _sluice = setup.start();
    let drained = run(&mut python("ledger.py", &["drain", &at, "ledger"]));
    let pairs = |text: &str| -> BTreeMap<u64, f64> {
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.filter_map(|(number, with)| Some((number.parse().ok()?, with.parse().ok()?))).collect()
    };
    // Of what was sent at last nobody knows whether the broker had it.
    let sent: BTreeSet<u64> =
        acknowledged.lines().filter_map(|line| line.strip_suffix(" sent")?.parse().ok()).collect();
    let (acknowledged, came) = (pairs(&acknowledged), pairs(&drained));
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    for number in confirmed.lines().filter_map(|line| line.parse::<u64>().ok()) {
        assert!(sent.contains(&number) || came.contains_key(&number), "{number} is lost");
    }
    for (number, again) in &came {
        let Some(at) = acknowledged.get(number) else { continue };
        assert!(*at > killed - UNTOLD_S, "{number} was acknowledged {} s before the kill", killed - at);
        assert!(*again > 0.0, "{number} was delivered before, and has to say so");
    }
}
