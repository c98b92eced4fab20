//! What may enter the registry: names, addresses and counts of a registration, checked before anything is changed.
//! What is wrong with a single topic costs that topic, what is wrong with the broker the whole registration.

use base::Refusal;
use base::cursor::preview;
use base::limits::TOPICS_MAX;
use wire::rocketmq::registration::Registration;

use super::broker::{BrokerIdentity, BrokerTraits};
use super::registry::Registry;
use crate::limits::{ADDRESS_SIZE_MAX, BROKERS_MAX, REPLICAS_MAX, check_address, check_name};

/// Leaves out the topics that cannot be kept under their names, and notes them: one must not keep its broker out.
pub(super) fn leave_out_unusable_topics(what: &mut Registration) {
    let Registration { topics, odd, .. } = what;
    topics.topic_config_table.retain(|key, topic| {
        let problem = match check_name("topic", &topic.topic_name) {
            Err(refusal) => refusal.to_string(),
            Ok(()) if *key != topic.topic_name => {
                format!("it is sent under the name [{}], and both must be one", preview(topic.topic_name.as_bytes()))
            }
            Ok(()) => return true,
        };
        odd.leave_out(key, &problem);
        false
    });
}

impl Registry {
    /// Refuses a broker that is malformed or would be one too many.
    pub(super) fn check_registration(
        &self,
        who: &BrokerIdentity<'_>,
        traits: &BrokerTraits<'_>,
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
