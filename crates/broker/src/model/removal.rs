//! Queues that go: with their connection, with their last consumer, for not being used; and their files.

use base::{Now, QueueNumber, Refusal, TopicName};
use format::state::StateChange;

use super::Model;
use super::change::OnlyIf;
use super::message_queue::ConnectionNumber;
use crate::error::{internal, refusal_of};

impl Model {
    /// The connection is gone, and with it the queues that were its alone.
    pub fn connection_closed(&self, who: ConnectionNumber, now: Now) {
        self.connections.remove(who);
        let owned = self.owned.lock().remove(&who).unwrap_or_default();
        for queue in owned {
            let Ok(host) = self.host(queue.host()) else { continue };
            // Nothing is asked of it that could be refused.
            let _ = self.remove_queue(&host, &queue, OnlyIf::default(), now);
        }
    }

    /// Removes the files of queues that are gone. Waits for the disk.
    pub(crate) fn finish_removals(&self, now: Now) -> Result<(), Refusal> {
        let leaving = std::mem::take(&mut *self.leaving.lock());
        if leaving.is_empty() {
            return Ok(());
        }
        let (mut left, mut failure) = (Vec::new(), None);
        // A start must not find a queue without its files.
        if let Err(error) = self.store.sync_until(self.state.end()) {
            self.leaving.lock().extend(leaving);
            return Err(internal(error));
        }
        for number in leaving {
            if let Err(refusal) = self.remove_rest(number, now) {
                failure = Some(refusal);
                left.push(number);
            }
        }
        self.leaving.lock().extend(left);
        failure.map_or(Ok(()), Err)
    }

    fn remove_rest(&self, number: QueueNumber, now: Now) -> Result<(), Refusal> {
        let topic = TopicName::of_message_queue(number);
        let is_of_queue = |known: &str, _: &str| known == topic.as_str();
        for of in self.lanes.of(is_of_queue) {
            self.lanes.forget(&of);
            self.state.propose(vec![StateChange::LeasesRemoved { of }], now).map_err(refusal_of)?;
        }
        self.store.remove_message_queue(number).map_err(internal)
    }
}
