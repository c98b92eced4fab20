//! RocketMQ's documents of a directory whose broker is stopped.

use std::sync::Arc;

use base::metric::Traffic;
use broker::Exported;
use settings::Settings;
use storage::RecoveryProgress;

use crate::broker_options::store_options;
use crate::clock;
use crate::error::StartError;
use crate::logging;

/// Writes them as a broker with these settings would; `None` if the directory has no state of Sluice's. What of the state cannot be
/// read is logged. Blocks.
pub fn export_documents(
    settings: &Settings,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<Option<Exported>, StartError> {
    let log = &settings.log;
    let _log = logging::start(log.format, &log.level, Arc::new(Traffic::default())).map_err(StartError::Threads)?;
    Ok(broker::export_documents(&store_options(settings), clock::now(), progress)?)
}
