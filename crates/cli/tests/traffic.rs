//! `sluice produce` and `sluice consume` with the built binary, in both protocols: what goes in comes out, once, whole and in order; what
//! was not printed is not settled; what goes wrong is named.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use support::{Ports, Serve, eventually};

fn start() -> Serve {
    let mut serve = Serve::start(Ports::free(), Stdio::null(), Stdio::null(), &[]);
    serve.wait_until_up();
    eventually("its topics are known", || {
        let output = sluice(&serve.rocketmq_target(), "consume nowhere", b"");
        error_of(&output).contains("there is no topic")
    });
    serve
}

fn command(target: &str, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(words.split_whitespace()).args(["--target", target]).stdin(Stdio::null());
    command
}

/// Runs a command to its end with that on its standard input.
fn sluice(target: &str, words: &str, input: &[u8]) -> Output {
    let mut command = command(target, words);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // Who ends early reads not all of it.
    let writing = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    writing.join().expect("it wrote");
    output
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command that has to go well prints.
fn printed(target: &str, words: &str) -> Vec<u8> {
    let output = sluice(target, words, b"");
    assert!(output.status.success(), "{words}: {}", error_of(&output));
    output.stdout
}

fn produce(target: &str, words: &str, input: &[u8]) {
    let output = sluice(target, &format!("produce {words}"), input);
    assert!(output.status.success(), "{words}: {}", error_of(&output));
}

fn lines(range: std::ops::Range<u32>) -> Vec<u8> {
    range.flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

/// Each byte, with line ends and what is no text.
fn every_byte() -> Vec<u8> {
    (0..=u8::MAX).cycle().take(100_000).collect()
}

/// A consumer that goes on until it is told to end.
struct Following {
    child: Child,
}

impl Following {
    fn start(target: &str, words: &str) -> Self {
        let mut command = command(target, words);
        Self { child: command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts") }
    }

    /// Waits for so many lines.
    fn read(&mut self, count: usize) -> Vec<String> {
        let stdout = self.child.stdout.as_mut().expect("a pipe");
        // A byte at a time: what comes behind them is left there.
        let mut reader = BufReader::with_capacity(1, stdout);
        (0..count)
            .map(|_| {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                line.trim_end().to_owned()
            })
            .collect()
    }

    /// Ctrl-C; gives its exit code and what it still printed.
    fn stop(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        let mut rest = String::new();
        self.child.stdout.take().expect("a pipe").read_to_string(&mut rest).expect("text");
        (self.child.wait().expect("it ends").code(), rest)
    }
}

#[test]
fn lines_come_out_of_a_topic_as_they_went_in() {
    let serve = start();
    let target = serve.rocketmq_target();
    let many = lines(0..30_000);
    produce(&target, "orders --create --queue 0", &many);
    assert!(printed(&target, "consume orders") == many, "in order");
    produce(&target, "spread --create", &many);
    let spread = printed(&target, "consume spread");
    let sorted = |text: &[u8]| {
        let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert!(sorted(&spread) == sorted(&many), "each once");
    assert_eq!(printed(&target, "consume orders --from 29998"), b"29998\n29999\n");
    assert_eq!(printed(&target, "consume orders --from -2 --count 1"), b"29998\n");
    assert_eq!(printed(&target, "consume orders --from latest"), b"");
    assert_eq!(printed(&target, "consume orders --from 1h --count 1"), b"0\n");
}

#[test]
fn a_body_comes_out_byte_for_byte_with_its_key_tag_and_headers() {
    let serve = start();
    let (rocketmq, amqp) = (serve.rocketmq_target(), serve.amqp_target());
    let _ = serve.sluice(&["bench", "send", "--target", &amqp, "--topic", "work", "--queues", "1", "--count", "0"]);
    for (target, destination, extra) in [(&rocketmq, "t", "--create --key k --tag A"), (&amqp, "work", "")] {
        let body = every_byte();
        produce(target, &format!("{destination} --whole --header h=x=y {extra}"), &body);
        let json = match destination {
            "t" => printed(target, "consume t --json --tag A||B"),
            _ => printed(target, "consume work --json --peek"),
        };
        let line: serde_json::Value = serde_json::from_slice(&json).expect("a line of JSON");
        assert_eq!(line["headers"]["h"], "x=y", "{line}");
        assert!(line["body"].is_null() && line["body_base64"].is_string());
        assert!(printed(target, &format!("consume {destination} --format %s")) == body, "{destination}");
        // And once more by way of JSON.
        produce(target, &format!("{destination} --json"), &json);
        let again = match destination {
            "t" => "consume t --from -1 --format %s",
            _ => "consume work --format %s",
        };
        let again = printed(target, again);
        assert!(again.ends_with(&body), "{destination}");
    }
    assert_eq!(printed(&rocketmq, "consume t --from -1 --format %k/%g/%h/%p --queue 0"), b"k/A/h=x=y/0");
    assert_eq!(printed(&rocketmq, "consume t --tag C"), b"");
    assert!(printed(&rocketmq, "consume t --hex --count 1").starts_with(b"000102"));
}

#[test]
fn a_group_goes_on_behind_what_was_printed() {
    let serve = start();
    let target = serve.rocketmq_target();
    produce(&target, "orders --create --queue 1", &lines(0..10));
    assert_eq!(printed(&target, "consume orders --group g --count 3"), b"0\n1\n2\n");
    assert_eq!(
        printed(&target, "consume orders --group g --count 2 --json").iter().filter(|byte| **byte == b'\n').count(),
        2
    );
    // A reader that is gone before the first byte settles nothing.
    let closed = std::io::pipe().expect("a pipe").1;
    let mut unread = command(&target, "consume orders --group g");
    let unread = unread.stdout(Stdio::from(closed)).stderr(Stdio::piped()).output().expect("it ends");
    assert_eq!((unread.status.code(), error_of(&unread).as_str()), (Some(0), ""));
    // Ctrl-C settles what was printed.
    let mut following = Following::start(&target, "consume orders --group g --follow");
    assert_eq!(following.read(5), ["5", "6", "7", "8", "9"]);
    produce(&target, "orders --queue 3", &lines(10..13));
    assert_eq!(following.read(3), ["10", "11", "12"]);
    assert_eq!(following.stop(), (Some(0), String::new()));
    let rest = sluice(&target, "consume orders --group g", b"");
    assert!(rest.status.success() && rest.stdout.is_empty() && error_of(&rest).contains("group g has all"));
    assert_eq!(printed(&target, "consume orders --group other --from latest"), b"");
}

#[test]
fn members_of_a_group_share_its_queues() {
    let serve = start();
    let target = serve.rocketmq_target();
    produce(&target, "orders --create --queue 0", b"first\n");
    let words = "consume orders --group g --follow --format %p:%s\\n";
    let mut first = Following::start(&target, words);
    assert_eq!(first.read(1), ["0:first"]);
    let mut second = Following::start(&target, words);
    // Both know of each other within some seconds: until then the first may have them all.
    let mut number = 0;
    let both = loop {
        number += 1;
        assert!(number < 60, "the second gets nothing");
        produce(&target, "orders --queue 3", format!("{number}\n").as_bytes());
        thread::sleep(std::time::Duration::from_millis(250));
        let seen = serve.sluice(&["admin", "group", "describe", "g", "--json", "--console", &serve.console()]);
        if String::from_utf8_lossy(&seen.stdout).matches("sluice@").count() >= 2 && number > 10 {
            break number;
        }
    };
    produce(&target, "orders --queue 0", b"to the first\n");
    produce(&target, "orders --queue 3", b"to the second\n");
    let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
    while of_second.last().is_none_or(|line| line != "3:to the second") {
        of_second.extend(second.read(1));
    }
    while of_first.last().is_none_or(|line| line != "0:to the first") {
        of_first.extend(first.read(1));
    }
    assert!(of_first.iter().all(|line| line != "3:to the second"), "{of_first:?} {both}");
    // Who is left has all.
    assert_eq!(second.stop().0, Some(0));
    produce(&target, "orders --queue 3", b"left\n");
    while of_first.last().is_none_or(|line| line != "3:left") {
        of_first.extend(first.read(1));
    }
    assert_eq!(first.stop().0, Some(0));
    let rest = printed(&target, "consume orders --group g");
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

#[test]
fn a_queue_gives_each_message_once_and_keeps_what_was_not_printed() {
    let serve = start();
    let target = serve.amqp_target();
    for queue in ["work", "other"] {
        let _ =
            serve.sluice(&["bench", "send", "--target", &target, "--topic", queue, "--queues", "1", "--count", "0"]);
    }
    let many = lines(0..20_000);
    produce(&target, "work", &many);
    assert_eq!(printed(&target, "consume work --peek --count 2"), b"0\n1\n");
    assert_eq!(printed(&target, "consume work --count 2"), b"0\n1\n");
    let closed = std::io::pipe().expect("a pipe").1;
    let mut unread = command(&target, "consume work");
    let unread = unread.stdout(Stdio::from(closed)).stderr(Stdio::piped()).output().expect("it ends");
    assert_eq!((unread.status.code(), error_of(&unread).as_str()), (Some(0), ""));
    assert!(printed(&target, "consume work") == lines(2..20_000), "in order, and once");
    let mut following = Following::start(&target, "consume work --follow");
    produce(&target, "work", &lines(0..3));
    assert_eq!(following.read(3), ["0", "1", "2"]);
    assert_eq!(following.stop(), (Some(0), String::new()));
    let rest = sluice(&target, "consume work", b"");
    assert!(rest.status.success() && rest.stdout.is_empty() && error_of(&rest).contains("nothing to consume"));
    // Ways through exchanges: the nameless one knows every queue by its name.
    produce(&target, "--exchange amq.topic --routing-key a.b", b"");
    let lost = sluice(&target, "produce --exchange amq.topic --routing-key a.b", b"x\n");
    assert_eq!(lost.status.code(), Some(1));
    assert!(error_of(&lost).contains("line 1 of standard input was not stored") && error_of(&lost).contains("binding"));
}

#[test]
fn what_goes_wrong_is_named_with_its_line_and_what_is_near() {
    let serve = start();
    let target = serve.rocketmq_target();
    produce(&target, "orders --create --queue 0", b"x\n");
    for (words, code, told) in [
        ("consume ordrs", 1, "did you mean orders?"),
        ("produce oders --body x", 1, "did you mean orders?"),
        ("produce orders --body x --queue 99", 1, "it has 0 to"),
        ("consume orders --queue b:0", 1, "it has 0 to"),
        ("produce orders --body x --transient", 2, "--transient"),
        ("produce orders --body x --delay 7s", 2, "1s 5s 10s"),
        ("produce orders --body x --header KEYS=1", 1, "--key"),
        ("produce orders --file /nowhere", 1, "/nowhere cannot be read"),
        ("consume orders --format %y", 2, "%s %S"),
        ("consume orders --from yesterday", 2, "earliest"),
        ("produce", 2, "DESTINATION"),
    ] {
        let output = sluice(&target, words, b"");
        assert_eq!(output.status.code(), Some(code), "{words}: {}", error_of(&output));
        assert!(error_of(&output).contains(told), "{words}: {}", error_of(&output));
    }
    for (words, code) in [("consume orders", 3), ("produce orders --body x", 3)] {
        for away in ["rocketmq://127.0.0.1:1", "rocketmq-broker://127.0.0.1:1", "amqp://127.0.0.1:1"] {
            let output = sluice(away, words, b"");
            assert_eq!(output.status.code(), Some(code), "{words}: {}", error_of(&output));
            assert!(error_of(&output).contains("is it running there"), "{}", error_of(&output));
        }
    }
    let amqp = serve.amqp_target();
    let nobody = sluice(&amqp, "consume nobody", b"");
    assert!(nobody.status.code() == Some(1) && error_of(&nobody).contains("sluice admin queue list"), "{nobody:?}");
    // The third line is longer than a broker takes; the second of these is no JSON.
    let long = [&b"a\nb\n"[..], &vec![b'x'; 5 << 20], b"\nc\n"].concat();
    let output = sluice(&target, "produce orders --queue 1", &long);
    assert_eq!(output.status.code(), Some(1));
    assert!(error_of(&output).contains("line 3 of standard input was not stored"), "{}", error_of(&output));
    assert_eq!(printed(&target, "consume orders --queue 1"), b"a\nb\n");
    let output = sluice(&target, "produce orders --queue 2 --json", b"{\"body\":\"a\"}\n{\n{\"body\":\"c\"}\n");
    assert!(output.status.code() == Some(1) && error_of(&output).contains("line 2 of standard input"), "{output:?}");
    assert_eq!(printed(&target, "consume orders --queue 2"), b"a\n");
}

#[test]
fn a_delayed_message_comes_when_it_is_due() {
    let serve = start();
    let target = serve.rocketmq_target();
    produce(&target, "orders --create", b"now\n");
    let begun = std::time::Instant::now();
    produce(&target, "orders --delay 1s --body later", b"");
    assert_eq!(printed(&target, "consume orders"), b"now\n");
    let mut following = Following::start(&target, "consume orders --from latest --follow");
    assert_eq!(following.read(1), ["later"]);
    assert!(begun.elapsed() >= std::time::Duration::from_secs(1));
    assert_eq!(following.stop().0, Some(0));
}

#[test]
fn a_stream_is_read_from_where_one_says_and_keeps_its_messages() {
    let serve = start();
    let target = serve.amqp_target();
    let made = serve.sluice(&[
        "bench",
        "send",
        "--target",
        &target,
        "--topic",
        "events",
        "--queues",
        "1",
        "--count",
        "0",
        "--queue-argument",
        "x-queue-type=stream",
    ]);
    drop(made);
    produce(&target, "events", &lines(0..5));
    assert_eq!(printed(&target, "consume events --from 3"), b"3\n4\n");
    assert_eq!(printed(&target, "consume events"), lines(0..5));
    assert_eq!(printed(&target, "consume events --from earliest --count 2 --format %o:%s\\n"), b"0:0\n1:1\n");
}
