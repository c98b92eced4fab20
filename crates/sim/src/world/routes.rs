//! The node stays registered, and clients find its topics.

use super::World;
use crate::oracle::{Checked, Rule, Violation, check};
use crate::registration::TELLING_STEPS;

/// How much time passes with each step in which name servers are told of topics.
const TELLING_STEP_MS: u64 = 5;

impl World {
    /// The node's registration goes a step further.
    pub(super) fn register(&mut self) -> Checked {
        let Err(reason) = self.registration.step(self.now) else { return Ok(()) };
        self.trace.say(|| format!("  the registration ends: {reason}"));
        // Much time may have passed while a request was on its way. Another connection is opened then, as the server does.
        let is_late = reason == "no answer" || reason.starts_with("no TLS handshake within");
        check(is_late, Rule::TopicsHaveRoutes, || reason)?;
        self.registration.close(self.now);
        self.open_registration()
    }

    pub(super) fn open_registration(&mut self) -> Checked {
        let node = self.node.as_ref().ok_or_else(|| Violation::of(Rule::TheNodeStarts, "there is no node"))?;
        let opened = self.registration.open(node, self.now);
        opened.map_err(|problem| Violation::of(Rule::TopicsHaveRoutes, problem))
    }

    /// Clients find every topic, soon and not only when the broker registers anew.
    pub(super) fn check_routes(&mut self) -> Checked {
        for _ in 0..TELLING_STEPS {
            self.register()?;
            self.pass(TELLING_STEP_MS);
        }
        let topics = self.node()?.broker.catalog.topic_table().topic_config_table;
        let missing = topics.keys().find(|topic| !self.registration.finds(topic, self.now));
        check(missing.is_none(), Rule::TopicsHaveRoutes, || format!("{missing:?}"))
    }
}
