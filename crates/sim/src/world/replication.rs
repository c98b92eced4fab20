//! The slave beside the node.

use super::World;
use crate::connection::Reply;
use crate::oracle::{Checked, Rule, check};
use crate::request::Asked;

/// Steps in which a slave has whatever its master has, if time passes and nothing keeps it from that.
const STEPS_TO_CATCH_UP: usize = 1500;

/// How much time passes in each of them.
const STEP_MS: u64 = 50;

impl World {
    /// The slave goes on by a step.
    pub(super) fn replicate(&mut self) -> Checked {
        match (&mut self.replica, &self.node) {
            (Some(replica), Some(node)) => replica.step(node, self.now),
            _ => Ok(()),
        }
    }

    /// A message whose producer waited for the slave is there when it is answered.
    pub(super) fn check_replicated(&self, asked: &Asked, reply: &Reply) -> Checked {
        let (Asked::Send(sending), Some(of), Some(replica)) = (asked, self.setup.replica, &self.replica) else {
            return Ok(());
        };
        if reply.code != 0 || !sending.waits || !of.is_waited_for {
            return Ok(());
        }
        let ids = reply.fields.get("msgId").map(String::as_str).unwrap_or_default();
        for offset in ids.split(',').filter_map(crate::oracle::log_offset_in) {
            check(replica.has_had(offset), Rule::SlavesFollow, || {
                format!("{reply} is answered, and the slave does not have the message at {offset}")
            })?;
        }
        Ok(())
    }

    /// Nothing keeps the slave from having all that the master has.
    pub(super) fn catch_up(&mut self) -> Checked {
        let Some(replica) = &mut self.replica else { return Ok(()) };
        replica.recover();
        let Some(node) = &self.node else { return Ok(()) };
        for _ in 0..STEPS_TO_CATCH_UP {
            self.now = self.now.plus_ms(STEP_MS);
            let _ = node.broker.store().write_staged();
            replica.step(node, self.now)?;
        }
        // What cannot be read stays unread, and what cannot be kept is not to be had.
        let kept = node.broker.keep(self.now);
        for _ in 0..STEPS_TO_CATCH_UP / 5 {
            replica.step(node, self.now)?;
        }
        let is_excused = !self.sectors.is_empty() || kept.is_err() || node.broker.durability.poisoned().is_some();
        if is_excused { Ok(()) } else { replica.check_caught_up(node) }
    }
}
