//! The daily tasks of `docs/operating.md`: each command as it stands there, in that order, at one broker; and at another those that are
//! done on the page, in a browser (`page/daily.js`).

use std::path::Path;
use std::process::{Command, Stdio};

use conformance::program::{self, chromium, node_in};
use conformance::repository;
use conformance::sluice::{Setup, Sluice, binary};

/// A table's rows are between its heading and the next.
const HEADING: &str = "### What is done daily\n";
/// The id in the page, instead of which the one of a message that is there is asked for.
const EXAMPLE_ID: &str = "7F0000010000ACF90000000000001D2A";

/// What commands print that show something: part of the command, and of what it has to say.
const SHOWN: [(&str, &str); 19] = [
    ("topic list", "orders"),
    ("consume orders", "hello\n"),
    ("billing --count 1", "hello\n"),
    ("topic describe", "groups: billing"),
    ("find orders --key", "hello"),
    ("message show", "KEYS"),
    ("topic offsets", "broker-a      0       0         1"),
    ("group list", "billing"),
    ("group describe", "billing: 0 messages behind"),
    ("--to-offset 1", "goes on in orders"),
    ("--dry-run", "would"),
    ("%DLQ%billing", "dead"),
    ("group resend billing", "1 dead letters of group billing"),
    ("message copy", "1 messages of orders were copied"),
    ("broker list", "well"),
    ("cluster list", "DefaultCluster  broker-a  master"),
    ("broker describe", "no slaves"),
    ("settings --changed", "changed while running"),
    ("queue list", "work"),
];

/// Runs a line as a shell would, in that folder, at that broker.
fn run(line: &str, sluice: &Sluice, folder: &Path) -> String {
    let (command, input) = line.split_once(" < ").unwrap_or((line, "/dev/null"));
    let at = if command.starts_with("sluice admin cluster ") {
        format!("--name-server {}", sluice.name_server)
    } else if command.starts_with("sluice admin ") {
        format!("--console {}", sluice.console)
    } else {
        format!("--target rocketmq://{}", sluice.name_server)
    };
    let rest = command.strip_prefix("sluice ").expect("a command of sluice");
    let script = format!("\"$SLUICE\" {rest} {at} < {input}");
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &script]).env("SLUICE", binary()).env("COLUMNS", "120").current_dir(folder);
    let output = output.stderr(Stdio::piped()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// The rows of the table: task, command, and where it is on the page.
fn rows() -> Vec<[String; 3]> {
    let page = std::fs::read_to_string(repository().join("docs/operating.md")).expect("the page");
    let (_, section) = page.split_once(HEADING).expect("the table is there");
    let section = section.split("\n#").next().expect("its section");
    let cells = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").map(str::to_owned);
        Some([cells.next()?, cells.next()?, cells.next()?])
    };
    section.lines().filter_map(cells).filter(|[_, command, _]| command.starts_with('`')).collect()
}

#[test]
fn daily_tasks_are_done_on_the_page() {
    let Some(chromium) = chromium() else { return };
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, _) = Setup::serve_amqp(&scratch.path().join("data"));
    let sluice = setup.start();
    let tasks: Vec<_> = rows().into_iter().filter(|[_, _, place]| place != "–").map(|[task, ..]| task).collect();
    assert!(tasks.len() >= 25, "{tasks:?}");
    // A group is there once a consumer of it has come, which no page is.
    for line in ["sluice produce others --create --body other", "sluice consume others --group billing --count 1"] {
        run(line, &sluice, scratch.path());
    }
    let mut browser = node_in(&repository().join("conformance/page"));
    browser.arg("daily.js").arg(&sluice.console).arg(chromium).arg(serde_json::json!(tasks).to_string());
    assert_eq!(program::run(&mut browser).trim(), "all tasks are done");
}

#[test]
fn each_daily_task_is_one_command() {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, _) = Setup::serve_amqp(&scratch.path().join("data"));
    let sluice = setup.start();
    std::fs::write(scratch.path().join("password.txt"), "secret\n").expect("written");
    let commands: Vec<_> = rows().into_iter().map(|[_, command, _]| command.trim_matches('`').to_owned()).collect();
    assert!(commands.len() >= 25, "{commands:?}");
    let mut shown = 0;
    for command in commands {
        let mut line = command;
        if line.contains(EXAMPLE_ID) {
            let found = run("sluice admin message find orders --key 4711 --json", &sluice, scratch.path());
            let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
            line = line.replace(EXAMPLE_ID, found["items"][0]["id"].as_str().expect("an id"));
        }
        // What others would have done by then.
        if line.contains("%DLQ%") {
            run("sluice produce %DLQ%billing --create --body dead", &sluice, scratch.path());
        }
        if line.contains("message copy") {
            run("sluice admin topic create orders-again", &sluice, scratch.path());
        }
        let said = run(&line, &sluice, scratch.path());
        for (_, text) in SHOWN.iter().filter(|(part, _)| line.contains(part)) {
            assert!(said.contains(text), "{line}: {said}");
            shown += 1;
        }
        if line.contains("--to-offset 1") {
            assert_eq!(run("sluice consume orders --group billing", &sluice, scratch.path()), "", "it is skipped");
        }
        if line.ends_with("--to-time 2h") {
            assert_eq!(run("sluice consume orders --group billing", &sluice, scratch.path()), "hello\n", "once more");
        }
        if line.contains("queue purge") {
            assert!(said.starts_with("dropped ") && said.contains(" of queue work in /shop"), "{said}");
        }
    }
    assert!(shown >= SHOWN.len(), "{shown}");
}
