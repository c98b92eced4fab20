//! The page in the browser, by a headless Chromium: see `page/check.js`.

use std::process::{Command, Stdio};

use conformance::program::{chromium, node_in, run};
use conformance::repository;
use conformance::sluice::{Setup, Sluice, binary};

const MARKUP: &str = "<img src=x onerror=window.caught=1>";
/// A key has no spaces: they are between keys.
const KEY: &str = "<img/src=x/onerror=window.caught=1>";

fn admin(sluice: &Sluice, arguments: &[&str]) {
    run(Command::new(binary()).arg("admin").args(arguments).args(["--console", &sluice.console]));
}

#[test]
fn the_page_shows_what_the_api_says_and_does_what_it_offers() {
    let Some(chromium) = chromium() else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let (setup, _) = Setup::serve_amqp(&scratch.path().join("data"));
    let sluice = setup.start();
    let target = format!("rocketmq://{}", sluice.name_server);
    let file = scratch.path().join("body");
    std::fs::write(&file, format!("{MARKUP}\n")).expect("written");
    let produce = |more: &[&str]| {
        let stdin = std::fs::File::open(&file).expect("opened");
        let mut command = Command::new(binary());
        command.args(["produce", "orders", "--target", &target]).args(more).stdin(Stdio::from(stdin));
        assert!(command.status().expect("it runs").success());
    };
    admin(&sluice, &["topic", "create", "orders", "--queues", "1"]);
    produce(&[]);
    run(Command::new(binary())
        .args(["consume", "orders", "--group", "billing", "--count", "1", "--from", "earliest", "--target", &target]));
    produce(&["--key", KEY, "--header", &format!("note={MARKUP}")]);
    admin(&sluice, &["queue", "add", MARKUP]);
    admin(&sluice, &["exchange", "add", MARKUP, "--type", "topic"]);
    let mut check = node_in(&repository().join("conformance/page"));
    let said = run(check.arg("check.js").arg(&sluice.console).arg(chromium));
    assert_eq!(said.trim(), "the page is right");
}
