//! Replays the seeds, the kept corpus and past findings of every target on a stable compiler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fuzz_targets::{TARGETS, Target, archive};

/// Files of a folder, sorted; none if it is not there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Names of inputs that fail; the panic itself is on the output.
fn failures(target: &Target) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut inputs: Vec<(String, Vec<u8>)> = (target.seeds)()
        .into_iter()
        .enumerate()
        .map(|(number, seed)| (format!("{} seed {number}", target.name), seed))
        .collect();
    inputs.extend(archive::read(&archive::path(target.name)));
    for path in files(&root.join("regressions").join(target.name)) {
        inputs.push((path.display().to_string(), std::fs::read(&path).expect("an input")));
    }
    let fails = |input: &[u8]| catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err();
    inputs.into_iter().filter(|(_, input)| fails(input)).map(|(name, _)| name).collect()
}

macro_rules! replay {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let target = TARGETS.iter().find(|target| target.name == stringify!($name)).expect("a target");
            assert_eq!(failures(target), Vec::<String>::new());
        })*

        #[test]
        fn every_target_is_replayed_and_has_an_entry_point_and_an_archive() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz_targets");
            let mut entry_points: Vec<_> =
                files(&folder).iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
            entry_points.sort();
            let mut names = names;
            names.sort();
            assert_eq!(entry_points, names);
            let archives = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus"));
            let mut expected: Vec<_> = names.iter().map(|name| archive::path(name)).collect();
            expected.sort();
            assert_eq!(archives, expected, "each target has an archive: cargo xtask fuzz TARGET");
        }
    };
}

replay!(
    rocketmq_frame
    rocketmq_headers
    rocketmq_bodies
    pop_texts
    record
    batch_body
    properties
    loose_json
    store_files
    store_check
    state_changes
    state_snapshot
    broker_documents
    key_value_file
    session
    name_server_session
    amqp_frames
    amqp_session
);
