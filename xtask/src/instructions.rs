//! Instruction counts of the hot functions: run under callgrind, compared with what is noted in the repository.
//!
//! Instructions do not depend on how busy the machine is, so a few percent more are a finding, not noise. They do depend on
//! the compiler: a new one may need `--update` in a commit of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::repository::{read, root};
use crate::tools::{installed, succeed};

/// Counts as noted: a line `NAME INSTRUCTIONS` each.
const NOTED_PATH: &str = "crates/dialect/benches/hot/instructions.txt";
const NOTED_HEAD: &str =
    "# Instructions of each benchmark in this folder; cargo xtask instructions --update writes this file.\n";
/// Where the counts of a run are left.
const COUNTS_FOLDER: &str = "target/gungraun/dialect";
/// What is missing, and the remedy.
pub const NO_VALGRIND: &str = "valgrind is not installed, and counts the instructions: apt-get install valgrind";
/// Percent more than noted that fails.
const MORE_MAX: u64 = 5;

/// What becomes of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are compared with those noted.
    Compare,
    /// They are noted.
    Update,
}

type Counts = BTreeMap<String, u64>;

/// Counts, prints and compares or notes.
pub fn run(mode: Mode) -> Result<(), String> {
    let runner = runner()?;
    let folder = root().join(COUNTS_FOLDER);
    // What an earlier run left would be taken for counts of this one.
    let _ = fs::remove_dir_all(&folder);
    eprintln!("counting: crates/dialect/benches/hot is built and run under valgrind");
    let mut bench = Command::new("cargo");
    bench.args(["bench", "--quiet", "--package", "dialect", "--bench", "hot"]).env("GUNGRAUN_RUNNER", runner);
    // Wherever else cargo puts what it builds.
    bench.env("GUNGRAUN_HOME", root().join("target/gungraun"));
    // Its own tables compare with whatever ran last on this machine; what counts is compared below.
    succeed(bench.stdout(Stdio::null()))?;
    let mut counts = Counts::new();
    collect(&folder, &mut counts)?;
    if counts.is_empty() {
        return Err(format!("nothing was counted: there are no results in {COUNTS_FOLDER}"));
    }
    let noted = root().join(NOTED_PATH);
    if mode == Mode::Update {
        print!("{}", compare(&counts, &Counts::new()).0);
        return fs::write(&noted, to_text(&counts)).map_err(|error| format!("{NOTED_PATH}: {error}"));
    }
    let (text, failures) = compare(&counts, &parse(&read(NOTED_PATH)?)?);
    print!("{text}");
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Whether instructions can be counted here.
pub fn valgrind_is_installed() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok()
}

/// The program that starts callgrind for each benchmark; it has to be of the version that the benchmarks are built with.
fn runner() -> Result<PathBuf, String> {
    if !valgrind_is_installed() {
        return Err(NO_VALGRIND.to_owned());
    }
    let lock = read("Cargo.lock")?;
    let version = version_of("gungraun", &lock).ok_or("gungraun is not in Cargo.lock: cargo update --workspace")?;
    installed("gungraun-runner", version)
}

/// The version of a package in a lock file.
fn version_of<'a>(package: &str, lock: &'a str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    rest.split('"').next()
}

/// Reads what callgrind left below `folder`: a file for each benchmark, named by it.
fn collect(folder: &Path, counts: &mut Counts) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(&path, counts)?;
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = name.strip_prefix("callgrind.").and_then(|name| name.strip_suffix(".out")) else { continue };
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let count = instructions_of(&text).ok_or_else(|| format!("{} has no count of instructions", path.display()))?;
        *counts.entry(name.to_owned()).or_default() += count;
    }
    Ok(())
}

/// The instructions of a run: the first of its events, in all.
fn instructions_of(text: &str) -> Option<u64> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next();
    (value("events:")? == "Ir").then(|| value("totals:")?.parse().ok())?
}

fn parse(text: &str) -> Result<Counts, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let entry = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    };
    lines.map(|line| entry(line).ok_or_else(|| format!("{NOTED_PATH}: [{line}] is not NAME INSTRUCTIONS"))).collect()
}

fn to_text(counts: &Counts) -> String {
    let lines = counts.iter().map(|(name, count)| format!("{name} {count}\n"));
    NOTED_HEAD.to_owned() + &lines.collect::<String>()
}

/// A line for each count, and what is wrong.
fn compare(counts: &Counts, noted: &Counts) -> (String, Vec<String>) {
    let width = counts.keys().map(String::len).max().unwrap_or_default();
    let (mut text, mut failures) = (String::new(), Vec::new());
    for (name, &count) in counts {
        let before = noted.get(name).copied();
        let percent = |before: u64| (count as f64 / before as f64 - 1.0) * 100.0;
        let shown = before.map_or("not noted".to_owned(), |before| format!("{:+.1} %", percent(before)));
        text.push_str(&format!("{name:width$}  {count:>9}  {shown:>9}\n"));
        match before {
            Some(before) if count * 100 > before * (100 + MORE_MAX) => {
                failures.push(format!(
                    "{name} takes {count} instructions, {:.1} % more than the {before} noted in {NOTED_PATH}; make it \
                     cheaper, or say in the commit why it must cost more and run cargo xtask instructions --update",
                    percent(before)
                ));
            }
            None if !noted.is_empty() => {
                failures.push(format!("{name} is not noted in {NOTED_PATH}: run cargo xtask instructions --update"));
            }
            _ => {}
        }
    }
    for name in noted.keys().filter(|name| !counts.contains_key(*name)) {
        failures.push(format!(
            "{name} is noted in {NOTED_PATH} and was not counted: run cargo xtask instructions --update"
        ));
    }
    (text, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, u64)]) -> Counts {
        list.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn more_than_five_percent_fails_and_less_does_not() {
        let noted = counts(&[("append", 1000), ("decode", 1000), ("encode", 1000)]);
        let (text, failures) = compare(&counts(&[("append", 1051), ("decode", 1050), ("encode", 500)]), &noted);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].contains("append takes 1051 instructions, 5.1 % more than the 1000"), "{failures:?}");
        assert_eq!(text, "append       1051     +5.1 %\ndecode       1050     +5.0 %\nencode        500    -50.0 %\n");
    }

    #[test]
    fn what_is_not_noted_or_not_counted_fails() {
        let (_, failures) = compare(&counts(&[("new", 5)]), &counts(&[("old", 5)]));
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(compare(&counts(&[("new", 5)]), &Counts::new()).1.is_empty(), "nothing is noted before the first run");
    }

    #[test]
    fn counts_come_back_from_their_file_and_from_callgrind() {
        let some = counts(&[("append.of_64", 123_456), ("decode.one", 7)]);
        assert_eq!(parse(&to_text(&some)), Ok(some));
        assert!(parse("append\n").is_err());
        let text = "version: 1\nevents: Ir Dr\n\nfn=(1) x\n1 5\ntotals: 1234 5\n";
        assert_eq!(instructions_of(text), Some(1234));
        assert_eq!(instructions_of("events: Dr\ntotals: 5\n"), None);
        let lock =
            "[[package]]\nname = \"gungraun\"\nversion = \"0.20.0\"\nname = \"gungraun-runner\"\nversion = \"9\"\n";
        assert_eq!(version_of("gungraun", lock), Some("0.20.0"));
    }
}
