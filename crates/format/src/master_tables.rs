//! The state as a slave hears it from its master.

use base::LogOffset;

use crate::state::StateChange;
use crate::state_documents::StateDocuments;

/// What a master answers to a slave that asks for its tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MasterTables {
    /// RocketMQ's.
    pub documents: StateDocuments,
    /// What no document tells, as changes of nothing: leases, and virtual hosts with what is in them. `None`: it was not asked for this
    /// time, or the master does not know the request.
    pub undocumented: Option<Vec<StateChange>>,
    /// What the log says below this is in all of them; `None`: the master's log tells of no changes.
    pub position: Option<LogOffset>,
}
