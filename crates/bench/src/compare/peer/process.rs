//! The processes of a cluster: each is started, waited for until it is ready, stopped by its id.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use client::ClientError;
use client::target::Target;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::BenchError;
use crate::rocketmq::replicas::is_followed;

const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// A broker may take a while to write down what it has.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// A Java slave connects to its master every 5 s, once both have registered.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(90);
/// What of its last words an error quotes.
const LAST_WORDS: usize = 1500;

/// How brokers of a comparison are started.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PeerSetup {
    /// Folder everything is written below.
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// Folder that downloaded brokers are kept in.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Processors of the brokers, as in 0,2-3; the load generator has the others.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
}

impl PeerSetup {
    /// The folder that everything is written below.
    pub(crate) fn work_folder(&self) -> &Path {
        self.work.as_deref().unwrap_or(Path::new("/var/tmp"))
    }
}

/// How the processes of one cluster are started, and the folder for all they write.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) setup: &'a PeerSetup,
    pub(super) directory: &'a Path,
}

impl Ground<'_> {
    /// What is called so in the folder, as an argument.
    pub(super) fn path(self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

/// What was started: where it listens, and its processes, brokers first.
pub(super) struct Started {
    pub(super) address: String,
    pub(super) target: Option<Target>,
    pub(super) processes: Vec<Process>,
}

impl Started {
    /// What the load generator can speak to.
    pub(super) fn at(target: Target, processes: Vec<Process>) -> Self {
        Self { address: target.to_string(), target: Some(target), processes }
    }
}

#[derive(Debug)]
pub(super) struct Process {
    name: String,
    command: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`, which may be bound to processors, with what it prints in a log of its own.
    pub(super) fn start(
        name: &str,
        program: &Path,
        arguments: &[&str],
        ground: Ground<'_>,
    ) -> Result<Self, BenchError> {
        let mut command = match &ground.setup.cpus {
            Some(cpus) => {
                let mut bound = Command::new("taskset");
                bound.args(["--cpu-list", cpus]).arg(program);
                bound
            }
            None => Command::new(program),
        };
        command.args(arguments);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let text = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let failed = |source| BenchError::NotStarted { name: name.to_owned(), problem: format!("{text}: {source}") };
        let log = ground.directory.join(format!("{name}.log"));
        let output = File::create(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        // In a group of its own: who stops the run with Ctrl-C does not stop its brokers before it is done with them.
        command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(failed)?;
        Ok(Self { name: name.to_owned(), command: text, child, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn command(&self) -> &str {
        &self.command
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until `is_ready` gives something, but no longer than the process runs; `awaited` is what it was to do until then.
    pub(super) fn wait_until<T>(
        &mut self,
        awaited: &str,
        limit: Duration,
        mut is_ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, BenchError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(ready) = is_ready(self) {
                return Ok(ready);
            }
            let problem = if !self.is_running() {
                format!("it ended before it would {awaited}")
            } else if Instant::now() > deadline {
                format!("it did not {awaited} within {} s", limit.as_secs())
            } else {
                thread::sleep(LOOK_INTERVAL);
                continue;
            };
            let problem = format!("{problem}: {}\n{}", self.command, self.last_words());
            return Err(BenchError::NotStarted { name: self.name.clone(), problem });
        }
    }

    /// Of a slave of the broker `master`: waits until it has what that has.
    pub(super) fn wait_until_it_follows(&mut self, target: &Target, master: &str) -> Result<(), BenchError> {
        self.wait_until(&format!("have the log of {master}"), FOLLOWS_WITHIN, |_| {
            is_followed(target, master).is_ok_and(|is_followed| is_followed).then_some(())
        })
    }

    /// Waits until it listens.
    pub(super) fn wait_for_port(&mut self, port: u16, limit: Duration) -> Result<(), BenchError> {
        self.wait_until(&format!("listen on port {port}"), limit, |_| {
            TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
        })
    }

    /// What it has printed.
    pub(super) fn output(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    fn last_words(&self) -> String {
        let output = self.output();
        let from = output.ceil_char_boundary(output.len().saturating_sub(LAST_WORDS));
        output.get(from..).unwrap_or_default().to_owned()
    }
}

impl Drop for Process {
    /// Asks it to stop, and makes it if it does not.
    fn drop(&mut self) {
        if self.is_running() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.is_running() && Instant::now() < deadline {
            thread::sleep(LOOK_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port nobody listens on at the moment, `spare` below and above it free too.
pub(super) fn free_port(spare: u16) -> Result<u16, BenchError> {
    let refused = |source| {
        BenchError::from(ClientError::Unreachable { role: "loopback", address: "127.0.0.1:0".to_owned(), source })
    };
    loop {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(refused)?;
        let port = listener.local_addr().map_err(refused)?.port();
        let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (1..=spare)
            .all(|step| port.checked_sub(step).is_some_and(is_free) && port.checked_add(step).is_some_and(is_free))
        {
            return Ok(port);
        }
    }
}
