//! The test command: everything that must hold before a change goes in.

use std::process::Command;

use crate::instructions;
use crate::repository::root;
use crate::steps::{self, Action, Step};
use crate::suites;
use crate::tidy;

/// How much is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    Full,
    /// All but what needs a release build.
    Quick,
}

/// Runs the steps.
pub fn run(extent: Extent) -> Result<(), String> {
    let has_valgrind = instructions::valgrind_is_installed();
    steps::run(plan(extent, root().join("conformance/Cargo.toml").exists(), has_valgrind))
}

fn plan(extent: Extent, has_conformance: bool, has_valgrind: bool) -> Vec<Step> {
    let mut steps = vec![
        Step { name: "tidy", action: Action::Call(tidy::run) },
        Step::cargo("clippy", "clippy --workspace --all-targets -- -D warnings"),
        Step::cargo("clippy of shipped code", "shipped"),
        Step::cargo("tests", tests(has_conformance)),
    ];
    if extent == Extent::Full {
        steps.push(if has_valgrind {
            Step { name: "instructions", action: Action::Call(|| instructions::run(instructions::Mode::Compare)) }
        } else {
            Step { name: "instructions", action: Action::Skip(instructions::NO_VALGRIND.to_owned()) }
        });
        steps.push(Step::cargo("release build", "build --release --bin sluice"));
        steps.extend(conformance(has_conformance));
    }
    steps
}

fn conformance(is_there: bool) -> [Step; 2] {
    let names = ["conformance", "conformance that waits"];
    if !is_there {
        let reason = "there is no package conformance yet (conformance/Cargo.toml)";
        return names.map(|name| Step { name, action: Action::Skip(reason.to_owned()) });
    }
    let [working, waiting] = names;
    [
        Step::cargo(working, &suites::one_after_the_other()),
        Step { name: waiting, action: Action::Call(suites::run_side_by_side) },
    ]
}

/// Conformance suites are a step of their own: they need the release build.
const fn tests(has_conformance: bool) -> &'static str {
    if has_conformance { "test --workspace --exclude conformance" } else { "test --workspace" }
}

/// Prints what the steps are run with.
pub fn print_versions() -> Result<(), String> {
    const TOOLS: &[&[&str]] = &[
        &["rustc", "--version"],
        &["cargo", "--version"],
        &["cargo", "clippy", "--version"],
        &["cargo", "fmt", "--version"],
        &["git", "--version"],
        &["java", "-version"],
        &["go", "version"],
        &["python3", "--version"],
        &["node", "--version"],
        &["uname", "-srm"],
    ];
    for tool in TOOLS {
        println!("{:16} {}", tool.join(" ").replace(" --version", ""), version(tool));
    }
    Ok(())
}

fn version(tool: &[&str]) -> String {
    let [program, arguments @ ..] = tool else { return String::new() };
    match Command::new(program).args(arguments).current_dir(root()).output() {
        // Java tells its version on the error stream.
        Ok(told) if told.status.success() => {
            let text = [told.stdout, told.stderr].concat();
            String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
        }
        _ => "not installed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(extent: Extent, has_tools: bool) -> Vec<(&'static str, bool)> {
        let is_skipped = |step: &Step| matches!(step.action, Action::Skip(_));
        plan(extent, has_tools, has_tools).iter().map(|step| (step.name, is_skipped(step))).collect()
    }

    #[test]
    fn quick_leaves_out_what_needs_a_release_build() {
        let quick = [("tidy", false), ("clippy", false), ("clippy of shipped code", false), ("tests", false)];
        assert_eq!(names(Extent::Quick, true), quick);
        let full = |is_skipped| {
            let of_release = [
                ("instructions", is_skipped),
                ("release build", false),
                ("conformance", is_skipped),
                ("conformance that waits", is_skipped),
            ];
            [&quick[..], &of_release].concat()
        };
        assert_eq!(names(Extent::Full, true), full(false));
        assert_eq!(names(Extent::Full, false), full(true));
    }

    #[test]
    fn a_missing_tool_is_said_to_be_missing() {
        assert_eq!(version(&["no-such-program-here"]), "not installed");
        assert!(version(&["cargo", "--version"]).starts_with("cargo "));
    }
}
