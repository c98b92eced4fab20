//! A `sluice serve` of its own directory and ports, whatever its standard output and error are.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A loaded machine gets much time.
const LIMIT: Duration = Duration::from_secs(60);

/// How often is looked whether something has come true.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `is_so`; fails if it takes too long.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Ports of a process.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub name_server: u16,
    pub rocketmq: u16,
    pub console: u16,
    pub amqp: u16,
}

impl Ports {
    /// Ports nobody uses, from below those the system gives to outgoing connections.
    pub fn free() -> Self {
        Self { name_server: free_port(), rocketmq: free_port(), console: free_port(), amqp: free_port() }
    }
}

fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    loop {
        // Test programs that run at the same time begin at different places. A broker takes the port two below its own too.
        let slot =
            (std::process::id() as u16).wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % 5000;
        let port = 12_000 + 4 * slot;
        if [port, port + 2].iter().all(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return port + 2;
        }
    }
}

/// A running `sluice serve`.
pub struct Serve {
    child: Child,
    ports: Ports,
    data: PathBuf,
    scratch: Option<tempfile::TempDir>,
}

impl Serve {
    /// Starts it over a new directory.
    pub fn start(ports: Ports, stdout: Stdio, stderr: Stdio, variables: &[(&str, &str)]) -> Self {
        Self::start_within(&[], ports, stdout, stderr, variables)
    }

    /// The same, by a program that becomes it.
    pub fn start_within(
        wrapper: &[&str],
        ports: Ports,
        stdout: Stdio,
        stderr: Stdio,
        variables: &[(&str, &str)],
    ) -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        let data = scratch.path().join("data");
        let child = spawn(wrapper, &data, ports, stdout, stderr, variables);
        Self { child, ports, data, scratch: Some(scratch) }
    }

    /// Starts it once more over the same directory.
    pub fn start_again(&mut self) -> Self {
        let child = spawn(&[], &self.data, self.ports, Stdio::null(), Stdio::piped(), &[]);
        Self { child, ports: self.ports, data: self.data.clone(), scratch: self.scratch.take() }
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Waits until the console says that it works.
    pub fn wait_until_up(&mut self) {
        eventually("it is up", || {
            assert!(matches!(self.child.try_wait(), Ok(None)), "it ended");
            self.try_page("/health").is_some_and(|(status, _)| status == 200)
        });
    }

    /// Address of the console.
    pub fn console(&self) -> String {
        format!("127.0.0.1:{}", self.ports.console)
    }

    /// Status and body of a page of the console.
    pub fn page(&self, path: &str) -> (u16, String) {
        self.try_page(path).expect("the console answers")
    }

    fn try_page(&self, path: &str) -> Option<(u16, String)> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports.console)).ok()?;
        write!(socket, "GET {path} HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n").ok()?;
        let mut page = String::new();
        socket.read_to_string(&mut page).ok()?;
        let (head, body) = page.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// A figure of the metrics page.
    pub fn figure(&self, name: &str) -> u64 {
        let (_, page) = self.page("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {page}"))
    }

    /// Has it log a line: bytes that are no frame.
    pub fn send_nonsense(&self) {
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports.rocketmq)).expect("it listens");
        socket.write_all(&[0xff; 16]).expect("sends");
        let _ = socket.read(&mut [0]);
    }

    /// Sends `count` messages to queue 0 of the topic `bench`.
    pub fn bench_send(&self, count: u32) -> Output {
        let target = format!("rocketmq-broker://127.0.0.1:{}", self.ports.rocketmq);
        let count = count.to_string();
        self.sluice(&["bench", "send", "--target", &target, "--topic", "bench", "--queues", "1", "--count", &count])
    }

    /// Where its name server is.
    pub fn rocketmq_target(&self) -> String {
        format!("rocketmq://127.0.0.1:{}", self.ports.name_server)
    }

    /// Where it speaks AMQP.
    pub fn amqp_target(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.ports.amqp)
    }

    /// Runs another `sluice` to its end.
    pub fn sluice(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sluice")).args(arguments).output().expect("it runs")
    }

    /// A client that pulls what was sent many times over, and takes nothing of it.
    pub fn ask_for_much_and_read_nothing(&self) -> TcpStream {
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports.rocketmq)).expect("it listens");
        for opaque in 0..1000 {
            socket.write_all(&pull_request(opaque)).expect("sends");
        }
        // It has begun to answer.
        socket.peek(&mut [0]).expect("an answer");
        socket
    }

    /// What it logs, if standard error was piped.
    pub fn take_stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("a pipe")
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.wait_for(LIMIT)
    }

    /// Waits for its end.
    pub fn wait_for(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < deadline, "it did not end within {limit:?}");
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// What it logged, if standard error was piped; after its end.
    pub fn log(&mut self) -> String {
        let mut text = String::new();
        self.take_stderr().read_to_string(&mut text).expect("text");
        text
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(
    wrapper: &[&str],
    data: &Path,
    ports: Ports,
    stdout: Stdio,
    stderr: Stdio,
    variables: &[(&str, &str)],
) -> Child {
    let mut words = wrapper.iter().copied().chain([env!("CARGO_BIN_EXE_sluice")]);
    let mut command = Command::new(words.next().expect("at least the binary"));
    command.args(words).arg("serve").arg("--data").arg(data);
    for setting in [
        format!("nameserver.port={}", ports.name_server),
        format!("rocketmq.port={}", ports.rocketmq),
        format!("console.port={}", ports.console),
        format!("amqp.port={}", ports.amqp),
        // A small segment and no bound on the disk: a full disk is another test's matter.
        "storage.segment_size=4MiB".to_owned(),
        "retention.disk_refuse_percent=100".to_owned(),
        "retention.force_enabled=false".to_owned(),
    ] {
        command.arg("--set").arg(setting);
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.spawn().expect("it starts")
}

/// 11 PULL_MESSAGE of the first messages, with a JSON header.
fn pull_request(opaque: u32) -> Vec<u8> {
    let header = format!(
        r#"{{"code":11,"language":"JAVA","version":493,"opaque":{opaque},"flag":0,"extFields":{{"consumerGroup":"reader","topic":"bench","queueId":"0","queueOffset":"0","maxMsgNums":"32","sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0","subscription":"*","subVersion":"0"}}}}"#
    );
    let length = header.len() as u32;
    [&(length + 4).to_be_bytes(), &length.to_be_bytes(), header.as_bytes()].concat()
}
