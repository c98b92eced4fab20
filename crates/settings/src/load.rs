//! Layers: defaults, then the file, then `--set`, then flags; each overrules those before.

use super::checks;
use super::entry::{Entry, Found, Place};
use super::error::{Error, Errors};
use super::file::{File, Format, Role};
use super::gathered::Gathered;
use super::kind::Value;
use super::notice::Notice;
use super::resolve::Names;
use super::table::{self, Settings};
use super::values::Values;

/// Settings that can be used, with what should be said about them.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// To be logged, one line each.
    pub notices: Vec<Notice>,
    /// Every setting with its value and where that came from, in the order of the table.
    pub effective: Vec<Effective>,
}

/// A setting, its value, and where the value came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The row of the table.
    pub name: &'static str,
    /// The value.
    pub value: Value,
    /// Where it came from.
    pub place: Place,
}

/// Loads settings for a process.
///
/// `set` are the texts of `--set key=value`, where the key may be RocketMQ's; `flags` are settings
/// that have flags of their own, by their dotted names.
pub fn load(role: Role, file: Option<&File>, set: &[String], flags: &[(&str, String)]) -> Result<Loaded, Errors> {
    load_layers(role, &Layers { file, set, flags, changes: &[] })
}

/// Sources, each overruling those before.
pub(super) struct Layers<'a> {
    pub(super) file: Option<&'a File>,
    pub(super) set: &'a [String],
    pub(super) flags: &'a [(&'a str, String)],
    /// What was changed while the process ran.
    pub(super) changes: &'a [(String, String)],
}

pub(super) fn load_layers(role: Role, layers: &Layers<'_>) -> Result<Loaded, Errors> {
    let Layers { file, set, flags, changes } = *layers;
    let mut gathered = Gathered::default();
    if let Some(file) = file {
        let names = match file.format() {
            Format::Toml => Names::Sluice,
            Format::Properties => Names::Both,
        };
        match file.entries() {
            Ok(entries) => gathered.add_layer(entries, names, role),
            Err(error) => gathered.errors.push(error),
        }
    }
    let entries = set.iter().filter_map(|pair| gathered.set_entry(pair)).collect();
    gathered.add_layer(entries, Names::Both, role);
    let flag = |(name, text): &(&str, String)| Entry {
        key: (*name).to_owned(),
        found: Found::Word(text.clone()),
        place: Place::Flag,
    };
    gathered.add_layer(flags.iter().map(flag).collect(), Names::Both, role);
    let change = |(name, text): &(String, String)| Entry {
        key: name.clone(),
        found: Found::Word(text.clone()),
        place: Place::Running,
    };
    gathered.add_layer(changes.iter().map(change).collect(), Names::Both, role);
    finish(gathered, role, file)
}

fn finish(mut gathered: Gathered, role: Role, file: Option<&File>) -> Result<Loaded, Errors> {
    let mut effective = Vec::new();
    let mut values = Values::default();
    for setting in table::rows() {
        let (value, place) = gathered.get(setting)?;
        values.0.insert(setting.name, value.clone());
        effective.push(Effective { name: setting.name, value, place });
    }
    let settings = Settings::take(&values).map_err(|setting| Error::Table { setting })?;
    checks::check(&settings, role, file, &mut gathered);
    if gathered.errors.is_empty() {
        Ok(Loaded { settings, notices: gathered.notices, effective })
    } else {
        Err(Errors(gathered.errors))
    }
}
