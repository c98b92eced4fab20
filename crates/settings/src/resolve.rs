//! From one entry of a source to the setting it means, or to why it means none.

use super::conversion::Conversion;
use super::entry::{Entry, Found};
use super::error::Error;
use super::kind::{Kind, Problem, Value};
use super::nearest::nearest;
use super::notice::{Level, Notice};
use super::rocketmq::{self, Asks, Disposition};
use super::table::{self, Scope, Setting};

/// What an entry comes to.
pub(super) enum Resolved {
    Assigned(&'static Setting, Value),
    Noticed(Notice),
}

/// Whose names an entry may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Sluice's alone: a TOML file.
    Sluice,
    /// Sluice's and RocketMQ's.
    Both,
}

pub(super) fn resolve(entry: &Entry, names: Names, scope: Scope) -> Result<Resolved, Error> {
    if let Some(setting) = table::find(&entry.key) {
        return assign(entry, setting, Conversion::Same);
    }
    let unknown =
        || Error::Unknown { place: entry.place.clone(), key: entry.key.clone(), nearest: nearest(&entry.key) };
    let disposition = rocketmq::disposition(&entry.key, scope).ok_or_else(unknown)?;
    if names == Names::Sluice {
        return Err(foreign(entry, &disposition));
    }
    match disposition {
        Disposition::Applied(setting) => assign(entry, setting, Conversion::Same),
        Disposition::Mapped(setting, conversion) => assign(entry, setting, conversion),
        Disposition::Unneeded(reason) => Ok(notice(entry, Level::Info, format!("is not needed: {reason}"))),
        Disposition::Later { feature, asks } => later(entry, feature, asks),
    }
}

/// The value of a row's text; an empty text unsets an optional setting.
pub(super) fn read(setting: &Setting, text: &str) -> Result<Value, Problem> {
    let optional = setting.default.is_empty() && !matches!(setting.kind, Kind::Addresses | Kind::Paths);
    if optional && text.trim().is_empty() {
        return Ok(Value::Absent);
    }
    setting.kind.read(text)
}

fn assign(entry: &Entry, setting: &'static Setting, conversion: Conversion) -> Result<Resolved, Error> {
    let invalid = |expected: String| Error::Invalid {
        place: entry.place.clone(),
        key: entry.key.clone(),
        found: entry.found.to_string(),
        expected,
    };
    let text = typed_text(&entry.found, &setting.kind).ok_or_else(|| invalid(setting.kind.to_string()))?;
    let text = conversion.apply(&text).map_err(invalid)?;
    match read(setting, &text) {
        Ok(value) => Ok(Resolved::Assigned(setting, value)),
        Err(Problem::Expected(expected)) => Err(invalid(expected)),
        Err(Problem::Later(feature)) => Err(not_yet(entry, feature)),
    }
}

/// The text to read, if the type that TOML gave it suits the kind.
fn typed_text(found: &Found, kind: &Kind) -> Option<String> {
    let numeric = matches!(kind, Kind::Integer { .. });
    let switch = matches!(kind, Kind::Boolean);
    let list_separator = match kind {
        Kind::Addresses | Kind::Hours | Kind::Paths => Some(";"),
        Kind::Delays => Some(" "),
        _ => None,
    };
    match found {
        Found::Word(text) => Some(text.clone()),
        Found::Text(text) => (!numeric && !switch).then(|| text.clone()),
        Found::Integer(digits) => {
            let suits = matches!(kind, Kind::Integer { .. } | Kind::Bytes { .. } | Kind::Hours);
            suits.then(|| digits.clone())
        }
        Found::Boolean(on) => switch.then(|| on.to_string()),
        // What cannot be said in the one text would be two paths of an array's one.
        Found::List(items) if *kind == Kind::Paths && items.iter().any(|item| item.contains(';')) => None,
        Found::List(items) => list_separator.map(|separator| items.join(separator)),
        Found::Other(_) => None,
    }
}

fn foreign(entry: &Entry, disposition: &Disposition) -> Error {
    let setting = match disposition {
        Disposition::Applied(setting) | Disposition::Mapped(setting, _) => Some(setting.name),
        Disposition::Unneeded(_) | Disposition::Later { .. } => None,
    };
    Error::Foreign { place: entry.place.clone(), key: entry.key.clone(), setting }
}

fn later(entry: &Entry, feature: &'static str, asks: Asks) -> Result<Resolved, Error> {
    let Found::Word(value) = &entry.found else { return Err(not_yet(entry, feature)) };
    match asks {
        Asks::Refuse(when) if when.holds(value) => Err(not_yet(entry, feature)),
        Asks::Warn(when) if when.holds(value) => {
            let text = format!("is {}, but {feature}: not supported yet", entry.found);
            Ok(notice(entry, Level::Warning, text))
        }
        Asks::Never => {
            let text = format!("has no effect; it belongs to {feature}, not supported yet");
            Ok(notice(entry, Level::Info, text))
        }
        Asks::Refuse(_) | Asks::Warn(_) => {
            let text = format!("changes nothing; it leaves out {feature}, not supported yet");
            Ok(notice(entry, Level::Info, text))
        }
    }
}

fn not_yet(entry: &Entry, feature: &'static str) -> Error {
    Error::NotYet { place: entry.place.clone(), key: entry.key.clone(), found: entry.found.to_string(), feature }
}

fn notice(entry: &Entry, level: Level, text: String) -> Resolved {
    let key = entry.key.clone();
    Resolved::Noticed(Notice { level, key, place: entry.place.clone(), text })
}
