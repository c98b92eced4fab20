//! Records put into a batch by the store's own rules, as a broker does it.

use std::sync::Arc;

use format::index_rules::IndexedProperties;
use format::record::Draft;
use storage::{AppendBatch, QueueIndex, Store};

/// Adds one record for `queue`, found by what its properties say.
pub fn push(store: &Store, batch: &mut AppendBatch, queue: &Arc<QueueIndex>, draft: &Draft<'_>) {
    let block = draft.properties.concat();
    let indexed = store.index_rules().apply(draft.topic, draft.system_flag, &IndexedProperties::of(&block));
    batch.push(queue, draft, &indexed);
}
