//! What may enter the registry: names, addresses and counts of a registration, checked before anything is changed.

use base::Refusal;
use base::limits::TOPICS_MAX;
use wire::rocketmq::registration::Registration;

use super::broker::{BrokerIdentity, BrokerTraits};
use super::registry::Registry;
use crate::limits::{ADDRESS_SIZE_MAX, BROKERS_MAX, REPLICAS_MAX, check_address, check_name};

impl Registry {
    /// Refuses a registration that is malformed or would exceed a bound.
    pub(super) fn check_registration(
        &self,
        who: &BrokerIdentity<'_>,
        traits: &BrokerTraits<'_>,
        what: &Registration,
    ) -> Result<(), Refusal> {
        check_name("cluster", who.cluster)?;
        check_name("broker", who.name)?;
        check_address(who.address)?;
        if who.id < 0 {
            let problem = format!("the broker id {} is negative; a master has 0, a replica more", who.id);
            return Err(Refusal::BadRequest(problem));
        }
        let longest = traits.ha_address.len().max(traits.zone.map_or(0, str::len));
        if longest > ADDRESS_SIZE_MAX {
            let problem = format!(
                "a zone or replication address is {longest} bytes long; at most {ADDRESS_SIZE_MAX} are allowed"
            );
            return Err(Refusal::BadRequest(problem));
        }
        for (key, topic) in &what.topics.topic_config_table {
            check_name("topic", &topic.topic_name)?;
            if *key != topic.topic_name {
                let problem =
                    format!("the topic [{key}] is sent under the name [{}]; both must be one", topic.topic_name);
                return Err(Refusal::BadRequest(problem));
            }
        }
        let broker = self.brokers.get(who.name);
        if broker.is_none() && self.brokers.len() >= BROKERS_MAX {
            return Err(Refusal::Busy(format!("{BROKERS_MAX} broker names are registered, which is the limit")));
        }
        let replicas = broker.map_or(0, |broker| broker.addresses.len());
        if replicas >= REPLICAS_MAX && broker.is_some_and(|broker| !broker.addresses.contains_key(&who.id)) {
            let problem =
                format!("{REPLICAS_MAX} processes are registered as broker [{}], which is the limit", who.name);
            return Err(Refusal::Busy(problem));
        }
        if self.topics.len() + what.topics.topic_config_table.len() > TOPICS_MAX {
            let new_count =
                what.topics.topic_config_table.keys().filter(|&name| !self.topics.contains_key(&**name)).count();
            check_topic_count(self.topics.len() + new_count)?;
        }
        Ok(())
    }
}

/// Refuses more topics than the registry holds.
pub(super) fn check_topic_count(count: usize) -> Result<(), Refusal> {
    if count > TOPICS_MAX {
        let problem = format!("{count} topics would be registered; at most {TOPICS_MAX} are kept; delete topics first");
        return Err(Refusal::Busy(problem));
    }
    Ok(())
}
