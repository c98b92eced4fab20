//! What becomes of each key that RocketMQ's configuration files can have.
//!
//! A key is applied (it means a setting, see the aliases in the table of settings), not needed (with
//! the reason), or belongs to a feature that Sluice does not have yet. No key is unknown, so a typo
//! can be told from a key that has no effect here.

mod key_group;
mod later;
mod unneeded;

use super::conversion::Conversion;
use super::table::{self, Alias, Scope, Setting};
use key_group::LaterKeys;
pub use key_group::{Asks, When};

/// What becomes of a key.
#[derive(Clone, Copy, Debug)]
pub enum Disposition {
    /// It is the setting, in the same words.
    Applied(&'static Setting),
    /// It is the setting once its value is converted.
    Mapped(&'static Setting, Conversion),
    /// Sluice has no use for it; the text completes the sentence "... is not needed: ".
    Unneeded(&'static str),
    /// It belongs to a feature that is not there yet.
    Later {
        /// The feature.
        feature: &'static str,
        /// Whether a value asks for the feature, and how serious that is.
        asks: Asks,
    },
}

/// What becomes of a key in a file of this scope; nothing for a key that RocketMQ does not have.
pub fn disposition(key: &str, scope: Scope) -> Option<Disposition> {
    if let Some((setting, alias)) = aliased(key, scope) {
        return Some(match alias.conversion {
            Conversion::Same => Disposition::Applied(setting),
            conversion => Disposition::Mapped(setting, conversion),
        });
    }
    if let Some(group) = unneeded::KEYS.iter().find(|group| group.keys.contains(&key)) {
        return Some(Disposition::Unneeded(group.reason));
    }
    later::KEYS.iter().find_map(|group| {
        let asks = group.find(key)?;
        Some(Disposition::Later { feature: group.feature, asks })
    })
}

/// Every key that is known, in no particular order.
pub fn keys() -> impl Iterator<Item = &'static str> {
    let applied = table::rows().flat_map(|row| row.aliases).map(|alias| alias.key);
    let unneeded = unneeded::KEYS.iter().flat_map(|group| group.keys).copied();
    applied.chain(unneeded).chain(later::KEYS.iter().flat_map(LaterKeys::keys))
}

/// Features that keys wait for, each with its keys.
pub(super) fn features() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    later::KEYS.iter().map(|group| (group.feature, group.keys().collect()))
}

/// Reasons for which keys are not needed, each with its keys.
pub(super) fn reasons() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    unneeded::KEYS.iter().map(|group| (group.reason, group.keys))
}

fn aliased(key: &str, scope: Scope) -> Option<(&'static Setting, &'static Alias)> {
    table::rows().find_map(|row| {
        let fits = |alias: &&Alias| alias.key == key && (alias.scope == Scope::Any || alias.scope == scope);
        row.aliases.iter().find(fits).map(|alias| (row, alias))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const LIST: &str = include_str!("../../../../testdata/rocketmq/configuration-keys.txt");

    fn listed() -> impl Iterator<Item = Vec<&'static str>> {
        let rows = LIST.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        rows.map(|line| line.split('\t').collect())
    }

    #[test]
    fn every_key_of_rocketmq_has_a_disposition() {
        let mut missing = Vec::new();
        for row in listed() {
            let [class, key, _, _, versions] = row.as_slice() else { panic!("{row:?}") };
            assert!(!versions.is_empty());
            for scope in [Scope::Broker, Scope::NameServer] {
                if disposition(key, scope).is_none() {
                    missing.push(format!("{class}.{key} in {scope:?}"));
                }
            }
        }
        assert!(missing.is_empty(), "without disposition:\n{}", missing.join("\n"));
        assert!(listed().count() > 550);
    }

    #[test]
    fn no_key_has_two_dispositions() {
        let mut seen: HashMap<&str, u32> = HashMap::new();
        for key in keys() {
            *seen.entry(key).or_default() += 1;
        }
        // A broker's in one file, a name server's in the other.
        seen.remove("listenPort");
        seen.remove("serverChannelMaxIdleTimeSeconds");
        let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn the_defaults_of_rocketmq_never_stop_the_broker() {
        for row in listed() {
            let [_, key, _, default, _] = row.as_slice() else { panic!("{row:?}") };
            if default.starts_with('(') {
                continue; // depends on the machine or is not set
            }
            match disposition(key, Scope::Broker) {
                Some(Disposition::Later { asks: Asks::Refuse(when), .. }) => {
                    assert!(!when.holds(default), "{key}={default}");
                }
                Some(Disposition::Applied(setting)) => {
                    setting.kind.read(default).unwrap_or_else(|why| panic!("{key}: {why:?}"));
                }
                Some(Disposition::Mapped(setting, conversion)) => {
                    let text = conversion.apply(default).unwrap();
                    setting.kind.read(&text).unwrap_or_else(|why| panic!("{key}: {why:?}"));
                }
                _ => {}
            }
        }
    }
}
