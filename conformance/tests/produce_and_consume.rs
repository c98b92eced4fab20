//! `sluice produce` and `sluice consume` against the official brokers, and beside an official consumer in its group: what goes in comes out
//! once and in order, and what was not printed is not settled.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use conformance::free_port;
use conformance::java::{JavaBroker, JavaNameServer, result_of, run_program, start_program, wait_until_started};
use conformance::process::Process;
use conformance::sluice::{Setup, binary};
use rustix::process::{Pid, Signal, kill_process};

/// A loaded machine gets much time.
const LIMIT: Duration = Duration::from_secs(60);

fn command(target: &str, words: &str) -> Command {
    let mut command = Command::new(binary());
    command.args(words.split_whitespace()).args(["--target", target]).stdin(Stdio::null());
    command
}

/// Runs a command to its end with that on its standard input.
fn run(target: &str, words: &str, input: &[u8]) -> Output {
    let mut command = command(target, words);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let (mut stdin, input) = (child.stdin.take().expect("a pipe"), input.to_vec());
    // Who ends early reads not all of it.
    std::thread::spawn(move || drop(stdin.write_all(&input)));
    child.wait_with_output().expect("it ends")
}

/// What a command prints that has to go well.
fn printed(target: &str, words: &str, input: &[u8]) -> Vec<u8> {
    let output = run(target, words, input);
    assert!(output.status.success(), "{words}: {}", told(&output));
    output.stdout
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(range: std::ops::Range<u32>) -> Vec<u8> {
    range.flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

fn every_byte() -> Vec<u8> {
    (0..=u8::MAX).cycle().take(300_000).collect()
}

/// A consumer that goes on until Ctrl-C.
struct Following {
    child: std::process::Child,
    lines: Receiver<String>,
}

impl Following {
    fn start(target: &str, words: &str) -> Self {
        let mut child = command(target, words).stdout(Stdio::piped()).spawn().expect("it starts");
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line")
    }

    /// All that it still printed.
    fn stop(mut self) -> Vec<String> {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        let rest = self.lines.iter().collect();
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
        rest
    }
}

/// What holds of a topic at any broker of RocketMQ's protocol.
fn topics_hold(target: &str) {
    let many = lines(0..20_000);
    printed(target, "produce orders --create --queue 0", &many);
    assert!(printed(target, "consume orders", b"") == many, "in order");
    assert_eq!(printed(target, "consume orders --group g --count 3", b""), b"0\n1\n2\n");
    assert_eq!(printed(target, "consume orders --group g --count 2", b""), b"3\n4\n");
    let following = Following::start(target, "consume orders --group g --follow");
    assert_eq!(following.next(), "5");
    (6..20_000).for_each(|number: u32| assert_eq!(following.next(), number.to_string()));
    printed(target, "produce orders --queue 1 --body later", b"");
    assert_eq!(following.next(), "later");
    assert!(following.stop().is_empty());
    assert_eq!(printed(target, "consume orders --group g", b""), b"");
    printed(target, "produce orders --queue 2 --whole --key k --tag T --header a=b", &every_byte());
    assert!(printed(target, "consume orders --queue 2 --format %s", b"") == every_byte());
    assert_eq!(printed(target, "consume orders --tag T --format %k/%g/%h/%p/%o/%S", b""), b"k/T/a=b/2/0/300000");
    printed(target, "produce orders --queue 3 --delay 1s --body held", b"");
    assert_eq!(printed(target, "consume orders --queue 3", b""), b"");
    let following = Following::start(target, "consume orders --queue 3 --follow");
    assert_eq!(following.next(), "held");
    following.stop();
    for (words, near) in [("consume ordrs", "did you mean orders?"), ("produce ordrs --body x", "did you mean orders?")]
    {
        let output = run(target, words, b"");
        assert!(output.status.code() == Some(1) && told(&output).contains(near), "{words}: {}", told(&output));
    }
    let long = [&b"a\nb\n"[..], &vec![b'x'; 5 << 20], b"\nc\n"].concat();
    let output = run(target, "produce orders --queue 1", &long);
    assert!(told(&output).contains("line 3 of standard input was not stored"), "{}", told(&output));
    assert_eq!(printed(target, "consume orders --queue 1", b""), b"later\na\nb\n");
}

/// A group of which one member is an official consumer and one is `sluice consume`: each message comes to one of them.
fn group_is_shared(name_server: &str, scratch: &Path) {
    const COUNT: u32 = 4_000;
    let target = format!("rocketmq://{name_server}");
    let (expect_file, topic) = (scratch.join("expected"), "shared");
    // The topic is there by then, and the group behind what is no part of the run.
    printed(&target, "produce shared --create --queue 0 --body first", b"");
    assert_eq!(printed(&target, "consume shared --group mixed", b""), b"first\n");
    let flags = [
        ("topic", topic),
        ("group", "mixed"),
        ("run", "r"),
        ("from", "first"),
        ("tag-expression", "*"),
        ("expect-file", expect_file.to_str().expect("text")),
    ];
    let official = start_program("5.4.0", "Consume", name_server, scratch, &flags);
    wait_until_started(scratch);
    let ours = Following::start(&target, "consume shared --group mixed --follow --format %p:%i\\n");
    // Until both have their share.
    std::thread::sleep(Duration::from_secs(5));
    let count = COUNT.to_string();
    run_program("5.4.0", "Produce", name_server, scratch, &[("topic", topic), ("count", &count), ("run", "r")]);
    std::thread::sleep(Duration::from_secs(3));
    let mut seen = ours.stop();
    seen.sort();
    let given = seen.len();
    seen.dedup();
    let mut queues: Vec<_> = seen.iter().filter_map(|line| line.split_once(':')).map(|(queue, _)| queue).collect();
    queues.dedup();
    assert_eq!(queues.len(), 2, "half of the queues: {queues:?}");
    assert_eq!(given, seen.len(), "each once");
    let theirs = COUNT as usize - seen.len();
    std::fs::write(&expect_file, format!("{theirs}\n")).expect("written");
    let result = result_of(official, scratch, LIMIT);
    assert!((1_000..3_000).contains(&theirs), "{result}");
    assert_eq!(printed(&target, "consume shared --group mixed", b""), b"", "all is settled");
}

#[test]
fn topics_of_an_official_broker_and_a_group_with_an_official_consumer() {
    let scratch = tempfile::tempdir().expect("directory");
    let name_server = JavaNameServer::start(&scratch.path().join("names"));
    let broker = JavaBroker::start(&scratch.path().join("broker"), &name_server.address, &[]);
    topics_hold(&format!("rocketmq://{}", name_server.address));
    group_is_shared(&name_server.address, scratch.path());
    drop(broker);
}

#[test]
fn topics_of_sluice_and_a_group_with_an_official_consumer() {
    let scratch = tempfile::tempdir().expect("directory");
    let mut sluice = Setup::serve(&scratch.path().join("data")).start();
    let target = format!("rocketmq://{}", sluice.name_server);
    topics_hold(&target);
    group_is_shared(&sluice.name_server, scratch.path());
    // A broker that goes away is named, by its address.
    let mut following = command(&target, "consume orders --follow --from latest");
    let following = following.stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(1));
    sluice.kill();
    let output = following.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains(&sluice.broker), "{}", told(&output));
}

/// Debian's RabbitMQ, until it is dropped.
fn rabbitmq(directory: &Path) -> (Process, Process, String) {
    let script = conformance::repository().join("peers/rabbitmq/rabbitmq");
    let (names, port) = (free_port().to_string(), free_port());
    let process = |name: &str, arguments: &[&str]| {
        let errors = std::fs::File::create(directory.join(format!("{name}.log"))).expect("log");
        Process::start(name, Command::new(&script).args(arguments).stderr(errors))
    };
    let names_process = process("names", &["names", "3.10.8", &names]);
    let broker = directory.join("broker");
    let arguments = ["broker", "3.10.8", broker.to_str().expect("text"), &port.to_string(), &names];
    let mut broker = process("rabbitmq", &arguments);
    let deadline = Instant::now() + 3 * LIMIT;
    let target = format!("amqp://127.0.0.1:{port}");
    while run(&target, "consume nobody", b"").status.code() != Some(1) {
        assert!(broker.is_running() && Instant::now() < deadline, "RabbitMQ does not start");
        std::thread::sleep(Duration::from_millis(200));
    }
    (broker, names_process, target)
}

#[test]
fn queues_and_streams_of_rabbitmq() {
    let scratch = tempfile::tempdir().expect("directory");
    let (_broker, _names, target) = rabbitmq(scratch.path());
    for queue in ["--topic work", "--topic events --queue-argument x-queue-type=stream"] {
        printed(&target, &format!("bench send --queues 1 --count 1 {queue}"), b"");
    }
    printed(&target, "consume work", b"");
    let many = lines(0..20_000);
    printed(&target, "produce work", &many);
    assert_eq!(printed(&target, "consume work --peek --count 2", b""), b"0\n1\n");
    assert_eq!(printed(&target, "consume work --count 2", b""), b"0\n1\n");
    let closed = std::io::pipe().expect("a pipe").1;
    let unread = command(&target, "consume work").stdout(Stdio::from(closed)).stderr(Stdio::piped()).output();
    let unread = unread.expect("it ends");
    assert_eq!((unread.status.code(), told(&unread).as_str()), (Some(0), ""));
    assert!(printed(&target, "consume work", b"") == lines(2..20_000), "in order, and once");
    let following = Following::start(&target, "consume work --follow");
    printed(&target, "produce work --whole", b"x\ny");
    assert_eq!((following.next(), following.next()), ("x".to_owned(), "y".to_owned()));
    following.stop();
    assert_eq!(printed(&target, "consume work", b""), b"");
    let line = br#"{"body_base64":"/wA=","headers":{"n":5,"t":"x","deep":{"b":true}}}"#;
    printed(&target, "produce work --json", line);
    let back: serde_json::Value =
        serde_json::from_slice(&printed(&target, "consume work --json", b"")).expect("a line of JSON");
    assert_eq!((&back["headers"]["n"], &back["headers"]["deep"]["b"]), (&5.into(), &true.into()), "{back}");
    assert_eq!(back["body_base64"], "/wA=");
    let lost = run(&target, "produce --exchange amq.topic --routing-key a.b", b"x\n");
    assert!(lost.status.code() == Some(1) && told(&lost).contains("line 1 of standard input was not stored"));
    printed(&target, "produce events", &lines(1..5));
    assert_eq!(printed(&target, "consume events --from 3", b""), b"3\n4\n");
    assert!(printed(&target, "consume events", b"").ends_with(b"\n1\n2\n3\n4\n"));
}
