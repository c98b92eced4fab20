//! A child process that ends with the value that stands for it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A running process and the lines of its standard output.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts `command`; its standard output is read line by line.
    pub fn start(name: &str, command: &mut Command) -> Self {
        Self::spawn(name, command.stdin(Stdio::null()))
    }

    /// The same of a program that is told what to do by lines of its standard input.
    pub fn start_told(name: &str, command: &mut Command) -> Self {
        Self::spawn(name, command.stdin(Stdio::piped()))
    }

    fn spawn(name: &str, command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started ({command:?}): {error}"));
        let output = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { name: name.to_owned(), child, lines }
    }

    /// Writes a line into its standard input.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a program that is told what to do");
        writeln!(input, "{line}").unwrap_or_else(|error| panic!("{} is not listening: {error}", self.name));
    }

    /// Gives its output to somebody else, who reads it line by line.
    pub fn take_lines(&mut self) -> Receiver<String> {
        std::mem::replace(&mut self.lines, channel().1)
    }

    /// The next line of output that `is_wanted`.
    pub fn wait_for_line(&mut self, limit: Duration, is_wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if is_wanted(&line) => return line,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} did not say what was expected within {limit:?}", self.name)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{} ended without saying what was expected: {:?}", self.name, self.child.wait());
                }
            }
        }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(&mut self, limit: Duration) -> ExitStatus {
        let process = rustix::process::Pid::from_child(&self.child);
        let asked = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        assert!(asked.is_ok(), "{} cannot be signalled: {asked:?}", self.name);
        self.wait(limit)
    }

    /// Waits for its end.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < deadline, "{} did not end within {limit:?}", self.name);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it says until its end.
    pub fn rest_of_output(&mut self, limit: Duration) -> (ExitStatus, Vec<String>) {
        let status = self.wait(limit);
        (status, self.lines.iter().collect())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
