//! Automation of the repository: `cargo xtask tidy`, `test`, `ci`, `fuzz`, `instructions`, `mutants`, `mutations`, `release`,
//! `try-package`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for developers"
)]

mod fuzz;
mod instructions;
mod limit;
mod mutants;
mod mutations;
mod release;
mod repository;
mod source;
mod steps;
mod suites;
mod test;
mod tidy;
mod tools;
mod try_package;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy                         check the rules of the house that no lint knows
  test [--quick]               tidy, clippy, tests, instructions, release build, conformance suites
                               (--quick leaves out the last three)
  ci                           versions of the tools, then the same as test
  fuzz [TARGET] [--seconds N]  fuzz one target, or each after the other (60 seconds each)
  instructions [--update]      count the instructions of the hot functions; fail where one takes over 5 % more than noted
                               (--update notes what was counted)
  mutants [CRATE...] [--sample K] [--one-in N] [--jobs N]
                               make small mistakes in storage, inspect, broker, dialect, cluster and wire, and fail where tests catch under
                               90 % of those in sample K (0 unless told); about an hour on two cores, --one-in 1 makes them all
  mutations [NAME...]          put back the defects of crates/sim/mutations, and fail where sim does not catch one within 1000 seeds
                               (half an hour on two cores)
  release                      what is given out, in target/packages: a static binary in an archive, a package for Debian, a Helm chart, the
                               list of parts and the checksums of all (needs the target x86_64-unknown-linux-musl and musl-gcc)
  try-package [OLDER.deb]      install, use, upgrade, remove and purge that package in a clean Debian with systemd (needs root, debootstrap
                               and systemd-nspawn)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        ["tidy"] => tidy::run(),
        ["test"] => test::run(test::Extent::Full),
        ["test", "--quick"] => test::run(test::Extent::Quick),
        ["ci"] => test::print_versions().and_then(|()| test::run(test::Extent::Full)),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["mutations", names @ ..] => mutations::run(names),
        ["release"] => release::run(),
        ["try-package", rest @ ..] => try_package::run(rest),
        ["instructions"] => instructions::run(instructions::Mode::Compare),
        ["instructions", "--update"] => instructions::run(instructions::Mode::Update),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{}", problem.trim_end());
            ExitCode::FAILURE
        }
    }
}
