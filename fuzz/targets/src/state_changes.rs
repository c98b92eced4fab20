//! Changes of state: as bytes, as a record of the log, and applied to tables.

use std::collections::BTreeMap;

use base::{LogOffset, QueueOffset, Timestamp};
use bytes::BytesMut;
use format::document::{DataVersion, GroupDocument, TopicDocument};
use format::index_rules::IndexRules;
use format::record::{Record, seal};
use format::state::{self, StateChange};
use format::state_tables::StateTables;

/// Bytes that what is encoded may take for each byte that was decoded: settings are written with every member, and read with those there are.
const GROWTH_MAX: usize = 200;

/// Bytes of text about one change, beside what it names.
const TEXT_SIZE_MAX: usize = 1000;

/// What decodes is encoded as itself, is found in a record, and applied twice leads to the same tables as applied once.
pub fn run(data: &[u8]) {
    let Ok(changes) = state::decode(data) else { return };
    let bytes = state::encode(&changes);
    assert_eq!(state::decode(&bytes).as_ref(), Ok(&changes));
    assert!(bytes.len() <= data.len() * GROWTH_MAX, "{} bytes of {}", bytes.len(), data.len());
    assert!(changes.iter().all(|change| change.to_string().len() <= data.len() * 3 + TEXT_SIZE_MAX));
    in_a_record(&bytes);
    let mut once = StateTables::default();
    apply(&mut once, &changes);
    let mut twice = once.clone();
    apply(&mut twice, &changes);
    assert_eq!(twice, once);
    let (mut again, all) = (StateTables::default(), once.all_changes());
    assert_eq!(state::decode(&state::encode(&all)).as_ref(), Ok(&all));
    apply(&mut again, &all);
    assert_eq!(again, meaning_of(once));
}

fn apply(tables: &mut StateTables, changes: &[StateChange]) {
    changes.iter().for_each(|change| tables.apply(change.clone()));
}

/// The tables without what says nothing: levels at 0, groups without an offset in a topic, versions of empty tables.
fn meaning_of(mut tables: StateTables) -> StateTables {
    tables.delay.retain(|_, delivered| *delivered != 0);
    tables.offsets.retain(|_, offsets| !offsets.is_empty());
    if tables.topics.topic_config_table.is_empty() {
        tables.topics.data_version = DataVersion::default();
    }
    if tables.groups.subscription_group_table.is_empty() {
        tables.groups.data_version = DataVersion::default();
    }
    tables
}

fn in_a_record(body: &[u8]) {
    let host = "127.0.0.1:10911".parse().expect("an address");
    let mut bytes = BytesMut::new();
    state::draft(body, &[], host, Timestamp(1)).encode(&mut bytes);
    seal(&mut bytes, QueueOffset(0), LogOffset(4096), Timestamp(1));
    let record = Record::decode(&bytes).expect("a record");
    let indexed = IndexRules::default().apply_to(&record);
    assert!(indexed.is_state && !indexed.is_listed && indexed.key_hashes().next().is_none());
    assert_eq!((record.body, record.body_is_intact()), (body, true));
}

/// One of each change, several about the same, and none.
pub fn seeds() -> Vec<Vec<u8>> {
    let version = DataVersion { counter: 7, state_version: 0, timestamp: 1_700_000_000_000 };
    let topic = TopicDocument {
        topic_name: "orders".to_owned(),
        attributes: BTreeMap::from([("message.type".to_owned(), "DELAY".to_owned())]),
        ..TopicDocument::default()
    };
    let group = GroupDocument { group_name: "billing".to_owned(), ..GroupDocument::default() };
    let of = || "orders@billing".to_owned();
    let offsets = |replaces, pairs: &[(u32, i64)]| StateChange::Offsets {
        of: of(),
        replaces,
        offsets: pairs.iter().copied().collect(),
    };
    let each = [
        StateChange::Topic { settings: Box::new(topic), version },
        StateChange::Group { settings: Box::new(group), version },
        offsets(false, &[(0, 17), (5, i64::MAX), (u32::MAX, -1)]),
        offsets(true, &[(1, 3)]),
        offsets(true, &[]),
        StateChange::Delay { level: 3, delivered: u64::MAX },
        StateChange::Imported { document: "topics.json".to_owned(), checksum: u32::MAX },
        StateChange::TopicRemoved { name: "orders".to_owned(), version },
        StateChange::GroupRemoved { name: "billing".to_owned(), version },
    ];
    let alone = each.chunks(1).map(state::encode);
    alone.chain([state::encode(&each), state::encode(&each[..4]), state::encode(&[])]).collect()
}
