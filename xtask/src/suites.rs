//! Suites of the package conformance. Most put the machine to work, and are run one after the other; the rest wait for times to pass and for
//! Java to start more than they work, and are run side by side.

use std::fs;
use std::fs::File;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::limit;
use crate::repository::root;

/// Suites that leave the processors idle for more than half of their time, and measure nothing; those first that take longest.
const WAITING: [&str; 16] = [
    "swap_matrix",
    "java_directory",
    "replication",
    "pop",
    "mqadmin",
    "migration_guide",
    "java_clients",
    "several_disks",
    "failover",
    "kills",
    "mixed_cluster",
    "name_servers",
    "amqp_clients",
    "slaves",
    "monitoring",
    "page",
];

/// Suites that run at a time,
const SIDE_BY_SIDE: usize = 2;
/// tests of one that do,
const THREADS: usize = 2;
/// and of one that has a great many that only wait.
const THREADS_OF_POP: usize = 8;

/// How long one of them may take; the longest takes 3 minutes.
const LIMIT: Duration = Duration::from_secs(12 * 60);

/// How long building them may take.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

const COMMAND: &str = "test --release --package conformance";

/// Names of all suites: each is a file or a folder.
fn all() -> Vec<String> {
    let folder = root().join("conformance/tests");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

/// Arguments of `cargo` that run the suites that do not wait.
pub fn one_after_the_other() -> String {
    let working = all().into_iter().filter(|suite| !WAITING.contains(&&**suite));
    let named: String = working.map(|suite| format!(" --test {suite}")).collect();
    // A suite that fails keeps no other from being run.
    format!("{COMMAND} --no-fail-fast --lib{named}")
}

/// Runs the suites that wait. Each tells what it did once it has ended.
pub fn run_side_by_side() -> Result<(), String> {
    match limit::status(&mut cargo(&format!("{COMMAND} --tests --no-run")), BUILD_LIMIT) {
        Ok(status) if status.success() => {}
        Ok(_) => return Err("the suites cannot be built".to_owned()),
        Err(error) => return Err(format!("the suites cannot be built: {error}")),
    }
    let (left, failed) = (Mutex::new(WAITING.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(suite) = next() {
                    if !run(suite)
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(*suite);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if failed.is_empty() { Ok(()) } else { Err(format!("suites that failed: {}", failed.join(", "))) }
}

/// Whether all tests of a suite passed.
fn run(suite: &str) -> bool {
    match run_within(suite, LIMIT) {
        Ok((status, told)) => {
            println!("{told}");
            status.success()
        }
        Err(error) => {
            println!("{suite}: {error}");
            false
        }
    }
}

/// How a suite ended, and what it printed: into a file, which can be read when its processes hang.
fn run_within(suite: &str, limit: Duration) -> io::Result<(ExitStatus, String)> {
    let threads = if suite == "pop" { THREADS_OF_POP } else { THREADS };
    let folder = root().join("target/suites");
    fs::create_dir_all(&folder)?;
    let printed = folder.join(format!("{suite}.log"));
    let out = File::create(&printed)?;
    let mut command = cargo(&format!("{COMMAND} --test {suite} -- --test-threads {threads}"));
    let status = limit::status(command.stderr(out.try_clone()?).stdout(out), limit);
    let told = String::from_utf8_lossy(&fs::read(&printed)?).into_owned();
    match status {
        Ok(status) => Ok((status, told)),
        Err(error) => Err(io::Error::new(error.kind(), format!("{error}\n{told}"))),
    }
}

fn cargo(arguments: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments.split_whitespace()).current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_suite_is_run_once() {
        let (all, working) = (all(), one_after_the_other());
        assert!(WAITING.iter().all(|suite| all.iter().any(|known| known == suite)), "{all:?}");
        assert_eq!(working.matches(" --test ").count() + WAITING.len(), all.len());
    }
}
