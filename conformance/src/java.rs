//! Official Java processes: the client programs of `conformance/java`, and RocketMQ's own broker, name server and mqadmin.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Process;
use crate::{free_port, repository};

/// Official client versions the programs are built against.
pub const CLIENT_VERSIONS: [&str; 2] = ["4.9.7", "5.4.0"];
/// The official broker we exchange directories and processes with.
pub const BROKER_VERSION: &str = "5.4.0";

/// What the second compiler of the Java machine would make of processes that end soon is not worth its time. What they do is the same.
const SHORT_LIVED: &str = "-XX:TieredStopAtLevel=1";

/// Builds the programs of one language, once in a test run; done in a moment when they are up to date.
fn build(language: &'static str, built: &'static OnceLock<()>) {
    built.get_or_init(|| {
        let script = repository().join("conformance").join(language).join("build");
        let status = Command::new(&script).stdout(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "{} failed", script.display());
    });
}

/// Starts one client program; `version` is the client's, or `go` for the Go programs.
pub fn start_program(version: &str, main: &str, name_server: &str, scratch: &Path, flags: &[(&str, &str)]) -> Process {
    start_program_with("", version, main, name_server, scratch, flags)
}

/// The same with properties of the Java system, such as `-Dtls.enable=true`.
pub fn start_program_with(
    properties: &str,
    version: &str,
    main: &str,
    name_server: &str,
    scratch: &Path,
    flags: &[(&str, &str)],
) -> Process {
    let mut command = program(properties, version, main, name_server, scratch, flags);
    Process::start(&format!("{main} {version}"), &mut command)
}

/// The same of a program that is told what to do by lines of its standard input.
pub fn start_program_told(
    version: &str,
    main: &str,
    name_server: &str,
    scratch: &Path,
    flags: &[(&str, &str)],
) -> Process {
    let mut command = program("", version, main, name_server, scratch, flags);
    Process::start_told(&format!("{main} {version}"), &mut command)
}

fn program(
    properties: &str,
    version: &str,
    main: &str,
    name_server: &str,
    scratch: &Path,
    flags: &[(&str, &str)],
) -> Command {
    static GO: OnceLock<()> = OnceLock::new();
    static JAVA: OnceLock<()> = OnceLock::new();
    let mut command = if version == "go" {
        build("go", &GO);
        let mut command = Command::new(repository().join("conformance/go/bin").join(main.to_lowercase()));
        command.args(["--namesrv", name_server]);
        command
    } else {
        build("java", &JAVA);
        let mut command = Command::new(repository().join("conformance/java/run"));
        command.args([version, main, "--namesrv", name_server]);
        command.env("HEAP", format!("-Xms64m -Xmx512m -XX:+UseSerialGC {SHORT_LIVED} {properties}"));
        command
    };
    for (name, value) in flags {
        command.arg(format!("--{name}")).args((!value.is_empty()).then_some(value));
    }
    let errors = std::fs::OpenOptions::new().create(true).append(true).open(scratch.join("programs.log")).expect("log");
    command.env("LOGS", scratch.join(format!("client-{main}-{version}"))).stderr(errors);
    command
}

/// Waits until a program of that scratch folder has said that it has started, which a consumer does once it is known to the broker.
pub fn wait_until_started(scratch: &Path) {
    let began = Instant::now();
    while !std::fs::read_to_string(scratch.join("programs.log")).is_ok_and(|log| log.contains("started")) {
        assert!(began.elapsed() < Duration::from_secs(60), "no program has started");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a program's end and gives its one line of result, whether or not the promise it checks held.
pub fn verdict_of(mut program: Process, limit: Duration) -> (bool, Option<Value>) {
    let (status, lines) = program.rest_of_output(limit);
    (status.success(), lines.iter().rev().find_map(|line| serde_json::from_str(line).ok()))
}

/// Waits for a program's end and gives its one line of result; the promise it checks must have held.
pub fn result_of(program: Process, scratch: &Path, limit: Duration) -> Value {
    let (has_held, said) = verdict_of(program, limit);
    if has_held {
        return said.expect("a line of result");
    }
    let log = std::fs::read_to_string(scratch.join("programs.log")).unwrap_or_default();
    let tail: Vec<_> = log.lines().rev().take(25).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
    panic!("the promise did not hold: {said:?}\n{tail}");
}

/// Runs one client program to its end.
pub fn run_program(version: &str, main: &str, name_server: &str, scratch: &Path, flags: &[(&str, &str)]) -> Value {
    let program = start_program(version, main, name_server, scratch, flags);
    result_of(program, scratch, Duration::from_secs(600))
}

/// Fetches and builds what starting them needs, while there is a network to do it by.
pub fn prepare() {
    static JAVA: OnceLock<()> = OnceLock::new();
    build("java", &JAVA);
    let status = Command::new(peer_script()).args(["fetch", BROKER_VERSION]).status();
    assert!(status.is_ok_and(|status| status.success()), "the official broker is not fetched");
}

/// The script that fetches and starts official processes.
pub(crate) fn peer_script() -> PathBuf {
    repository().join("peers/rocketmq/rocketmq")
}

/// Runs `command`, which writes into `directory`, until it listens on `port`.
fn start_listening(name: &str, mut command: Command, directory: &Path, port: u16) -> Process {
    std::fs::create_dir_all(directory).expect("directory");
    let errors = directory.join("stderr.log");
    command.stderr(std::fs::File::create(&errors).expect("log"));
    let mut process = Process::start(name, &mut command);
    let deadline = Instant::now() + Duration::from_secs(120);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let said = || std::fs::read_to_string(&errors).unwrap_or_default();
        assert!(process.is_running(), "the {name} ended while starting on port {port}:\n{}", said());
        assert!(Instant::now() < deadline, "the {name} does not listen on port {port}:\n{}", said());
        std::thread::sleep(Duration::from_millis(100));
    }
    process
}

/// An official name server.
#[derive(Debug)]
pub struct JavaNameServer {
    /// Stops with it.
    pub process: Process,
    /// `host:port`.
    pub address: String,
}

impl JavaNameServer {
    /// Starts one.
    pub fn start(directory: &Path) -> Self {
        let port = free_port();
        let mut command = Command::new(peer_script());
        command.args(["namesrv", BROKER_VERSION]).arg(directory).arg(port.to_string());
        command.env("HEAP", format!("-Xms128m -Xmx256m {SHORT_LIVED}"));
        let process = start_listening("official name server", command, directory, port);
        Self { process, address: format!("127.0.0.1:{port}") }
    }
}

/// An official broker.
#[derive(Debug)]
pub struct JavaBroker {
    /// Stops with it.
    pub process: Process,
    /// `host:port`.
    pub address: String,
}

impl JavaBroker {
    /// Starts one over `directory` that registers at `name_server`.
    pub fn start(directory: &Path, name_server: &str, settings: &[&str]) -> Self {
        Self::start_version(BROKER_VERSION, directory, name_server, settings)
    }

    /// The same of a version.
    pub fn start_version(version: &str, directory: &Path, name_server: &str, settings: &[&str]) -> Self {
        Self::start_within(&[], version, directory, name_server, settings)
    }

    /// The same through another program, such as one that gives it a disk of its own.
    pub fn start_within(
        wrapper: &[String],
        version: &str,
        directory: &Path,
        name_server: &str,
        settings: &[&str],
    ) -> Self {
        let port = free_port();
        let script = peer_script().display().to_string();
        let mut words = wrapper.iter().chain([&script]);
        let mut command = Command::new(words.next().expect("at least the script"));
        command.args(words).args(["broker", version]).arg(directory).args([name_server, &port.to_string()]);
        command.args(settings);
        command.env("HEAP", format!("-Xms512m -Xmx512m -XX:MaxDirectMemorySize=512m {SHORT_LIVED}"));
        let process = start_listening("official broker", command, directory, port);
        let broker = Self { process, address: format!("127.0.0.1:{port}") };
        broker.wait_until_registered(name_server);
        broker
    }

    /// Listening comes before registering: clients find the broker only once the name server knows it.
    fn wait_until_registered(&self, name_server: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut connection = crate::connection::Connection::open(name_server);
        while !connection.cluster_info().contains(&self.address) {
            assert!(Instant::now() < deadline, "the official broker did not register at {name_server}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(mut self) {
        self.process.stop(Duration::from_secs(90));
    }
}

/// What the official `mqadmin` prints for a command.
pub fn mqadmin(arguments: &[&str]) -> String {
    let mut command = Command::new(peer_script());
    command.args(["mqadmin", BROKER_VERSION]).args(arguments).stdin(Stdio::null());
    command.env("HEAP", format!("-Xms128m -Xmx256m -XX:+UseSerialGC {SHORT_LIVED}"));
    let output = command.output().expect("mqadmin runs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
