//! Settings of a name server: one table of name, type, default and meaning. Names are RocketMQ's, but for
//! `brokerTimeoutMillis`, which RocketMQ has fixed, and `idleTimeoutMillis`, which it counts in seconds. Changes made while running hold until the process ends.

use base::Refusal;
use base::cursor::preview;

use crate::limits::SETTINGS_TEXT_SIZE_MAX;

/// Settings that name files or rights; they can be set at the start only.
const FIXED: [&str; 4] = ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"];

macro_rules! options {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:literal, $name:literal;)*) => {
        /// Settings of a name server.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Options {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for Options {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Options {
            /// Names of all settings.
            pub const NAMES: &[&str] = &[$($name,)*];

            /// Every setting as a line `name=value`.
            pub fn to_text(&self) -> String {
                let mut text = String::new();
                $(text.push_str(&format!("{}={}\n", $name, self.$field));)*
                text
            }

            fn set(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
                match name {
                    $($name => self.$field = value.parse().map_err(|_| bad_value(name, value, stringify!($type)))?,)*
                    _ => return Err(unknown(name)),
                }
                Ok(())
            }
        }
    };
}

options! {
    /// Whether routes carry the order of queues kept in the key-value table.
    order_message_enable: bool = false, "orderMessageEnable";
    /// Whether brokers are told the orders of queues when they register.
    return_order_topic_config_to_broker: bool = true, "returnOrderTopicConfigToBroker";
    /// Whether a replica is shown as the master while there is none and it asked for that. RocketMQ has false.
    support_acting_master: bool = true, "supportActingMaster";
    /// Whether the list of all topics is given out.
    enable_all_topic_list: bool = true, "enableAllTopicList";
    /// Whether lists of topics by cluster or unit are given out.
    enable_topic_list: bool = true, "enableTopicList";
    /// Whether those that may act as master are told when the lowest broker id of their group changes. RocketMQ has false.
    notify_min_broker_id_changed: bool = true, "notifyMinBrokerIdChanged";
    /// Whether routes are refused for a while after the start, so that no client acts on a half-filled registry.
    need_wait_for_service: bool = false, "needWaitForService";
    /// How long routes are refused, in seconds.
    wait_for_service_seconds: u64 = 45, "waitSecondsForService";
    /// Whether a topic that a broker no longer registers is removed.
    delete_topic_with_broker_registration: bool = false, "deleteTopicWithBrokerRegistration";
    /// How often silent brokers are looked for, in milliseconds.
    scan_interval_ms: u64 = 5000, "scanNotActiveBrokerInterval";
    /// How long a broker may be silent that did not say so itself, in milliseconds.
    broker_timeout_ms: u64 = 120_000, "brokerTimeoutMillis";
    /// How long a connection may be without traffic, in milliseconds.
    idle_timeout_ms: u64 = 120_000, "idleTimeoutMillis";
}

impl Options {
    /// Applies the text of a properties file: all of it, or nothing.
    pub fn apply(&mut self, text: &[u8]) -> Result<(), Refusal> {
        if text.len() > SETTINGS_TEXT_SIZE_MAX {
            let problem =
                format!("the settings are {} bytes long; at most {SETTINGS_TEXT_SIZE_MAX} are allowed", text.len());
            return Err(Refusal::BadRequest(problem));
        }
        let text = std::str::from_utf8(text)
            .map_err(|_| Refusal::BadRequest("the settings are not UTF-8 text; send lines name=value".to_owned()))?;
        let mut changed = self.clone();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!'])) {
            let Some((name, value)) = line.split_once(['=', ':']) else {
                let problem = format!("the line [{}] is no setting; expected name=value", preview(line.as_bytes()));
                return Err(Refusal::BadRequest(problem));
            };
            changed.set(name.trim(), value.trim())?;
        }
        *self = changed;
        Ok(())
    }
}

fn bad_value(name: &str, value: &str, expected: &str) -> Refusal {
    let expected = if expected == "bool" { "true or false" } else { "a whole number" };
    Refusal::BadRequest(format!("the setting {name} cannot be [{}]; expected {expected}", preview(value.as_bytes())))
}

fn unknown(name: &str) -> Refusal {
    if FIXED.contains(&name) {
        let problem = format!("Can not update config in black list. The setting {name} can be set at the start only");
        return Refusal::NotPermitted(problem);
    }
    let (name, known) = (preview(name.as_bytes()), Options::NAMES.join(", "));
    Refusal::BadRequest(format!("the name server has no setting [{name}]; it has {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_applied_whole_or_not_at_all() {
        let mut options = Options::default();
        options.apply(b"# comment\n\n orderMessageEnable = true\r\nwaitSecondsForService:7\n").expect("applies");
        assert!(options.order_message_enable);
        assert_eq!(options.wait_for_service_seconds, 7);
        let before = options.clone();
        for text in [
            "supportActingMaster=false\nnoSuchThing=1",
            "supportActingMaster=false\nwaitSecondsForService=-1",
            "supportActingMaster=false\nenableTopicList=yes",
            "supportActingMaster=false\nrubbish",
            "supportActingMaster=false\nkvConfigPath=/x",
        ] {
            assert!(options.apply(text.as_bytes()).is_err(), "{text}");
        }
        assert!(options.apply(b"\xFF").is_err());
        assert!(options.apply(&vec![b'\n'; SETTINGS_TEXT_SIZE_MAX + 1]).is_err());
        assert_eq!(options, before);
    }

    #[test]
    fn what_is_written_is_read() {
        let changed = Options { support_acting_master: false, scan_interval_ms: 1000, ..Options::default() };
        let mut read = Options::default();
        read.apply(changed.to_text().as_bytes()).expect("applies");
        assert_eq!(read, changed);
        assert_eq!(changed.to_text().lines().count(), Options::NAMES.len());
    }
}
