//! Small deliberate mistakes (mutants) made by cargo-mutants in copies of the tree: each that no test catches is a gap in the tests.
//!
//! There are some thousands; a sample of them is run, always the same one for the same number, which two cores do in about an
//! hour. What is missed is either caught by a new test, or stands in `xtask/mutants.txt` with the reason why no test can or need
//! catch it.

mod report;
mod wish;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repository::{read, root};
use crate::tools::installed;

use report::{Excuse, Found, excuses, report};
use wish::{Wish, parse};

/// The version whose mutants are counted and excused; another one makes others.
const VERSION: &str = "27.1.0";
/// Where mutants stand that need not be caught.
const EXCUSES_PATH: &str = "xtask/mutants.txt";
/// Where cargo-mutants leaves what it found, crate by crate.
const OUTPUT_FOLDER: &str = "target/mutants";
/// A test run that takes so many times as long as without a mutant, and no less than so many seconds, hangs.
const TIMEOUT_TIMES: &str = "5";
const TIMEOUT_SECONDS_MIN: &str = "60";
/// What cargo-mutants ends with when it ran: all caught, some missed, some hung.
const RAN: [i32; 3] = [0, 2, 3];
/// What it ends with when tests fail without any mutant.
const BASELINE_FAILED: i32 = 4;

/// A crate whose mutants are run.
#[derive(Debug, PartialEq, Eq)]
struct Subject {
    name: &'static str,
    /// One of so many mutants is in the sample.
    one_in: u32,
    /// A crate whose tests also see what this one does: they are asked about what its own tests miss.
    seen_by: Option<&'static str>,
    /// Files that only tests use.
    without: &'static [&'static str],
}

const SUBJECTS: [Subject; 6] = [
    Subject {
        name: "storage",
        one_in: 40,
        seen_by: Some("broker"),
        without: &[
            "crates/storage/src/disk/faulty.rs",
            "crates/storage/src/disk/memory.rs",
            "crates/storage/src/disk/history.rs",
        ],
    },
    Subject { name: "inspect", one_in: 40, seen_by: Some("storage"), without: &[] },
    Subject { name: "broker", one_in: 16, seen_by: Some("dialect"), without: &[] },
    Subject { name: "dialect", one_in: 10, seen_by: Some("server"), without: &[] },
    Subject { name: "cluster", one_in: 20, seen_by: Some("server"), without: &[] },
    Subject { name: "wire", one_in: 16, seen_by: Some("dialect"), without: &[] },
];

/// Runs what the arguments ask for.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
    let wish = parse(arguments, &names)?;
    let excuses = known_excuses()?;
    let program = installed("cargo-mutants", VERSION)?;
    let mut found = Vec::new();
    for subject in SUBJECTS.iter().filter(|subject| wish.wants(subject.name)) {
        found.push((subject.name, look_at(subject, &wish, &program, &excuses)?));
    }
    let (text, outcome) = report(&found, &excuses);
    println!("{text}");
    outcome
}

/// What need not be caught; each is of a file that is there.
fn known_excuses() -> Result<Vec<Excuse>, String> {
    let excuses = excuses(&read(EXCUSES_PATH)?).map_err(|problem| format!("{EXCUSES_PATH}: {problem}"))?;
    match excuses.iter().find(|excuse| !root().join(excuse.path()).is_file()) {
        Some(excuse) => Err(format!("{EXCUSES_PATH}: there is no file {} any more: strike the line", excuse.path())),
        None => Ok(excuses),
    }
}

/// The sample of one crate. What its own tests miss and nobody excuses is put to the tests of the crate above.
fn look_at(subject: &Subject, wish: &Wish, program: &Path, excuses: &[Excuse]) -> Result<Found, String> {
    let one_in = wish.one_in.unwrap_or(subject.one_in);
    let shard = format!("{}/{one_in}", wish.sample % one_in);
    eprintln!("\n==> mutants of {}: sample {shard}", subject.name);
    let mut first = mutants(program, subject.name, wish);
    first.args(["--package", subject.name, "--shard", &shard, "--sharding", "round-robin"]);
    first.args(subject.without.iter().flat_map(|file| ["--exclude", file]));
    let mut found = ran(&mut first, subject.name)?;
    let missed: Vec<String> = found.missed_without(excuses).map(str::to_owned).collect();
    let Some(other) = subject.seen_by.filter(|_| !missed.is_empty()) else { return Ok(found) };
    eprintln!("\n==> {} of {} that its own tests miss: do those of {other} catch them?", missed.len(), subject.name);
    let output = format!("{}-by-{other}", subject.name);
    let mut second = mutants(program, &output, wish);
    second.args(["--package", subject.name, "--test-package", other]);
    second.args(missed.iter().flat_map(|name| ["--re".to_owned(), format!("^{}$", escaped(name))]));
    // Fields left out of a structure are mutants that cargo-mutants takes whatever their name: at least only of these files.
    second.args(missed.iter().filter_map(|name| name.split(':').next()).flat_map(|file| ["--file", file]));
    found.take_over(&ran(&mut second, &output)?);
    Ok(found)
}

/// A run in copies of the tree, without debug information, which nobody reads.
fn mutants(program: &Path, output: &str, wish: &Wish) -> Command {
    let mut command = Command::new(program);
    command.args(["mutants", "--no-config", "--no-shuffle", "--cap-lints", "true", "--gitignore", "true"]);
    command.args(["--timeout-multiplier", TIMEOUT_TIMES, "--minimum-test-timeout", TIMEOUT_SECONDS_MIN]);
    command.args(["--jobs", &wish.jobs.to_string(), "--output"]).arg(folder_of(output));
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0").current_dir(root());
    command
}

fn folder_of(output: &str) -> PathBuf {
    root().join(OUTPUT_FOLDER).join(output)
}

/// Runs it, and reads what it found.
fn ran(command: &mut Command, output: &str) -> Result<Found, String> {
    let folder = folder_of(output);
    fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let results = folder.join("mutants.out");
    // What an earlier run left would be taken for results of this one.
    let _ = fs::remove_dir_all(&results);
    let status = command.status().map_err(|error| format!("cargo-mutants cannot be run: {error}"))?;
    match status.code() {
        Some(code) if RAN.contains(&code) => {}
        Some(BASELINE_FAILED) => {
            return Err(format!("tests fail without any mutant: see {}", results.join("log/baseline.log").display()));
        }
        _ => return Err(format!("cargo-mutants: {status}")),
    }
    let names = |file: &str| -> Vec<String> {
        let text = fs::read_to_string(results.join(file)).unwrap_or_default();
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    };
    Ok(Found {
        caught: names("caught.txt"),
        missed: names("missed.txt"),
        unviable: names("unviable.txt"),
        hung: names("timeout.txt"),
    })
}

/// A text as the regular expression that matches it alone.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        // Not every mark: with a stroke before it, `<` is the beginning of a word.
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_of_a_name_stands_for_itself() {
        assert_eq!(escaped("a/b.rs:1: replace + with *"), r"a/b\.rs:1: replace \+ with \*");
        let result = escaped("replace f -> Result<Vec<u8>, E> with Ok(vec![1])");
        assert_eq!(result, r"replace f -> Result<Vec<u8>, E> with Ok\(vec!\[1\]\)");
    }

    #[test]
    fn every_subject_and_every_file_that_is_left_out_is_there() {
        for subject in &SUBJECTS {
            assert!(root().join("crates").join(subject.name).is_dir(), "{}", subject.name);
            for file in subject.without {
                assert!(root().join(file).is_file(), "{file}");
            }
        }
    }

    #[test]
    fn what_is_excused_has_its_reason_and_its_file() {
        assert!(known_excuses().is_ok(), "{:?}", known_excuses());
    }
}
