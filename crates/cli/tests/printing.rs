//! Every command that prints, with a reader that has gone and on a full disk.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let child = command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().expect("it starts");
    child.wait_with_output().expect("it ends")
}

/// A pipe whose reader has gone, as behind `| head`.
fn closed() -> Stdio {
    std::io::pipe().expect("a pipe").1.into()
}

fn full() -> Stdio {
    std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into()
}

/// A data directory with a broker's first files.
fn data_directory(scratch: &Path) -> String {
    let data = scratch.join("data");
    for folder in ["commitlog", "config"] {
        std::fs::create_dir_all(data.join(folder)).expect("makes");
    }
    data.display().to_string()
}

#[test]
fn a_reader_that_has_gone_is_no_fault_and_a_full_disk_is_told_of() {
    let scratch = tempfile::tempdir().expect("directory");
    let data = data_directory(scratch.path());
    let commands: &[&[&str]] = &[
        &["config"],
        &["config", "--default"],
        &["config", "--explain", "flushDiskType"],
        &["broker", "-p"],
        &["namesrv", "-p"],
        &["doctor", "--data", &data],
        &["doctor", "--data", &data, "--json"],
        &["bench", "list"],
        &["store", "check", &data],
        &["store", "check", &data, "--json", "-"],
    ];
    for command in commands {
        let usual = run(command, Stdio::piped(), Stdio::piped());
        assert!(!usual.stdout.is_empty(), "{command:?} prints: {usual:?}");
        let unread = run(command, closed(), Stdio::piped());
        assert_eq!(unread.status.code(), usual.status.code(), "{command:?}: {unread:?}");
        assert_eq!(unread.stderr, usual.stderr, "{command:?}");
        let no_room = run(command, full(), Stdio::piped());
        let told = String::from_utf8_lossy(&no_room.stderr);
        assert!(told.contains("cannot write to standard output: No space left"), "{command:?}: {told}");
        assert!(matches!(no_room.status.code(), Some(1 | 3)), "{command:?}: {no_room:?}");
        assert_eq!(run(command, closed(), closed()).status.code(), usual.status.code(), "{command:?}");
    }
}

#[test]
fn help_is_quiet_too() {
    for command in [&["--help"][..], &["--version"], &["serve", "--help"], &["bench", "send", "--help"]] {
        let unread = run(command, closed(), Stdio::piped());
        assert!(unread.status.code() != Some(101) && unread.stderr.is_empty(), "{command:?}: {unread:?}");
    }
}

/// What went wrong may be unreadable too: the code tells.
#[test]
fn a_command_that_fails_has_its_code_whoever_reads_why() {
    for (command, code) in [
        (&["config", "--set", "nonsense=1"][..], 1),
        (&["store", "check", "/nonexistent"], 3),
        (&["bench", "limit", "--data", "/nonexistent"], 1),
    ] {
        for stderr in [closed(), full()] {
            assert_eq!(run(command, Stdio::null(), stderr).status.code(), Some(code), "{command:?}");
        }
    }
}
