//! The settings of a process that runs, for who administrates it.

use std::fmt;

/// A setting, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSetting {
    /// Its dotted name.
    pub name: &'static str,
    /// Its value, as a settings file has it.
    pub value: String,
    /// Where that comes from.
    pub place: String,
    /// Whether a change counts while the process runs.
    pub changes_at_once: bool,
}

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedSetting {
    /// Its dotted name.
    pub name: &'static str,
    /// The value before.
    pub from: String,
    /// The value now.
    pub to: String,
}

/// Shows and changes settings.
pub trait RunningSettings: fmt::Debug + Send + Sync {
    /// Every setting.
    fn all(&self) -> Vec<ShownSetting>;

    /// Names and values of the settings of one of the process's brokers, under RocketMQ's names too.
    fn of_broker(&self, broker: &str) -> Vec<(String, String)>;

    /// Changes settings until the process ends: all that are named, or none, and then the text says why. Waits until clients that ask a
    /// name server hear of it.
    fn change(&self, wanted: &[(String, String)]) -> Result<Vec<ChangedSetting>, String>;
}

/// No settings at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSettings;

impl RunningSettings for NoSettings {
    fn all(&self) -> Vec<ShownSetting> {
        Vec::new()
    }

    fn of_broker(&self, _: &str) -> Vec<(String, String)> {
        Vec::new()
    }

    fn change(&self, _: &[(String, String)]) -> Result<Vec<ChangedSetting>, String> {
        Err("this process has no settings".to_owned())
    }
}
