//! Steps run one after the other: each timed, none keeping the next from running, not even by hanging, with a summary at the end.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::limit;
use crate::repository::root;

/// How long a program of a step may take, several times what it does on two processors with nothing built.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// What a step does.
pub enum Action {
    /// Runs a program in the root of the repository.
    Run(Command),
    /// Does something within this process.
    Call(fn() -> Result<(), String>),
    /// Does nothing, for a reason.
    Skip(String),
}

/// One step.
pub struct Step {
    /// Its name, for the summary.
    pub name: &'static str,
    /// What it does.
    pub action: Action,
}

impl Step {
    /// A step that runs `cargo` with `arguments`, given as one line.
    pub fn cargo(name: &'static str, arguments: &str) -> Self {
        let mut command = Command::new("cargo");
        command.args(arguments.split_whitespace()).current_dir(root());
        Self { name, action: Action::Run(command) }
    }
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped(String),
}

/// Runs every step. An error if any failed; what failed is on the output already.
pub fn run(steps: Vec<Step>) -> Result<(), String> {
    let began = Instant::now();
    let count = steps.len();
    let mut ended = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        eprintln!("\n==> {} of {count}: {}", number + 1, step.name);
        let step_began = Instant::now();
        let outcome = perform(step.action);
        ended.push((step.name, outcome, step_began.elapsed()));
    }
    println!("\n{}", summary(&ended, began.elapsed()));
    let failed: Vec<&str> =
        ended.iter().filter(|(_, outcome, _)| *outcome == Outcome::Failed).map(|(name, ..)| *name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn perform(action: Action) -> Outcome {
    match action {
        Action::Skip(reason) => {
            eprintln!("skipped: {reason}");
            Outcome::Skipped(reason)
        }
        Action::Call(call) => match call() {
            Ok(()) => Outcome::Passed,
            Err(problem) => {
                eprintln!("{problem}");
                Outcome::Failed
            }
        },
        Action::Run(mut command) => match limit::status(&mut command, LIMIT) {
            Ok(status) if status.success() => Outcome::Passed,
            Ok(_) => Outcome::Failed,
            Err(error) => {
                eprintln!("{}: {error}", command.get_program().to_string_lossy());
                Outcome::Failed
            }
        },
    }
}

fn summary(ended: &[(&str, Outcome, Duration)], total: Duration) -> String {
    let width = ended.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (name, outcome, time) in ended {
        let outcome = match outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Skipped(reason) => &format!("skipped: {reason}"),
        };
        text.push_str(&format!("{name:width$}  {:>8}  {outcome}\n", clock(*time)));
    }
    text + &format!("{:width$}  {:>8}", "total", clock(total))
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    format!("{}:{:04.1}", time.as_secs() / 60, time.as_secs_f64() % 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_a_line_for_each_step() {
        let ended = [
            ("tidy", Outcome::Passed, Duration::from_millis(250)),
            ("conformance", Outcome::Skipped("not there".to_owned()), Duration::ZERO),
            ("tests", Outcome::Failed, Duration::from_secs(125)),
        ];
        let expected = "\
tidy           0:00.2  passed
conformance    0:00.0  skipped: not there
tests          2:05.0  FAILED
total          3:00.0";
        assert_eq!(summary(&ended, Duration::from_secs(180)), expected);
    }

    #[test]
    fn a_failed_step_does_not_stop_the_others_and_is_named() {
        let call = |name, call: fn() -> Result<(), String>| Step { name, action: Action::Call(call) };
        assert_eq!(run(vec![call("good", || Ok(()))]), Ok(()));
        let steps = vec![
            call("bad", || Err("no".to_owned())),
            call("good", || Ok(())),
            Step { name: "absent", action: Action::Skip("why".to_owned()) },
            Step { name: "missing", action: Action::Run(Command::new("no-such-program-here")) },
        ];
        assert_eq!(run(steps), Err("failed: bad, missing".to_owned()));
    }
}
