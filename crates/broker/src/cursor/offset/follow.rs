//! Committed offsets of a slave, and of a master that a slave tells of them. A slave has its master's, and beyond them what was settled here
//! and the master does not know.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{GroupName, QueueId, Refusal};
use format::state::StateChange;

use super::Offsets;
use crate::RawOffset;
use crate::cursor::committed::{OffsetCursor, QueueTable, key};
use crate::state::{OffsetTable, StateTables};

impl Offsets {
    /// Makes changes of offsets and leases that the log of a slave's master tells of.
    pub(crate) fn follow(&self, mut changes: Vec<StateChange>) {
        let _in_order = self.keeping.lock();
        let mut settled = self.state.settled().lock();
        changes.iter_mut().for_each(|change| settled.meet(change));
        drop(settled);
        let mut committed = self.committed.lock();
        self.state.note(changes.clone());
        for change in changes {
            match change {
                StateChange::Offsets { .. } => committed.follow(change),
                of_leases => self.lanes.follow(of_leases),
            }
        }
        self.unexported.store(true, Ordering::Release);
    }

    /// Changes that remove all offsets in a topic: also those that the log of a slave's master does not tell of.
    pub(crate) fn removals_in(&self, topic: &str) -> Vec<StateChange> {
        let of = self.groups_in(topic).into_iter().map(|group| key(topic, &group));
        of.map(|of| StateChange::Offsets { of, replaces: true, offsets: QueueTable::new() }).collect()
    }

    /// Takes what a slave says that was settled there, unless the group is further.
    pub fn advance(&self, topic: &str, group: &str, queue: QueueId, offset: RawOffset) -> Result<(), Refusal> {
        if offset < 0 {
            return Err(Refusal::BadRequest(format!("the offset {offset} is negative")));
        }
        GroupName::checked(group)?;
        let advance = |cursor: &Arc<OffsetCursor>| {
            cursor.advance(queue.0, offset);
            true
        };
        self.put(topic, group, queue, advance).map(drop)
    }

    /// Has the offsets that the tables of a slave's master say.
    pub(crate) fn follow_table(&self, masters: OffsetTable) {
        // What is settled meanwhile waits, or stands: see `OffsetCursor::follow`.
        let _in_order = self.keeping.lock();
        let wanted = self.state.settled().lock().laid_over(masters);
        let known = StateTables { offsets: self.copy_of_all(), ..StateTables::default() };
        let changes = known.offset_changes_to(&wanted);
        if changes.is_empty() {
            return;
        }
        let mut committed = self.committed.lock();
        self.state.note(changes.clone());
        for change in changes {
            let StateChange::Offsets { of, offsets, .. } = change else { continue };
            if let Some((topic, group)) = of.split_once('@') {
                committed.follow_table(topic, group, offsets);
            }
        }
        self.unexported.store(true, Ordering::Release);
    }
}
