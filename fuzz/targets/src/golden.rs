//! What was captured from official clients and servers, under `testdata`.

use std::path::{Path, PathBuf};

use wire::rocketmq::frame::Command;

/// What was captured of a protocol, in the order of names.
fn captured(protocol: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(protocol), &mut paths);
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Every captured frame of RocketMQ.
pub fn frames() -> Vec<Vec<u8>> {
    captured("rocketmq")
}

/// All that each side of an AMQP connection said.
pub fn amqp() -> Vec<Vec<u8>> {
    captured("amqp")
}

/// Captured requests whose code satisfies `is_wanted`.
pub fn requests(is_wanted: impl Fn(i32) -> bool) -> Vec<Vec<u8>> {
    let wanted = |frame: &Vec<u8>| {
        Command::decode(frame).is_ok_and(|command| !command.header.is_response() && is_wanted(command.header.code))
    };
    frames().into_iter().filter(wanted).collect()
}

/// The body of every captured frame that has one.
pub fn bodies() -> Vec<Vec<u8>> {
    let body_of = |frame: &Vec<u8>| Command::decode(frame).ok().map(|command| command.body.to_vec());
    frames().iter().filter_map(body_of).filter(|body| !body.is_empty()).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "bin") {
            paths.push(path);
        }
    }
}
