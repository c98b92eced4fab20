//! Registrations with topics that had to be changed or left out, for the log: told once, and again when it is another.

use std::collections::{BTreeMap, VecDeque};

use wire::rocketmq::registration::OddTopics;

use super::broker::BrokerIdentity;
use crate::limits::BROKERS_MAX;

/// A broker whose topics are not all as they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddRegistration {
    /// Its name.
    pub broker: String,
    /// Its address.
    pub address: String,
    /// What is odd.
    pub topics: OddTopics,
}

/// What was told, and what is to be.
#[derive(Debug, Default)]
pub(super) struct OddRegistrations {
    /// What was told last, by address.
    told: BTreeMap<String, OddTopics>,
    /// At most `BROKERS_MAX`.
    untold: VecDeque<OddRegistration>,
}

impl OddRegistrations {
    /// Notes what a registration had. Brokers repeat themselves every 30 seconds; the log does not.
    pub(super) fn note(&mut self, who: &BrokerIdentity<'_>, topics: OddTopics) {
        if topics.count == 0 {
            if !self.told.is_empty() {
                self.told.remove(who.address);
            }
            return;
        }
        if self.told.get(who.address) == Some(&topics) || self.untold.len() >= BROKERS_MAX {
            return;
        }
        if self.told.len() >= BROKERS_MAX {
            self.told.clear();
        }
        self.told.insert(who.address.to_owned(), topics.clone());
        self.untold.push_back(OddRegistration { broker: who.name.to_owned(), address: who.address.to_owned(), topics });
    }

    pub(super) fn is_told(&self) -> bool {
        self.untold.is_empty()
    }

    pub(super) fn take(&mut self) -> Vec<OddRegistration> {
        self.untold.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_broker_is_told_of_once_until_it_has_other_oddities() {
        let mut registrations = OddRegistrations::default();
        let mut told = |address: &str, count: usize| {
            let who = BrokerIdentity { cluster: "c", name: "b", id: 0, address };
            registrations.note(&who, OddTopics { count, ..OddTopics::default() });
            registrations.take().len()
        };
        let rounds = [("a:1", 1), ("b:1", 1), ("a:1", 1), ("b:1", 1), ("a:1", 2), ("a:1", 0), ("b:1", 1), ("a:1", 2)];
        assert_eq!(rounds.map(|(address, count)| told(address, count)), [1, 1, 0, 0, 1, 0, 0, 1]);
    }
}
