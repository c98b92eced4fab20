//! Machines of a test: each has an address of its own on a network that they share with the test alone, and sees no processes but its own.
//!
//! Needs root, for a machine is a network, mount and process namespace. What runs on one ends with it.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::java::{BROKER_VERSION, peer_script};
use crate::process::Process;
use crate::sluice::binary;

/// The test's own address.
const HERE: &str = "10.0.0.254";
const STARTED_WITHIN: Duration = Duration::from_secs(10);

/// Start and stop scripts of RocketMQ's distribution, which is not in the public registry as its jars are.
const SCRIPTS: [(&str, &str); 3] = [
    ("mqnamesrv", "HEAP='-Xms128m -Xmx256m' exec PEER mqnamesrv VERSION . \"$@\""),
    ("mqbroker", "HEAP='-Xms512m -Xmx512m -XX:MaxDirectMemorySize=512m' exec PEER mqbroker VERSION . \"$@\""),
    // As there: it asks, and does not wait.
    ("mqshutdown", "pid=$(pidof java) || { echo \"No mq$1 running.\"; exit 255; }; kill $pid"),
];

/// What the machines are wired to; the thread that made it, and what it starts, is on it too.
#[derive(Debug)]
pub struct Network {
    _switch: Process,
}

/// One machine.
#[derive(Debug)]
pub struct Machine {
    _holder: Process,
    /// Its first process, whose namespaces are the machine's.
    first: u32,
    /// Where its directories are.
    folder: PathBuf,
    /// Its address.
    pub address: String,
}

fn run(line: &str) {
    let status = Command::new("sh").args(["-ec", line]).status().expect("a shell");
    assert!(status.success(), "{line}");
}

impl Network {
    /// Makes a network and moves this thread to it; `None` if this user may not.
    pub fn enter() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let line = format!(
            "ip link set lo up; ip link add switch type bridge; ip addr add {HERE}/24 dev switch; ip link set switch up; \
             echo up; exec sleep infinity"
        );
        let mut switch = Process::start("a switch", Command::new("unshare").args(["--net", "sh", "-ec", &line]));
        switch.wait_for_line(STARTED_WITHIN, |line| line == "up");
        let space = std::fs::File::open(format!("/proc/{}/ns/net", switch.id())).expect("a network");
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).expect("it can be entered");
        Some(Self { _switch: switch })
    }

    /// Adds a machine, with what it keeps below `folder`: `sluice` and `mqadmin` are found there, RocketMQ's distribution is where its
    /// commands run.
    pub fn add(&self, address: &str, folder: &Path) -> Machine {
        let flags = ["--net", "--mount", "--mount-proc", "--pid", "--fork", "--kill-child"];
        let mut command = Command::new("unshare");
        command.args(flags).args(["sh", "-c", "echo up; exec sleep infinity"]);
        let mut holder = Process::start(address, &mut command);
        holder.wait_for_line(STARTED_WITHIN, |line| line == "up");
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let first = std::fs::read_to_string(children).expect("a kernel that tells").trim().parse().expect("one child");
        let machine = Machine { _holder: holder, first, folder: folder.to_owned(), address: address.to_owned() };
        let port = format!("port{}", address.rsplit('.').next().expect("an address"));
        run(&format!(
            "ip link add {port} type veth peer name eth0 netns {first}; ip link set {port} master switch up; \
             nsenter --target {first} --net sh -ec \
             'ip link set lo up; ip addr add {address}/24 dev eth0; ip link set eth0 up; ip route add default via {HERE}'"
        ));
        machine.install();
        machine
    }
}

impl Machine {
    fn install(&self) {
        let write = |path: &str, text: &str| {
            let path = self.folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
            std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).expect("writes");
            run(&format!("chmod +x '{}'", path.display()));
        };
        let peer = peer_script().display().to_string();
        let of_peer = |text: &str| text.replace("PEER", &peer).replace("VERSION", BROKER_VERSION);
        for (name, text) in SCRIPTS {
            write(&format!("rocketmq/bin/{name}"), &of_peer(text));
        }
        write("bin/mqadmin", &of_peer("exec PEER mqadmin VERSION \"$@\""));
        std::os::unix::fs::symlink(binary(), self.folder.join("bin/sluice")).expect("links");
    }

    /// Where a path of the machine is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// A line of shell on the machine. Its folders `/data` and `/etc/rocketmq` are the machine's.
    fn command(&self, line: &str) -> Command {
        let mut line = line.to_owned();
        for folder in ["/data/", "/etc/rocketmq/"] {
            line = line.replace(folder, &format!("{}/", self.path(folder).display()));
        }
        let first = self.first.to_string();
        let (bin, home) = (self.folder.join("bin"), self.folder.join("rocketmq"));
        let script = format!("export PATH={}:$PATH; cd {} && {line}", bin.display(), home.display());
        let mut command = Command::new("nsenter");
        command.args(["--target", &first, "--net", "--mount", "--pid", "sh", "-c", &script]);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a line of shell to its end.
    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("nsenter")
    }

    /// Starts a line of shell that goes on; what it says beside its standard output is in [`Self::log`].
    pub fn start(&self, line: &str) -> Process {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log")).expect("a log");
        Process::start(&format!("{line} on {}", self.address), self.command(line).stderr(log))
    }

    /// What its processes have logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} logged:\n{}", self.address, self.log());
        }
    }
}
