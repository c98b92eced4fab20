//! The settings of the running process: shown, changed by administrators, read again after a HUP signal.
//!
//! **Always holds**: what is shown is what counts now. A change is taken whole or not at all, one at a time; what was changed by an
//! administrator overrules the file until the process ends.

use std::fmt;
use std::sync::{Arc, OnceLock};

use base::running_settings::{ChangedSetting, RunningSettings, ShownSetting};
use broker::{Broker, RunningOptions};
use parking_lot::Mutex;
use settings::{Changed, Loaded, Origin, table};

use crate::broker_options;
use crate::clock;
use crate::logging::Level;

/// The settings.
pub(crate) struct Running {
    state: Mutex<State>,
    /// Once they are open.
    brokers: OnceLock<Vec<Arc<Broker>>>,
    level: Level,
}

struct State {
    origin: Origin,
    /// What counts now.
    loaded: Loaded,
}

impl fmt::Debug for Running {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Running {
    pub(crate) fn new(origin: Origin, loaded: Loaded, level: Level) -> Self {
        Self { state: Mutex::new(State { origin, loaded }), brokers: OnceLock::new(), level }
    }

    /// The brokers are open, in the order of the settings.
    pub(crate) fn set_brokers(&self, brokers: Vec<Arc<Broker>>) {
        let _ = self.brokers.set(brokers);
    }

    /// Reads the settings file again. What is wrong with it is logged, and then nothing changes.
    pub(crate) fn read_again(&self) {
        let mut state = self.state.lock();
        let read = state.origin.with_file_read_again().map_err(|error| error.to_string());
        let read = read.and_then(|origin| Ok((origin.load().map_err(|errors| errors.to_string())?, origin)));
        let (loaded, origin) = match read {
            Ok(read) => read,
            Err(problem) => {
                tracing::error!(problem, "the settings cannot be read again; they stay as they are");
                return;
            }
        };
        let changes = state.loaded.changes_to(&loaded);
        tell(&changes);
        let overruled = origin.overruled();
        for Changed { name, from, to, .. } in &overruled {
            tracing::warn!(
                name,
                set = from,
                file = to,
                "the settings file says otherwise than was set while the process runs, which counts until its end"
            );
        }
        if changes.is_empty() && overruled.is_empty() {
            tracing::info!("the settings were read again: nothing is different");
        }
        self.count_from_now(&mut state, origin, &loaded);
    }

    /// Has what may change at once count.
    fn count_from_now(&self, state: &mut State, origin: Origin, wanted: &Loaded) {
        let loaded = state.loaded.with_changes_of(wanted);
        if loaded.settings.log.level != state.loaded.settings.log.level {
            self.level.set(&loaded.settings.log.level);
        }
        let brokers = self.brokers.get().into_iter().flatten();
        for (broker, one) in brokers.zip(loaded.settings.brokers()) {
            broker.store().set_retention(broker_options::retention_policy(&one.settings));
            let options = broker_options::broker_options(&one.settings, broker.options().store_host);
            broker.change(&RunningOptions::from(&options), clock::now());
        }
        *state = State { origin, loaded };
    }
}

impl RunningSettings for Running {
    fn all(&self) -> Vec<ShownSetting> {
        let state = self.state.lock();
        let shown = table::rows().zip(&state.loaded.effective).map(|(row, one)| ShownSetting {
            name: row.name,
            value: one.value.to_string(),
            place: one.place.to_string(),
            changes_at_once: row.changes_at_once(),
        });
        shown.collect()
    }

    fn of_broker(&self, broker: &str) -> Vec<(String, String)> {
        let state = self.state.lock();
        let brokers = state.loaded.settings.brokers();
        let one = brokers.iter().find(|one| one.settings.broker.name == broker);
        one.map(|one| broker_options::shown_settings(&one.settings, &state.loaded.effective)).unwrap_or_default()
    }

    fn change(&self, wanted: &[(String, String)]) -> Result<Vec<ChangedSetting>, String> {
        let mut state = self.state.lock();
        // What waits for a restart already is no matter of this change.
        let pending = state.origin.load().map(|file| state.loaded.changes_to(&file)).unwrap_or_default();
        let origin = state.origin.with_changes(wanted);
        let loaded = origin.load().map_err(|errors| errors.to_string())?;
        let mut changes = state.loaded.changes_to(&loaded);
        changes.retain(|change| !pending.contains(change));
        let late: Vec<_> = changes.iter().filter(|change| !change.at_once).map(|change| change.name).collect();
        if !late.is_empty() {
            return Err(format!(
                "{} cannot change while the process runs: set it in the settings file and start the process again",
                late.join(", ")
            ));
        }
        tell(&changes);
        self.count_from_now(&mut state, origin, &loaded);
        Ok(changes.into_iter().map(|Changed { name, from, to, .. }| ChangedSetting { name, from, to }).collect())
    }
}

fn tell(changes: &[Changed]) {
    for Changed { name, from, to, at_once } in changes {
        if *at_once {
            tracing::info!(name, from, to, "setting changed");
        } else {
            tracing::warn!(name, from, to, "setting changed in the file: it counts from the next start on");
        }
    }
}
