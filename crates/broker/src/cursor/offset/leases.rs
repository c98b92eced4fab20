//! Where committed offsets and lease cursors of a group meet: a lease cursor begins at the offset, which follows its floor from then on.

use std::sync::Arc;

use base::{GroupName, QueueId, QueueOffset, Refusal};

use super::Offsets;
use crate::RawOffset;
use crate::catalog::Topic;
use crate::cursor::lane::{Lane, Place};
use crate::queue::Queue;

/// Where a group begins that has no offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    /// At the first message there is.
    #[default]
    First,
    /// Behind the last one, unless the queue is young.
    Last,
}

impl Offsets {
    /// Has a group's lease cursor in a queue, if there is one, go on where its committed offset was put.
    pub(super) fn reset_lane(&self, topic: &str, group: &str, queue: u32, offset: RawOffset) {
        let Some(end) = self.catalog.end_of(topic, QueueId(queue)) else { return };
        self.lanes.reset(topic, group, queue, QueueOffset(offset.max(0) as u64).min(end));
    }

    /// Has all groups begin at the start of a queue that is gone, with its messages, should its topic get it again.
    pub(crate) fn begin_anew(&self, topic: &str, queue: QueueId) {
        let _in_order = self.keeping.lock();
        for (group, cursor) in self.committed.lock().cursors_of(topic) {
            cursor.begin_anew(queue.0);
            self.lanes.reset(topic, &group, queue.0, QueueOffset(0));
        }
    }

    /// A group's lease cursor in a queue, made if it is not there: at the group's offset, or where it begins. Waits for the disk.
    pub fn lane(&self, topic: &str, group: &str, queue: QueueId, beginning: Beginning) -> Result<Arc<Lane>, Refusal> {
        GroupName::checked(group)?;
        loop {
            let known = self.catalog.topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
            let committed = self.committed(topic, group, queue);
            let start = committed.map_or_else(|| self.start_of_new(topic, queue, true), |offset| Ok(Some(offset)))?;
            let _in_order = self.keeping.lock();
            let is_the_same = |now: &Arc<Topic>| Arc::ptr_eq(now, &known);
            // Else it was removed meanwhile, or the group was.
            if self.catalog.topic(topic).as_ref().is_some_and(is_the_same)
                && self.committed(topic, group, queue) == committed
            {
                return self.lane_from((topic, group), known.queue(queue)?, start, beginning);
            }
        }
    }

    fn lane_from(
        &self,
        (topic, group): (&str, &str),
        at: &Queue,
        start: Option<RawOffset>,
        beginning: Beginning,
    ) -> Result<Arc<Lane>, Refusal> {
        let at = at.clone();
        let start = start.map_or_else(
            || if beginning == Beginning::First { at.first() } else { at.end() },
            |offset| QueueOffset(offset.max(0) as u64).min(at.end()),
        );
        let committed = self.put(topic, group, at.id(), |_| true)?;
        committed.draw_back(at.id().0, at.end());
        self.lanes.lane_at(topic, group, Place { queue: at, committed: Some(committed) }, start)
    }
}
