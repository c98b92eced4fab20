//! What becomes of each key that RocketMQ's configuration files can have.
//!
//! A key is applied (it means a setting, see the aliases in the table of settings), not needed (with
//! the reason), or belongs to a feature that Sluice does not have yet. No key is unknown, so a typo
//! can be told from a key that has no effect here.

mod later;
mod unneeded;

use super::conversion::Conversion;
use super::table::{self, Alias, Scope, Setting};

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

/// Whether a value of a key asks for a feature that is not there, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// No value does: the key only tunes the feature.
    Never,
    /// Such a value is reported as a warning.
    Warn(When),
    /// Going on without the feature would be unsafe: such a value is an error.
    Refuse(When),
}

/// Which values of a key ask for its feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The value `true`.
    True,
    /// This value, letter case aside.
    Is(&'static str),
    /// Any value but this one, letter case aside.
    IsNot(&'static str),
}

impl When {
    /// Whether the value asks for the feature.
    pub fn holds(self, value: &str) -> bool {
        let value = value.trim();
        match self {
            When::True => value.eq_ignore_ascii_case("true"),
            When::Is(word) => value.eq_ignore_ascii_case(word),
            When::IsNot(word) => !value.eq_ignore_ascii_case(word),
        }
    }
}

/// Keys that Sluice has no use for, with their common reason.
struct UnneededKeys {
    reason: &'static str,
    keys: &'static [&'static str],
}

/// Keys of a feature that is not there yet.
struct LaterKeys {
    feature: &'static str,
    tune: &'static [&'static str],
    warn: &'static [(&'static str, When)],
    refuse: &'static [(&'static str, When)],
}

impl LaterKeys {
    fn find(&self, key: &str) -> Option<Asks> {
        let of = |list: &[(&str, When)]| list.iter().find(|(name, _)| *name == key).map(|(_, when)| *when);
        if self.tune.contains(&key) {
            return Some(Asks::Never);
        }
        of(self.warn).map(Asks::Warn).or_else(|| of(self.refuse).map(Asks::Refuse))
    }

    fn keys(&self) -> impl Iterator<Item = &'static str> {
        let asking = self.warn.iter().chain(self.refuse).map(|(key, _)| *key);
        self.tune.iter().copied().chain(asking)
    }
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
