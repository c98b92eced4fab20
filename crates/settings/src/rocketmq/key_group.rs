//! Keys that share what becomes of them: a reason why they are not needed, or a feature that they wait for.

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
pub(super) struct UnneededKeys {
    pub(super) reason: &'static str,
    pub(super) keys: &'static [&'static str],
}

/// Keys of a feature that is not there yet.
pub(super) struct LaterKeys {
    pub(super) feature: &'static str,
    pub(super) tune: &'static [&'static str],
    pub(super) warn: &'static [(&'static str, When)],
    pub(super) refuse: &'static [(&'static str, When)],
}

impl LaterKeys {
    pub(super) fn find(&self, key: &str) -> Option<Asks> {
        let of = |list: &[(&str, When)]| list.iter().find(|(name, _)| *name == key).map(|(_, when)| *when);
        if self.tune.contains(&key) {
            return Some(Asks::Never);
        }
        of(self.warn).map(Asks::Warn).or_else(|| of(self.refuse).map(Asks::Refuse))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'static str> {
        let asking = self.warn.iter().chain(self.refuse).map(|(key, _)| *key);
        self.tune.iter().copied().chain(asking)
    }
}
