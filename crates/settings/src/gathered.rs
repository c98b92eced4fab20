//! What the sources say together, and what is wrong with it or worth a notice.

use std::collections::HashMap;

use super::entry::{Entry, Found, Place};
use super::error::{Claim, Error};
use super::file::Role;
use super::kind::Value;
use super::notice::{Level, Notice};
use super::resolve::{Names, Resolved, read, resolve};
use super::table::Setting;

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

impl Gathered {
    pub(super) fn set_entry(&mut self, pair: &str) -> Option<Entry> {
        let Some((key, value)) = pair.split_once('=') else {
            let why = format!("`{pair}` is not of the form key=value");
            self.errors.push(Error::Syntax { place: Place::Set, why });
            return None;
        };
        let found = Found::Word(value.to_owned());
        Some(Entry { key: key.trim().to_owned(), found, place: Place::Set })
    }

    pub(super) fn add_layer(&mut self, entries: Vec<Entry>, names: Names, role: Role) {
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
}

fn contradiction(earlier: &Assigned, later: &Assigned) -> Error {
    let claim = |one: &Assigned| Claim {
        place: one.entry.place.clone(),
        key: one.entry.key.clone(),
        found: one.entry.found.to_string(),
    };
    Error::Contradiction { setting: later.setting.name, claims: Box::new([claim(later), claim(earlier)]) }
}
