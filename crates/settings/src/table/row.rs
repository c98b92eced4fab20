//! What a row of the table says, in the short forms that rows are written in.

use std::time::Duration;

use crate::conversion::Conversion;
use crate::kind::Kind;

/// One setting: a row of the table.
#[derive(Debug)]
pub struct Setting {
    /// Dotted name: section, then noun.
    pub name: &'static str,
    /// What its value must look like.
    pub kind: Kind,
    /// Its default, as a file would write it; empty for an optional setting.
    pub default: &'static str,
    /// What it is, in one line.
    pub meaning: &'static str,
    /// Why the default is what it is, in one line.
    pub reason: &'static str,
    /// The RocketMQ keys that mean it.
    pub aliases: &'static [Alias],
}

/// The settings that count at once when they are changed while the process runs. Others count from the next start on.
const CHANGES_AT_ONCE: [&str; 12] = [
    "broker.permission",
    "retention.age",
    "retention.delete_hours",
    "retention.size",
    "retention.disk_used_percent",
    "retention.force_enabled",
    "retention.disk_force_percent",
    "retention.disk_refuse_percent",
    "topic.auto_create",
    "group.auto_create",
    "message.size_max",
    "log.level",
];

impl Setting {
    /// Whether a change counts while the process runs.
    pub fn changes_at_once(&self) -> bool {
        CHANGES_AT_ONCE.contains(&self.name)
    }
}

/// A RocketMQ key that means a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The key as RocketMQ spells it.
    pub key: &'static str,
    /// How its value becomes ours.
    pub conversion: Conversion,
    /// In whose files it means this setting.
    pub scope: Scope,
}

/// In whose files a RocketMQ key means a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In every file.
    Any,
    /// Only in a name server's file.
    NameServer,
    /// Only in a broker's file.
    Broker,
}

/// A named group of settings, with one line about it.
#[derive(Debug)]
pub struct Section {
    /// The part of the names before the dot.
    pub name: &'static str,
    /// What it is about.
    pub meaning: &'static str,
    /// Its settings.
    pub rows: &'static [Setting],
}

pub(super) const fn same(key: &'static str) -> Alias {
    Alias { key, conversion: Conversion::Same, scope: Scope::Any }
}

pub(super) const fn milliseconds(key: &'static str) -> Alias {
    Alias { key, conversion: Conversion::Unit("ms"), scope: Scope::Any }
}

pub(super) const fn seconds(key: &'static str) -> Alias {
    Alias { key, conversion: Conversion::Unit("s"), scope: Scope::Any }
}

pub(super) const fn converted(key: &'static str, conversion: Conversion) -> Alias {
    Alias { key, conversion, scope: Scope::Any }
}

pub(super) const fn within(scope: Scope, key: &'static str) -> Alias {
    Alias { key, conversion: Conversion::Same, scope }
}

/// A port; 0 lets the system choose a free one.
pub(super) const PORT: Kind = Kind::Integer { min: 0, max: 65_535 };

pub(super) const fn times_ms(min: u64, max: u64) -> Kind {
    Kind::Duration { min: Duration::from_millis(min), max: Duration::from_millis(max) }
}

/// Makes the struct of a section and its rows from one statement of them.
macro_rules! section {
    ($section:ident, $prefix:literal, $about:literal {
        $($field:ident : $type:ty = $default:literal, $kind:expr,
            $meaning:literal, $reason:literal $(, $alias:expr)* ;)*
    }) => {
        #[doc = $about]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $section {
            $(#[doc = $meaning] pub $field: $type,)*
        }

        impl $section {
            /// The rows that the fields come from.
            pub(crate) const SECTION: $crate::table::row::Section =
                $crate::table::row::Section {
                    name: $prefix,
                    meaning: $about,
                    rows: &[$($crate::table::row::Setting {
                        name: concat!($prefix, ".", stringify!($field)),
                        kind: $kind,
                        default: $default,
                        meaning: $meaning,
                        reason: $reason,
                        aliases: &[$($alias),*],
                    }),*],
                };

            pub(crate) fn take(
                values: &$crate::values::Values,
            ) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: values.take(concat!($prefix, ".", stringify!($field)))?,)*
                })
            }
        }
    };
}
pub(super) use section;
