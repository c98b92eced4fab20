//! Message queues: clients that publish, consume and settle one by one, over frames of AMQP, on a node and its slave.
//!
//! A seed makes a story of its own (`queues/story.rs`), beside that of topics. What is promised stands in `docs/semantics.md`; the oracle
//! (`queues/oracle.rs`) knows what a kill, a power cut and a slave that becomes the master may take of it.

mod client;
mod oracle;
mod story;
mod world;

pub use story::{QueueAction, QueueStory};

use crate::oracle::Checked;
use crate::run::caught;
use crate::trace::Trace;

impl QueueStory {
    /// Runs it, with its trace.
    pub fn tell(&self, trace: Trace) -> (Trace, Checked) {
        caught(|| world::run(self, trace))
    }

    /// The shortest begin and fewest steps that break the same rule.
    #[must_use]
    pub fn shrunk(&self) -> Self {
        let mut shortest = self.clone();
        let Err(broken) = shortest.tell(Trace::default()).1 else { return shortest };
        let mut at = 0;
        while at < shortest.steps.len() {
            let mut shorter = shortest.clone();
            shorter.steps.remove(at);
            if shorter.tell(Trace::default()).1.is_err_and(|violation| violation.rule == broken.rule) {
                shortest = shorter;
            } else {
                at += 1;
            }
        }
        shortest
    }
}
