//! The body of a batch send.

use bytes::BytesMut;
use format::batch_body::{BatchItem, items};

/// Items that decode come back the same after they were written; after an error nothing follows.
pub fn run(data: &[u8]) {
    let mut found = Vec::new();
    let mut walk = items(data);
    while let Some(item) = walk.next() {
        let Ok(item) = item else {
            assert!(walk.next().is_none());
            return;
        };
        found.push(item);
    }
    let mut written = BytesMut::new();
    found.iter().for_each(|item| item.encode(&mut written));
    assert_eq!(written.len(), data.len());
    let again: Result<Vec<_>, _> = items(&written).collect();
    assert_eq!(again.as_ref(), Ok(&found));
}

/// Batches that were written, and captured bodies.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut batch = BytesMut::new();
    for (body, properties) in [(&b"one"[..], &b"TAGS\x01A\x02"[..]), (b"", b""), (b"two", b"KEYS\x01k")] {
        BatchItem { flag: 7, body, properties }.encode(&mut batch);
    }
    let mut seeds = crate::golden::bodies();
    seeds.retain(|body| items(body).all(|item| item.is_ok()));
    seeds.push(batch.to_vec());
    seeds
}
