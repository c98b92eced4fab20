//! Where the settings of a process come from, kept so that they can be read again and changed while it runs.

use super::error::{Error, Errors};
use super::file::{File, Role, load_file};
use super::load::{Layers, Loaded, load_layers};
use super::rocketmq::{self, Disposition};
use super::table::{self, Settings};
use super::values::Values;

/// A process's settings file and command line, and what was changed since.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Which process they are for.
    pub role: Role,
    /// The file, as it was read last.
    pub file: Option<File>,
    /// The texts of `--set key=value`.
    pub set: Vec<String>,
    /// Settings that have flags of their own, by their dotted names.
    pub flags: Vec<(&'static str, String)>,
    /// What was changed while the process ran, by Sluice's or RocketMQ's names: it overrules all else.
    changes: Vec<(String, String)>,
}

/// A setting that has another value than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its dotted name.
    pub name: &'static str,
    /// The value before, as text.
    pub from: String,
    /// The value now.
    pub to: String,
    /// Whether it counts at once; else from the next start on.
    pub at_once: bool,
}

impl Origin {
    /// What a process was started with.
    pub fn new(role: Role, file: Option<File>, set: Vec<String>, flags: Vec<(&'static str, String)>) -> Self {
        Self { role, file, set, flags, changes: Vec::new() }
    }

    /// The settings that this gives.
    pub fn load(&self) -> Result<Loaded, Errors> {
        let Self { role, file, set, flags, changes } = self;
        load_layers(*role, &Layers { file: file.as_ref(), set, flags, changes })
    }

    /// The same with the file as it is now.
    pub fn with_file_read_again(&self) -> Result<Self, Error> {
        let file = self.file.as_ref().map(|file| load_file(&file.path)).transpose()?;
        Ok(Self { file, ..self.clone() })
    }

    /// What would change if nothing had been changed while the process ran.
    pub fn overruled(&self) -> Vec<Changed> {
        let unchanged = Self { changes: Vec::new(), ..self.clone() };
        match (self.load(), unchanged.load()) {
            (Ok(with), Ok(without)) => with.changes_to(&without),
            _ => Vec::new(),
        }
    }

    /// The setting of a name, which may be RocketMQ's.
    fn meant_by<'a>(&self, name: &'a str) -> &'a str {
        match rocketmq::disposition(name, self.role.scope()) {
            Some(Disposition::Applied(setting) | Disposition::Mapped(setting, _)) => setting.name,
            _ => name,
        }
    }

    /// The same with some settings changed.
    pub fn with_changes(&self, wanted: &[(String, String)]) -> Self {
        let mut changes = self.changes.clone();
        changes.retain(|(name, _)| wanted.iter().all(|(other, _)| self.meant_by(other) != self.meant_by(name)));
        changes.extend_from_slice(wanted);
        Self { changes, ..self.clone() }
    }
}

impl Loaded {
    /// What is different in `other`.
    pub fn changes_to(&self, other: &Self) -> Vec<Changed> {
        let rows = table::rows().zip(self.effective.iter().zip(&other.effective));
        let different = rows.filter(|(_, (before, after))| before.value != after.value);
        let changed = different.map(|(row, (before, after))| Changed {
            name: row.name,
            from: before.value.to_string(),
            to: after.value.to_string(),
            at_once: row.changes_at_once(),
        });
        changed.collect()
    }

    /// These settings with the changes of `other` that count at once; what needs a restart stays as it is.
    pub fn with_changes_of(&self, other: &Self) -> Self {
        let rows = table::rows().zip(self.effective.iter().zip(&other.effective));
        let now = rows.map(|(row, (before, after))| if row.changes_at_once() { after } else { before });
        let effective: Vec<_> = now.cloned().collect();
        let values = Values(effective.iter().map(|one| (one.name, one.value.clone())).collect());
        // Each value was read as what its row wants.
        let settings = Settings::take(&values).unwrap_or_else(|_| self.settings.clone());
        Self { settings, notices: other.notices.clone(), effective }
    }
}
