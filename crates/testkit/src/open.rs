//! A broker over a store of one's own.

use std::sync::Arc;

use base::Now;
use base::metric::Metrics;
use broker::{Broker, Host, Surroundings};
use storage::StorageError;

/// Opens a broker with figures of its own and one seed for all.
pub fn open_broker(
    options: broker::Options,
    store: storage::Options,
    host: Arc<dyn Host>,
    now: Now,
) -> Result<Broker, StorageError> {
    let surroundings = Surroundings { metrics: Arc::new(Metrics::default()), host, seed: 7 };
    Broker::open(options, store, surroundings, now, &mut |_| ()).map(|(broker, _)| broker)
}
