//! Programs that may take only so long: what hangs is told of and killed with those it started and theirs, and fails like anything else.
//!
//! What was started by a program that has ended meanwhile is init's, and stays.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How long a killed program is waited for: one that waits for a disk in the kernel does not die.
const LAST: Duration = Duration::from_secs(5);

/// Runs a program to its end. An error of the kind `TimedOut`, which names the processes that were there, if it takes longer than `limit`.
pub fn status(command: &mut Command, limit: Duration) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    if let Some(status) = wait(&mut child, limit)? {
        return Ok(status);
    }
    let running = descendants(child.id(), &processes());
    let told: String = running.iter().map(|process| format!("\n  {process}")).collect();
    let numbers = running.iter().map(|process| process.number.to_string());
    // Those behind first: a program whose child ends may start the next.
    let _ = Command::new("kill").arg("-KILL").args(numbers).status();
    wait(&mut child, LAST)?;
    let message = format!("{command:?} is killed after {} s; there were{told}", limit.as_secs());
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        match child.try_wait()? {
            None if began.elapsed() < limit => thread::sleep(LOOK),
            ended => return Ok(ended),
        }
    }
}

/// A process, as `/proc` shows it.
#[derive(Clone, Debug)]
struct Process {
    number: u32,
    parent: u32,
    /// A letter: `D` waits in the kernel and cannot be killed.
    state: String,
    arguments: String,
}

impl std::fmt::Display for Process {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:>7} {} {}", self.number, self.state, self.arguments)
    }
}

/// All processes of this machine. One that ends meanwhile is left out.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(process).collect()
}

fn process(number: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name, in parentheses, may itself have some and spaces.
    let mut behind_name = stat.rsplit_once(')')?.1.split_whitespace();
    let state = behind_name.next()?.to_owned();
    let parent = behind_name.next()?.parse().ok()?;
    let arguments = fs::read(format!("/proc/{number}/cmdline")).ok()?;
    let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
    Some(Process { number, parent, state, arguments: arguments.chars().take(200).collect() })
}

/// A process and all that it started, those it started first.
fn descendants(number: u32, all: &[Process]) -> Vec<Process> {
    let mut children: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found: Vec<Process> = all.iter().filter(|process| process.number == number).cloned().collect();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let started = children.remove(&process.number).unwrap_or_default();
        found.extend(started.into_iter().cloned());
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_ends_in_time_tells_how() {
        let status = |script| status(&mut shell(script), Duration::from_secs(60)).map(|status| status.success());
        assert!(matches!(status("exit 0"), Ok(true)));
        assert!(matches!(status("exit 3"), Ok(false)));
    }

    #[test]
    fn what_hangs_is_killed_with_what_it_started_and_told_of() {
        let began = Instant::now();
        // The shell waits for a program of its own.
        let ended = status(&mut shell("sleep 61.5; exit 0"), Duration::from_millis(300));
        let Err(error) = ended else { panic!("{ended:?}") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("sleep 61.5 "), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30));
        let is_left = |process: &Process| process.arguments.starts_with("sleep 61.5") && process.state != "Z";
        assert!(!processes().iter().any(is_left));
    }
}
