//! The check of a data directory with arbitrary damage: it never fails badly, and changes nothing.

use std::path::PathBuf;

use inspect::{DumpOptions, Dumped, Severity};

use crate::scratch;
use crate::store_files::{self, Files};
use crate::taker::Taker;

/// Changes of one input at most.
const CHANGES_MAX: usize = 24;

/// Documents beside the log, which no store writes by itself.
const DOCUMENTS: &[(&str, &str)] = &[
    ("config/topics.json", r#"{"topicConfigTable":{"orders":{"readQueueNums":2},"SCHEDULE_TOPIC_XXXX":{}}}"#),
    ("config/consumerOffset.json", r#"{"offsetTable":{"orders@group":{0:5,1:3}}}"#),
    ("config/delayOffset.json", r#"{"offsetTable":{1:2}}"#),
];

fn files(taker: &mut Taker<'_>) -> Files {
    let mut files = taker.choice(store_files::whole_stores()).clone();
    let documents = DOCUMENTS.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()));
    files.extend(documents);
    files
}

/// Whatever the files hold: a report, every record once, and not a byte changed.
pub fn run(data: &[u8]) {
    let mut taker = Taker::new(data);
    let mut files = files(&mut taker);
    let is_whole = taker.is_empty();
    for _ in 0..CHANGES_MAX {
        if taker.is_empty() {
            break;
        }
        store_files::change(&mut files, &mut taker);
    }
    let directory = scratch::directory();
    for (path, bytes) in &files {
        scratch::write(directory.path(), path, bytes);
    }
    let before = scratch::snapshot(directory.path());
    let store = scratch::store_options(directory.path());
    for live in [false, true] {
        let Ok(report) = inspect::check(&store, live, &mut |_| ()) else { continue };
        let told: u64 = report.by_severity.values().sum();
        assert!(report.findings.len() as u64 <= told);
        assert!(report.counts.log_first <= report.counts.log_end);
        if is_whole {
            assert!(report.worst() < Some(Severity::Damage), "{:#?}", report.findings);
        }
    }
    let mut last = None;
    let _ = inspect::dump(&store, &DumpOptions::default(), &mut |dumped| {
        let (Dumped::Record(inspect::DumpedRecord { log_offset, .. }) | Dumped::Broken { log_offset, .. }) = dumped;
        assert!(last < Some(log_offset), "places come in order, each once");
        last = Some(log_offset);
        true
    });
    assert_eq!(before, scratch::snapshot(directory.path()), "a check changes nothing");
}

/// No damage, and some of every kind in every file.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = store_files::seeds();
    for store in [0, 1] {
        let count = store_files::whole_stores()[usize::from(store)].len() as u8;
        for file in count..count + DOCUMENTS.len() as u8 {
            seeds.push(vec![store, 33, file, 0, 0]);
            seeds.push(vec![store, 0, file, 0, 20, b'9']);
            seeds.push(vec![store, 0, file, 0, 40, b'{']);
        }
    }
    seeds
}
