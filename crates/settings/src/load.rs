//! Layers: defaults, then the file, then `--set`, then flags; each overrules those before.

use std::collections::HashMap;

use super::checks;
use super::entry::{Entry, Found, Place};
use super::error::{Claim, Error, Errors};
use super::file::{File, Format, Role};
use super::kind::Value;
use super::notice::{Level, Notice};
use super::resolve::{Names, Resolved, read, resolve};
use super::table::{self, Setting, Settings};
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

/// What one layer says about one setting.
struct Assigned {
    setting: &'static Setting,
    value: Value,
    entry: Entry,
}

/// Everything gathered while the layers are read.
#[derive(Default)]
pub(super) struct Gathered {
    assigned: HashMap<&'static str, (Value, Place)>,
    pub(super) notices: Vec<Notice>,
    pub(super) errors: Vec<Error>,
}

/// Loads settings for a process.
///
/// `set` are the texts of `--set key=value`, where the key may be RocketMQ's; `flags` are settings
/// that have flags of their own, by their dotted names.
pub fn load(role: Role, file: Option<&File>, set: &[String], flags: &[(&str, String)]) -> Result<Loaded, Errors> {
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
    gathered.finish(role, file)
}

impl Gathered {
    fn set_entry(&mut self, pair: &str) -> Option<Entry> {
        let Some((key, value)) = pair.split_once('=') else {
            let why = format!("`{pair}` is not of the form key=value");
            self.errors.push(Error::Syntax { place: Place::Set, why });
            return None;
        };
        let found = Found::Word(value.to_owned());
        Some(Entry { key: key.trim().to_owned(), found, place: Place::Set })
    }

    fn add_layer(&mut self, entries: Vec<Entry>, names: Names, role: Role) {
        let mut layer: HashMap<&'static str, Assigned> = HashMap::new();
        for entry in self.last_of_each_key(entries) {
            match resolve(&entry, names, role.scope()) {
                Err(error) => self.errors.push(error),
                Ok(Resolved::Noticed(notice)) => self.notices.push(notice),
                Ok(Resolved::Assigned(setting, value)) => {
                    let assigned = Assigned { setting, value, entry };
                    match layer.get(setting.name) {
                        Some(other) if other.value != assigned.value => {
                            self.errors.push(contradiction(other, &assigned));
                        }
                        _ => drop(layer.insert(setting.name, assigned)),
                    }
                }
            }
        }
        let overruling = layer.into_iter();
        self.assigned.extend(overruling.map(|(name, one)| (name, (one.value, one.entry.place))));
    }

    /// As in RocketMQ, the last of several entries with one key counts; in a file that is said.
    fn last_of_each_key(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let mut last: Vec<Entry> = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(earlier) = last.iter_mut().find(|earlier| earlier.key == entry.key) else {
                last.push(entry);
                continue;
            };
            if let Some(line) = entry.place.line() {
                self.notices.push(Notice {
                    level: Level::Warning,
                    key: entry.key.clone(),
                    place: earlier.place.clone(),
                    text: format!("is overruled by line {line}"),
                });
            }
            *earlier = entry;
        }
        last
    }

    /// The value of a setting and where it came from.
    pub(super) fn get(&self, setting: &Setting) -> Result<(Value, Place), Error> {
        if let Some(assigned) = self.assigned.get(setting.name) {
            return Ok(assigned.clone());
        }
        let value = read(setting, setting.default);
        value.map(|value| (value, Place::Default)).map_err(|_| Error::Table { setting: setting.name })
    }

    /// Where the value of a setting came from, by its dotted name.
    pub(super) fn place(&self, name: &str) -> Place {
        self.assigned.get(name).map_or(Place::Default, |(_, place)| place.clone())
    }

    fn finish(mut self, role: Role, file: Option<&File>) -> Result<Loaded, Errors> {
        let mut effective = Vec::new();
        let mut values = Values::default();
        for setting in table::rows() {
            let (value, place) = self.get(setting)?;
            values.0.insert(setting.name, value.clone());
            effective.push(Effective { name: setting.name, value, place });
        }
        let settings = Settings::take(&values).map_err(|setting| Error::Table { setting })?;
        checks::check(&settings, role, file, &mut self);
        if self.errors.is_empty() {
            Ok(Loaded { settings, notices: self.notices, effective })
        } else {
            Err(Errors(self.errors))
        }
    }
}

fn contradiction(earlier: &Assigned, later: &Assigned) -> Error {
    let claim = |one: &Assigned| Claim {
        place: one.entry.place.clone(),
        key: one.entry.key.clone(),
        found: one.entry.found.to_string(),
    };
    Error::Contradiction { setting: later.setting.name, claims: Box::new([claim(later), claim(earlier)]) }
}
