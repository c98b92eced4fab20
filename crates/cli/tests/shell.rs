//! What the command gives to shells and to `man`.

#![allow(clippy::expect_used, reason = "tests")]

use std::process::{Command, Output};

fn sluice(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).args(arguments).output().expect("it runs")
}

#[test]
fn shells_complete_commands() {
    for (shell, word) in [("bash", "reset"), ("zsh", "#compdef sluice"), ("fish", "complete -c sluice")] {
        let output = sluice(&["completions", shell]);
        let script = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && script.contains(word), "{shell}: {script}");
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let scratch = tempfile::tempdir().expect("directory");
    let directory = scratch.path().join("man1");
    let output = sluice(&["manual", &directory.display().to_string()]);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(directory.join("sluice-admin-topic.1")).expect("a page");
    assert!(page.contains("sluice admin topic create orders"), "{page}");
    let output = sluice(&["manual", "/proc/none"]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("/proc/none"), "{output:?}");
}
