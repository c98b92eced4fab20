//! Records to store.

use std::net::SocketAddr;

use base::{QueueId, Timestamp};
use format::record::Draft;

/// A message without properties, from another machine than the broker's.
pub fn draft<'a>(topic: &'a str, queue: QueueId, body: &'a [u8]) -> Draft<'a> {
    Draft {
        topic,
        queue,
        flag: 0,
        system_flag: 0,
        born_timestamp: Timestamp(5),
        born_host: SocketAddr::from(([10, 0, 0, 1], 5000)),
        store_host: SocketAddr::from(([127, 0, 0, 1], 10911)),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: &[],
    }
}
