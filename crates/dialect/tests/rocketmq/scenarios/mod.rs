//! Promises as stories: the files of `tests/scenarios`, played on a broker with a clock of their own. Their language is described there.

mod expectation;
mod line;
mod stage;

use std::path::{Path, PathBuf};

use line::Line;
use stage::Stage;

/// Plays a story; gives the first thing that is not as it says.
fn play(text: &str) -> Result<(), String> {
    let mut stage = Stage::new();
    let mut steps = 0;
    for (number, text) in (1..).zip(text.lines()) {
        let line = Line::of(text).map_err(|problem| format!("line {number}: {problem}"))?;
        if !line.is_empty() {
            steps += 1;
            stage.play(&line).map_err(|problem| format!("line {number}: {}: {problem}", text.trim()))?;
        }
    }
    if steps == 0 { Err("there are no steps".to_owned()) } else { stage.end() }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let listed = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = listed.filter(|path| path.extension().is_some_and(|kind| kind == "scenario")).collect();
    files.sort();
    files
}

#[test]
fn every_scenario_goes_as_it_says() {
    let files = files();
    assert!(files.len() >= 12, "{} scenarios", files.len());
    let played = files.iter().map(|path| (path, play(&std::fs::read_to_string(path).expect("text"))));
    let wrong: Vec<_> =
        played.filter_map(|(path, result)| Some(format!("{}: {}", path.display(), result.err()?))).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_scenario_that_says_what_is_not_so_fails_and_says_where() {
    let begun = "topic orders queues 1\nproducer sends \"a\" to orders\nexpect ok\n";
    let cases = [
        (
            "consumer pulls orders for billing from 0\nexpect \"b\"",
            "line 5: expect \"b\": expected [\"b\"], and it was [\"a\"]",
        ),
        (
            "consumer pulls orders for billing from 1\nexpect ok",
            "line 5: expect ok: expected ok, and it was refused with 19",
        ),
        (
            "consumer pulls orders for billing from 1\nexpect refused 26",
            "expected refused 26, and it was refused with 19",
        ),
        ("consumer pulls orders for billing from 1 waiting 5\nexpect nothing", "and it waits"),
        ("consumer pulls orders for billing from 0", "the last step says nothing of its answer"),
        ("consumer pulls orders for billing from 0\nadvance 1 s", "the step before says nothing of its answer"),
        ("consumer juggles", "line 4: consumer juggles: no such step"),
        ("consumer pulls orders for billing from 0 sideways 1\nexpect \"a\"", "there is no \"sideways\""),
        ("consumer pulls orders for billing from x\nexpect \"a\"", "[x] is no number"),
        ("expect \"a", "line 4: a text has no end"),
        ("advance 1 s\nexpect ok", "there is no answer"),
    ];
    for (rest, expected) in cases {
        let said = play(&format!("{begun}{rest}\n")).expect_err(rest);
        assert!(said.contains(expected), "{rest}: {said}");
    }
    assert!(play("# nothing\n\n").is_err());
}
