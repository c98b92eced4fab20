//! Finding single messages: by place in the log, and by key within a time.

use std::sync::Arc;

use base::{LogOffset, Refusal, Timestamp};
use bytes::Bytes;
use format::hash::key_hash;
use format::properties::names;
use format::record::Record;
use storage::Store;

use crate::error::internal;

/// Which kind of key is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// One of the words of the message's keys.
    Key,
    /// The id its producer made.
    Unique,
}

/// Finds messages.
#[derive(Debug)]
pub struct Lookup {
    store: Arc<Store>,
}

impl Lookup {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self { store: store.clone() }
    }

    /// The message at a place in the log. Waits for the disk.
    pub fn at(&self, offset: LogOffset) -> Result<Bytes, Refusal> {
        let found = self.store.record_at(offset).map_err(internal)?;
        found.ok_or_else(|| Refusal::NoSuchMessage(format!("can not find message by the offset, {offset}")))
    }

    /// Messages of a topic with a key, stored within the times, newest first: so many and so many bytes at most. Waits
    /// for the disk.
    pub fn by_key(
        &self,
        topic: &str,
        key: &str,
        kind: KeyKind,
        times: (Timestamp, Timestamp),
        (count_max, size_max): (usize, usize),
    ) -> Result<Vec<Bytes>, Refusal> {
        let mut found = Vec::new();
        let mut size_left = size_max;
        let mut places = Vec::new();
        let hash = key_hash(topic, key);
        let searched = self.store.find_by_key(hash, times, count_max, |offset| {
            if places.contains(&offset) {
                // Power loss can leave a record in the index twice.
                return Ok(false);
            }
            let Some(bytes) = self.store.record_at(offset)? else { return Ok(false) };
            let fits = Record::decode(&bytes).is_ok_and(|record| {
                let stored = record.store_timestamp;
                record.topic == topic && has_key(&record, key, kind) && times.0 <= stored && stored <= times.1
            });
            let Some(left) = size_left.checked_sub(bytes.len()).filter(|_| fits) else { return Ok(false) };
            size_left = left;
            places.push(offset);
            found.push(bytes);
            Ok(true)
        });
        searched.map_err(internal)?;
        if found.is_empty() {
            return Err(Refusal::NoSuchMessage(format!(
                "no message of topic [{topic}] has the key [{key}] within the time asked for, or it is no longer kept"
            )));
        }
        Ok(found)
    }

    /// Time and place of the last record that can be found by key.
    pub fn last_indexed(&self) -> (Timestamp, LogOffset) {
        self.store.key_index_last()
    }
}

/// The index keeps hashes only: the key itself is compared here.
fn has_key(record: &Record<'_>, key: &str, kind: KeyKind) -> bool {
    let is_unique = record.property(names::UNIQUE_KEY) == Some(key);
    match kind {
        KeyKind::Unique => is_unique,
        KeyKind::Key => {
            is_unique || record.property(names::KEYS).is_some_and(|keys| keys.split(' ').any(|word| word == key))
        }
    }
}
