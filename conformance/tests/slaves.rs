//! What befalls a master and its slave, both Sluice's: the slave takes the master's place, the master stalls or comes back with less, the
//! slave's disk is full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::connection::Connection;
use conformance::ledger::Ledger;
use conformance::pair::{self, log_end, until, wait_until_followed};
use conformance::sluice::{Setup, Sluice};
use wire::rocketmq::code::response;

const TOPIC: &str = "followed";

fn member(data: &Path, name_server: &Sluice, id: u32, role: &str) -> Setup {
    pair::member(data, &name_server.name_server, "broker-a", id, role)
}

/// Sends so many messages of 2 KB to a broker that stores them, whatever its replicas do. Gives the last answer.
fn send(broker: &Sluice, count: u64) -> i32 {
    let mut connection = Connection::open(&broker.broker);
    let mut code = response::SUCCESS;
    for number in 0..count {
        let answer = connection.send_message(TOPIC, (number % 4) as i32, "", &[7; 2000]);
        let is_stored = [response::SUCCESS, response::FLUSH_SLAVE_TIMEOUT, response::SLAVE_NOT_AVAILABLE];
        assert!(is_stored.contains(&answer.code), "{answer:?}");
        code = answer.code;
    }
    code
}

fn says(log: &Path, words: &str) -> bool {
    fs::read_to_string(log).is_ok_and(|log| log.contains(words))
}

fn copy_directory(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().expect("cp").success());
}

/// A name server, a master and a slave that has what the master has.
struct Group {
    scratch: tempfile::TempDir,
    names: Sluice,
    master: Sluice,
    slave: Sluice,
}

impl Group {
    fn of(role: &str) -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        let names = Setup::name_server(&scratch.path().join("names")).start();
        let master = member(&scratch.path().join("master"), &names, 0, role).start();
        let slave = member(&scratch.path().join("slave"), &names, 1, "SLAVE").start();
        Self { scratch, names, master, slave }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

#[test]
fn a_slave_becomes_the_master_and_its_old_master_a_slave() {
    let mut group = Group::of("SYNC_MASTER");
    let mut ledger = Ledger::default();
    until("the slave is not waited for", || send(&group.master, 1) == response::SUCCESS);
    ledger.take_turn(&group.master.broker);
    wait_until_followed(&group.master, &group.slave);
    assert!(group.master.stop().success() && group.slave.stop().success());

    let mut promoted = member(&group.path("slave"), &group.names, 0, "ASYNC_MASTER").start();
    ledger.take_turn(&promoted.broker);
    // One begins with nothing, the other with all that the new master had when it became that.
    let new = member(&group.path("new"), &group.names, 1, "SLAVE").start();
    let former = member(&group.path("master"), &group.names, 2, "SLAVE").start();
    for slave in [&new, &former] {
        wait_until_followed(&promoted, slave);
    }
    assert!(promoted.stop().success());
    for mut slave in [new, former] {
        ledger.verify(&slave.broker, true);
        assert!(slave.stop().success());
    }
}

#[test]
fn a_slave_that_has_what_its_master_lost_is_told_and_follows_again_once_it_is_emptied() {
    let mut group = Group::of("ASYNC_MASTER");
    send(&group.master, 700);
    assert!(group.master.stop().success());
    let (data, copy) = (group.path("master"), group.path("copy"));
    copy_directory(&data, &copy);
    let setup = member(&data, &group.names, 0, "ASYNC_MASTER");
    let mut master = setup.start();
    send(&master, 100);
    wait_until_followed(&master, &group.slave);
    let had = log_end(&group.slave);
    master.kill();
    // As after a power cut before a sync; what it takes from now on is something else.
    fs::remove_dir_all(&data).expect("removes");
    fs::rename(&copy, &data).expect("renames");
    let master = setup.start();
    assert!(log_end(&master) < had);
    let log = group.path("slave.log");
    until("the slave does not say that its master has less", || {
        says(&log, "it has what the master never had, or has lost")
    });
    assert!(says(&log, "Empty this broker's data directory"));
    // Also once the master's log is as long again.
    send(&master, 200);
    assert!(log_end(&master) > had);
    assert!(group.slave.stop().success());
    group.slave = member(&group.path("slave"), &group.names, 1, "SLAVE").start();
    until("the slave does not say that the logs differ", || {
        says(&log, "this is another log, or it has what the master has lost")
    });
    assert_eq!(log_end(&group.slave), had, "nothing of that is lost");

    assert!(group.slave.stop().success());
    fs::remove_dir_all(group.path("slave")).expect("removes");
    let slave = member(&group.path("slave"), &group.names, 1, "SLAVE").start();
    wait_until_followed(&master, &slave);
}

#[test]
fn a_master_that_stalls_is_left_and_followed_again() {
    let mut group = Group::of("ASYNC_MASTER");
    send(&group.master, 10);
    wait_until_followed(&group.master, &group.slave);
    let signal = |name: &str| {
        let id = group.master.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().expect("kill").success());
    };
    signal("-STOP");
    let log = group.path("slave.log");
    until("the slave does not notice", || says(&log, "the master said nothing for 20 s"));
    let end = log_end(&group.slave);
    signal("-CONT");
    send(&group.master, 10);
    wait_until_followed(&group.master, &group.slave);
    assert!(log_end(&group.slave) > end);
    assert!(group.master.stop().success());
}

#[test]
fn a_slave_whose_disk_is_full_says_so_and_goes_on_once_there_is_room() {
    let group = Group::of("SYNC_MASTER");
    until("the slave is not waited for", || send(&group.master, 1) == response::SUCCESS);
    let disk = group.path("disk");
    fs::create_dir(&disk).expect("makes");
    let mount = format!("mount -t tmpfs -o size=48m tmpfs {} && exec \"$@\"", disk.display());
    let small = member(&disk.join("data"), &group.names, 2, "SLAVE")
        .set("storage.index_slots", 1000)
        .set("storage.index_entries", 100_000);
    let log = small.log.clone();
    let small = small.within(&["unshare", "--mount", "sh", "-c", &mount, "sh"]).start();
    wait_until_followed(&group.master, &small);
    let inside = PathBuf::from(format!("/proc/{}/root{}", small.id(), disk.display()));
    let filler = inside.join("filler");
    // Takes all the room there is.
    drop(fs::write(&filler, vec![1; 48 << 20]));
    send(&group.master, 3000);
    until("the slave does not say what is wrong", || says(&log, "No space left") || says(&log, "full"));
    assert_eq!(send(&group.master, 1), response::SUCCESS, "another has it");
    let mut connection = Connection::open(&small.broker);
    assert_eq!(connection.read_queue(TOPIC, 0, 0, |_| ()), connection.queue_end(TOPIC, 0), "what it has can be read");
    fs::remove_file(&filler).expect("makes room");
    wait_until_followed(&group.master, &small);
}
