//! A master and its slave, each over a disk in memory.

use std::path::Path;

use base::{GroupName, QueueId};
use format::master_tables::MasterTables;
use format::state_documents::StateDocuments;
use serde_json::json;
use storage::disk::{Disk, MemoryDisk};
use testkit::at;

use super::{Bench, layout, open_on};

/// A broker on a disk in memory; a slave's if `follows`.
pub fn open(disk: &MemoryDisk, follows: bool, ms: u64) -> Bench {
    open_over(Disk::new(disk.clone()), follows, ms)
}

/// The same on any disk.
pub fn open_over(disk: Disk, follows: bool, ms: u64) -> Bench {
    let layout = storage::Options { disk, ..layout(Path::new("/data"), vec![1000, 5000]) };
    open_on(if follows { layout.following() } else { layout }, at(ms), |_| ())
}

/// Has the slave take in all that the master's log has more.
pub fn follow(slave: &Bench, master: &Bench) {
    master.broker.keep(master.now).expect("keeps");
    let end = master.broker.store().watermarks().committed();
    while slave.broker.following.end() < end {
        let start = slave.broker.following.end().max(master.broker.store().log_first());
        let bytes = master.broker.store().read_raw(start, usize::MAX).expect("reads");
        slave.broker.following.append(start, &[bytes]).expect("appends");
    }
}

/// The tables of a broker, as it answers whoever asks.
pub fn tables(of: &Bench) -> StateDocuments {
    let mut tables = StateDocuments::default();
    let topics = json!(of.broker.catalog.topic_table());
    tables.take_in("topics.json", topics).expect("topics");
    tables.take_in("subscriptionGroup.json", json!(of.broker.catalog.group_table())).expect("groups");
    tables.take_in("consumerOffset.json", of.broker.offsets.document()).expect("offsets");
    tables.take_in("delayOffset.json", of.broker.delay.document()).expect("delays");
    let modes = json!(of.broker.request_modes.table());
    tables.take_in("messageRequestMode.json", modes).expect("modes");
    tables
}

/// What a master answers to a slave that has just connected.
pub fn master_tables(of: &Bench) -> MasterTables {
    let position = Some(of.broker.state_position());
    let undocumented = Some(of.broker.undocumented(of.now).expect("told"));
    MasterTables { documents: tables(of), undocumented, position }
}

/// What a master of Java answers.
pub fn of_java(documents: StateDocuments) -> MasterTables {
    MasterTables { documents, ..MasterTables::default() }
}

pub fn take_tables(slave: &Bench, master: &Bench) {
    slave.broker.take_tables(master_tables(master), slave.now).expect("takes");
}

pub fn commit(bench: &Bench, group: &str, offset: i64) {
    bench.broker.catalog.group_for_use(&GroupName::checked(group).expect("a name"), bench.now).expect("a group");
    bench.broker.offsets.commit("orders", group, QueueId(0), offset).expect("commits");
    bench.broker.offsets.keep_changes(bench.now).expect("keeps");
}

pub fn committed(bench: &Bench, group: &str) -> Option<i64> {
    bench.broker.offsets.committed("orders", group, QueueId(0))
}
