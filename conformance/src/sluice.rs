//! The built binary as a process.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use crate::process::Process;
use crate::{free_port, http, repository};

/// Starting is a matter of milliseconds; a loaded machine gets more.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A running `sluice`.
#[derive(Debug)]
pub struct Sluice {
    process: Process,
    /// Its line on standard output.
    pub ready_line: String,
    /// Name server, `host:port`; empty for a broker alone.
    pub name_server: String,
    /// RocketMQ port, `host:port`; empty for a name server alone.
    pub broker: String,
    /// Console, `host:port`.
    pub console: String,
}

/// How a `sluice` is started.
#[derive(Clone, Debug)]
pub struct Setup {
    arguments: Vec<String>,
    wrapper: Vec<String>,
    /// Where its log goes.
    pub log: PathBuf,
}

/// The binary under test: built beside these tests, or named by `SLUICE_BINARY`.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("SLUICE_BINARY") {
        return path.into();
    }
    let tests = std::env::current_exe().expect("a path");
    let folder = tests.parent().and_then(Path::parent).expect("target folder");
    let beside = folder.join("sluice");
    if beside.exists() { beside } else { repository().join("target/release/sluice") }
}

impl Setup {
    /// Everything in one process over `data`, with ports that stay the same over restarts.
    pub fn serve(data: &Path) -> Self {
        Self::new(data, &["serve", "--data", &data.display().to_string()])
            .set("nameserver.port", free_port())
            .set("rocketmq.port", free_port())
    }

    /// Everything in one process, with a broker over each of `directories`, which take any ports.
    pub fn serve_over(directories: &[&Path]) -> Self {
        let names: Vec<_> = directories.iter().map(|directory| directory.display().to_string()).collect();
        let first = directories.first().expect("at least one directory");
        Self::new(first, &["serve"])
            .set("storage.dirs", names.join(";"))
            .set("nameserver.port", free_port())
            .set("rocketmq.port", 0)
    }

    /// The same with an AMQP port, which it gives too.
    pub fn serve_amqp(data: &Path) -> (Self, u16) {
        let port = free_port();
        (Self::serve(data).set("amqp.port", port), port)
    }

    /// A name server alone.
    pub fn name_server(directory: &Path) -> Self {
        Self::new(directory, &["namesrv"]).set("nameserver.port", 0).set("storage.directory", directory.display())
    }

    /// A broker alone that registers at `name_server`.
    pub fn broker(data: &Path, name_server: &str) -> Self {
        Self::new(data, &["broker", "-n", name_server])
            .set("storage.directory", data.display())
            .set("rocketmq.port", free_port())
    }

    fn new(directory: &Path, arguments: &[&str]) -> Self {
        let log = directory.with_extension("log");
        let arguments = arguments.iter().map(|&text| text.to_owned()).collect();
        let setup = Self { arguments, wrapper: Vec::new(), log };
        // How full the machine's own disk is does not decide whether a test passes.
        setup.set("console.port", 0).set("retention.disk_refuse_percent", 100).set("retention.force_enabled", false)
    }

    /// Adds one setting.
    pub fn set(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
        self
    }

    /// Runs it through another program, such as one that gives it a disk of its own.
    pub fn within(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|&text| text.to_owned()).collect();
        self
    }

    fn command(&self) -> Command {
        let mut words = self.wrapper.iter().map(std::ffi::OsString::from).chain([binary().into()]);
        let mut command = Command::new(words.next().expect("at least the binary"));
        command.args(words).args(&self.arguments);
        command
    }

    /// Starts it and waits for its ready line.
    pub fn start(&self) -> Sluice {
        self.log.parent().map(std::fs::create_dir_all).transpose().expect("a directory for the log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).expect("a log file");
        let mut process = Process::start("sluice", self.command().stderr(log));
        let ready_line = process.wait_for_line(READY_LIMIT, |line| line.contains(" ready in "));
        let after = |word: &str| {
            let rest = ready_line.split(word).nth(1).unwrap_or_default();
            rest.split([',', ' ']).next().unwrap_or_default().trim().trim_start_matches("http://").to_owned()
        };
        let (name_server, broker, console) = (after("name server "), after("RocketMQ "), after("console "));
        Sluice { process, name_server, broker, console, ready_line }
    }

    /// Runs it expecting it to end by itself, as it does when it refuses to start.
    pub fn run_to_end(&self) -> Output {
        let output = self.command().stdin(Stdio::null()).output();
        output.expect("the binary is built: cargo build --release --bin sluice")
    }
}

impl Sluice {
    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks it to stop and waits until everything is on the disk.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.stop(Duration::from_secs(60))
    }

    /// RocketMQ ports of all its brokers, `host:port`.
    pub fn brokers(&self) -> Vec<String> {
        let rest = self.ready_line.split("RocketMQ ").skip(1);
        rest.filter_map(|rest| rest.split([',', ' ']).next()).map(str::to_owned).collect()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The most memory it has had since it was last asked, in bytes.
    pub fn take_memory_peak(&self) -> u64 {
        let process = PathBuf::from(format!("/proc/{}", self.id()));
        let status = std::fs::read_to_string(process.join("status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a kernel that tells the peak");
        let peak: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        std::fs::write(process.join("clear_refs"), "5").expect("the peak can be set back");
        peak << 10
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// The body and status of a page of the console.
    pub fn console_page(&self, path: &str) -> (u16, String) {
        http::get(&self.console, path, &[])
    }
}
