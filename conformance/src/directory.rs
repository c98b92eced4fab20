//! What lies in a data directory: looked at without a broker.

use std::path::Path;
use std::time::{Duration, Instant};

use format::key_index::{HEADER_SIZE, Header};
use format::queue_entry::{ENTRY_SIZE, Entry};

/// Files below a folder, whatever depth they are at; none if it is not there.
fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Topics that have files of entries.
pub fn topics_with_queues(data: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(data.join("consumequeue")).expect("a folder of queues");
    folders.map(|folder| folder.expect("a folder").file_name().to_string_lossy().into_owned()).collect()
}

/// Entries that the queues of a topic have.
pub fn count_entries(data: &Path, topic: &str) -> u64 {
    let count = |path: std::path::PathBuf| {
        let bytes = std::fs::read(path).expect("a file of entries");
        bytes.chunks(ENTRY_SIZE).filter(|entry| Entry::decode(entry).is_some()).count() as u64
    };
    files_below(&data.join("consumequeue").join(topic)).into_iter().map(count).sum()
}

/// Keys that the files of the key index have.
pub fn count_keys(data: &Path) -> u64 {
    let count = |path: std::path::PathBuf| {
        let bytes = std::fs::read(path).expect("a file of keys");
        u64::from(Header::decode(&bytes[..HEADER_SIZE]).expect("a header").next_entry) - 1
    };
    files_below(&data.join("index")).into_iter().map(count).sum()
}

/// After a kill, documents are those of a moment ago: waits until these topics are in theirs.
pub fn wait_for_topics<'t>(data: &Path, topics: impl Iterator<Item = &'t str> + Clone) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_there = |text: String| topics.clone().all(|topic| text.contains(&format!("\"{topic}\"")));
    while !std::fs::read_to_string(data.join("config/topics.json")).is_ok_and(is_there) {
        assert!(Instant::now() < deadline, "{} lacks topics", data.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}
