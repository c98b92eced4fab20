//! Settings of a test: shown as they are given, and one of them may change.

use base::running_settings::{ChangedSetting, RunningSettings, ShownSetting};
use parking_lot::Mutex;

/// The one that may change; another is refused.
pub const CHANGEABLE: &str = "retention.age";

/// Settings by name and value.
#[derive(Debug)]
pub struct GivenSettings(Mutex<Vec<(String, String)>>);

impl GivenSettings {
    /// These, behind [`CHANGEABLE`] with `72h`.
    pub fn new(others: &[(&str, &str)]) -> Self {
        let all = [(CHANGEABLE, "72h")].iter().chain(others);
        Self(Mutex::new(all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()))
    }
}

impl RunningSettings for GivenSettings {
    fn all(&self) -> Vec<ShownSetting> {
        let value = self.0.lock()[0].1.clone();
        vec![ShownSetting { name: CHANGEABLE, value, place: "default".to_owned(), changes_at_once: true }]
    }

    fn of_broker(&self, _: &str) -> Vec<(String, String)> {
        self.0.lock().clone()
    }

    fn change(&self, wanted: &[(String, String)]) -> Result<Vec<ChangedSetting>, String> {
        if let Some((name, _)) = wanted.iter().find(|(name, _)| name != CHANGEABLE) {
            return Err(format!("{name} cannot change while the process runs"));
        }
        let mut all = self.0.lock();
        let changed = wanted.iter().map(|(_, to)| ChangedSetting {
            name: CHANGEABLE,
            from: std::mem::replace(&mut all[0].1, to.clone()),
            to: to.clone(),
        });
        Ok(changed.collect())
    }
}
