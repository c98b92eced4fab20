//! What every disk does alike: one suite for the real one, the one in memory, and the faulty one while it has no faults.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::IoSlice;
use std::path::Path;

use storage::StorageError;
use storage::disk::{Disk, FaultyDisk, MemoryDisk};

/// Runs `check` with an empty directory on each disk.
fn on_every_disk(check: impl Fn(&Disk, &Path)) {
    let directory = tempfile::tempdir().expect("directory");
    check(&Disk::real(), directory.path());
    for disk in [Disk::new(MemoryDisk::new()), Disk::new(FaultyDisk::over(&MemoryDisk::new()))] {
        let root = Path::new("/data");
        disk.create_directory(root).expect("makes");
        check(&disk, root);
    }
}

fn read(disk: &Disk, path: &Path) -> Vec<u8> {
    disk.read_file(path).expect("reads").expect("a file")
}

#[test]
fn a_file_keeps_what_is_written_where_it_is_written() {
    on_every_disk(|disk, root| {
        let path = root.join("a/b/file");
        assert!(disk.open(&path).is_err() && !disk.exists(&path).expect("looks"));
        assert_eq!(disk.read_file(&path).expect("reads"), None);
        let file = disk.open_sized(&path, 100, false).expect("makes");
        assert_eq!((file.size().expect("size"), file.path()), (100, path.as_path()));
        file.write_at(b"hello", 10).expect("writes");
        file.write_at(b"", 50).expect("writes nothing");
        let slices = [b"", &b"one "[..], b"", b"two"];
        file.write_vectored_at(&slices.map(IoSlice::new), 97).expect("writes beyond the end");
        file.sync_data().expect("syncs");
        file.sync_data().expect("syncs again");
        file.start_write_back(0, 50).expect("starts");
        let mut expected = vec![0; 104];
        expected[10..15].copy_from_slice(b"hello");
        expected[97..].copy_from_slice(b"one two");
        assert_eq!(read(disk, &path), expected);
        let again = disk.open(&path).expect("opens");
        let mut buffer = [1; 5];
        again.read_at(&mut buffer, 10).expect("reads");
        assert_eq!(&buffer, b"hello");
        let mut tail = b"<".to_vec();
        again.read_into(&mut tail, 3, 101, true).expect("reads");
        assert_eq!(tail, b"<two");
    });
}

#[test]
fn a_disk_speaks_for_itself_where_something_was_written() {
    on_every_disk(|disk, root| {
        let file = disk.open_sized(&root.join("file"), 20_000, true).expect("makes");
        file.write_at(b"hello", 4096).expect("writes");
        file.write_at(b"hello", 19_990).expect("writes");
        file.sync_data().expect("syncs");
        let said: Vec<_> = (0..6).map(|block| file.is_readable_on_disk(block)).collect();
        assert_eq!(said, [None, Some(true), None, None, Some(true), None]);
    });
}

#[test]
fn reading_past_the_end_is_an_error_and_not_a_short_answer() {
    on_every_disk(|disk, root| {
        let file = disk.open_sized(&root.join("file"), 10, true).expect("makes");
        assert!(file.read_at(&mut [0; 5], 6).is_err());
        assert!(file.read_at(&mut [0; 1], u64::from(u32::MAX)).is_err());
        assert!(file.read_into(&mut Vec::new(), 11, 0, true).is_err());
        file.read_at(&mut [], 10).expect("nothing is always there");
        assert!(matches!(file.read_at_if_cached(&mut [0; 5], 6), Err(StorageError::WouldBlock)));
        let mut buffer = [1; 4];
        match file.read_at_if_cached(&mut buffer, 6) {
            Ok(()) => assert_eq!(buffer, [0; 4]),
            Err(error) => assert!(matches!(error, StorageError::WouldBlock), "{error}"),
        }
    });
}

#[test]
fn sizes_are_given_once_and_cleared_bytes_read_as_zeroes() {
    on_every_disk(|disk, root| {
        for (name, reserve) in [("reserved", true), ("sparse", false)] {
            let path = root.join(name);
            let file = disk.open_sized(&path, 10_000, reserve).expect("makes");
            file.write_at(&[7; 10_000], 0).expect("writes");
            for (from, to, keep_allocated) in [(100, 5000, true), (5000, 10_000, false), (3, 3, true)] {
                file.clear(from, to, keep_allocated).expect("clears");
            }
            let bytes = read(disk, &path);
            assert_eq!(bytes.len(), 10_000);
            assert!(bytes[..100].iter().all(|&byte| byte == 7) && bytes[100..].iter().all(|&byte| byte == 0));
            let shorter = disk.open_sized(&path, 50, reserve).expect("opens");
            assert_eq!(shorter.size().expect("size"), 50);
            let longer = disk.open_sized(&path, 200, reserve).expect("opens");
            assert_eq!(longer.size().expect("size"), 200);
            assert_eq!(read(disk, &path)[40..60], [[7; 10], [0; 10]].concat(), "what was cut off does not come back");
        }
    });
}

/// A disk may say that there is something where nothing was written, and never that there is nothing where something was.
#[test]
fn what_was_written_is_never_passed_over_and_nothing_follows_the_end() {
    on_every_disk(|disk, root| {
        let file = disk.open_sized(&root.join("file"), 1 << 20, false).expect("makes");
        file.write_at(&[7; 10], 500_000).expect("writes");
        for from in [0, 499_999, 500_000, 500_009] {
            assert!(file.next_data(from).is_some_and(|at| (from..=from.max(500_000)).contains(&at)), "from {from}");
        }
        assert_eq!((file.next_data(1 << 20), file.next_data(1 << 30)), (None, None));
    });
}

#[test]
fn directories_are_listed_in_order_and_go_with_what_is_in_them() {
    on_every_disk(|disk, root| {
        assert_eq!(disk.list(&root.join("none")).expect("lists"), Vec::<String>::new());
        disk.create_directory(&root.join("x/y/z")).expect("makes");
        disk.create_directory(&root.join("x/y/z")).expect("is there already");
        for name in ["b", "a", "c"] {
            disk.open_sized(&root.join("x").join(name), 1, false).expect("makes");
        }
        disk.open_sized(&root.join("x/y/z/deep"), 1, false).expect("makes");
        disk.open_sized(&root.join("x-kin"), 1, false).expect("makes");
        assert_eq!(disk.list(&root.join("x")).expect("lists"), ["a", "b", "c", "y"]);
        assert!(disk.create_directory(&root.join("x/a/below")).is_err(), "a file is no directory");
        disk.remove_file(&root.join("x/b")).expect("removes");
        disk.remove_file(&root.join("x/b")).expect("is gone already");
        disk.sync_directory(&root.join("x")).expect("syncs");
        assert_eq!(disk.list(&root.join("x")).expect("lists"), ["a", "c", "y"]);
        disk.remove_directory(&root.join("x")).expect("removes");
        disk.remove_directory(&root.join("x")).expect("is gone already");
        assert_eq!(disk.list(root).expect("lists"), ["x-kin"]);
    });
}

#[test]
fn a_replaced_file_leaves_the_old_one_as_backup() {
    on_every_disk(|disk, root| {
        let path = root.join("config/topics.json");
        let backup = root.join("config/topics.json.bak");
        for (text, before) in [("one", None), ("two, longer", Some("one")), ("3", Some("two, longer"))] {
            disk.replace_file(&path, text.as_bytes()).expect("replaces");
            assert_eq!(read(disk, &path), text.as_bytes());
            assert_eq!(disk.read_file(&backup).expect("reads").as_deref(), before.map(str::as_bytes));
        }
        assert_eq!(disk.list(&root.join("config")).expect("lists"), ["topics.json", "topics.json.bak"]);
    });
}

#[test]
fn what_is_set_aside_keeps_its_bytes_and_replaces_nothing() {
    on_every_disk(|disk, root| {
        let path = root.join("commitlog/0");
        for number in 1..=3_u8 {
            disk.open_sized(&path, 4, true).expect("makes").write_at(&[number; 4], 0).expect("writes");
            let aside = disk.set_aside(root, &path).expect("moves");
            assert!(!disk.exists(&path).expect("looks"));
            assert_eq!(read(disk, &aside), [number; 4]);
        }
        let names = ["commitlog-0", "commitlog-0.2", "commitlog-0.3"];
        assert_eq!(disk.list(&root.join("set-aside")).expect("lists"), names);
    });
}

#[test]
fn what_is_set_aside_has_a_name_that_a_file_system_takes_however_long_its_topic_is() {
    on_every_disk(|disk, root| {
        let path =
            root.join("consumequeue").join(format!("{}é{}", "t".repeat(109), "t".repeat(130))).join("0/00000000");
        for number in 1..=2_u8 {
            disk.open_sized(&path, 1, true).expect("makes").write_at(&[number], 0).expect("writes");
            let aside = disk.set_aside(root, &path).expect("moves");
            assert_eq!(read(disk, &aside), [number]);
        }
        let names = disk.list(&root.join("set-aside")).expect("lists");
        let is_told =
            |name: &String| name.starts_with("consumequeue-ttt") && name.contains("t-0-00000000") && name.len() < 250;
        assert!(names.len() == 2 && names.iter().all(is_told), "{names:?}");
    });
}

#[test]
fn an_open_file_outlives_its_name() {
    on_every_disk(|disk, root| {
        let path = root.join("file");
        let file = disk.open_sized(&path, 4, false).expect("makes");
        disk.remove_file(&path).expect("removes");
        file.write_at(b"gone", 0).expect("writes");
        disk.open_sized(&path, 4, false).expect("makes another").write_at(b"here", 0).expect("writes");
        let mut bytes = [0; 4];
        file.read_at(&mut bytes, 0).expect("reads");
        assert_eq!((&bytes, read(disk, &path).as_slice()), (b"gone", &b"here"[..]));
    });
}

#[test]
fn a_directory_is_taken_once() {
    on_every_disk(|disk, root| {
        let directory = root.join("data");
        let lock = disk.lock_directory(&directory).expect("first");
        let refused = disk.lock_directory(&directory).expect_err("second").to_string();
        assert!(refused.contains("in use by another process"), "{refused}");
        drop(lock);
        disk.lock_directory(&directory).expect("again");
    });
}

#[test]
fn a_disk_tells_its_use_and_when_files_were_written() {
    on_every_disk(|disk, root| {
        let path = root.join("file");
        assert_eq!(disk.modified_ms(&path), None);
        disk.open_sized(&path, 10, true).expect("makes");
        assert!(disk.modified_ms(&path).is_some());
        let (used, total) = disk.usage(root).expect("tells");
        assert!(used <= total && total > 0);
    });
}
