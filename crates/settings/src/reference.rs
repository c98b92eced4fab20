//! What is written about the settings, made from the table: sample file, reference, help for a name.

use super::kind::Value;
use super::nearest::nearest;
use super::rocketmq::{self, Asks, Disposition};
use super::table::{self, Alias, SECTIONS, Scope, Setting};

/// A TOML file with every setting at its default, commented out, each with its meaning and reason.
pub fn sample_toml() -> String {
    let mut text = String::from(
        "# Settings of Sluice. Every line that begins with `#name` shows a default; remove the # to\n\
         # change it. Sizes are bytes or have KiB, MiB, GiB; times have ms, s, m, h, d.\n",
    );
    for section in &SECTIONS {
        text += &format!("\n# {}.\n[{}]\n", section.meaning, section.name);
        for row in section.rows {
            let range = row.kind.range();
            let range = if range.is_empty() { range } else { format!(" ({range})") };
            text += &format!("\n# {}{range}.\n# Why: {}.\n", row.meaning, row.reason);
            if !row.aliases.is_empty() {
                text += &format!("# RocketMQ: {}.\n", aliases_text(row, ""));
            }
            text += &format!("#{} = {}\n", noun(row), toml_default(row));
        }
    }
    text
}

/// Everything about one setting or one RocketMQ key; nothing for an unknown name.
pub fn help_for(name: &str) -> Option<String> {
    if let Some(row) = table::find(name) {
        let mut text = format!("{}: {}.\n  expected: {}\n", row.name, row.meaning, row.kind);
        text += &format!("  default: {} ({})\n", default_text(row), row.reason);
        text += if row.changes_at_once() { "  change: at once\n" } else { "  change: needs a restart\n" };
        if !row.aliases.is_empty() {
            text += &format!("  RocketMQ: {}\n", aliases_text(row, ""));
        }
        return Some(text);
    }
    let found = [Scope::Broker, Scope::NameServer].into_iter().find_map(|scope| rocketmq::disposition(name, scope))?;
    Some(match found {
        Disposition::Applied(setting) => format!("{name}: the same as {}\n", setting.name),
        Disposition::Mapped(setting, conversion) => {
            format!("{name}: the same as {} ({})\n", setting.name, conversion.note())
        }
        Disposition::Unneeded(reason) => format!("{name}: not needed: {reason}\n"),
        Disposition::Later { feature, .. } => {
            format!("{name}: belongs to {feature}, not supported yet\n")
        }
    })
}

/// The settings and RocketMQ keys whose name has `part` in it, one a line with its meaning, or else looks like it; nothing if none
/// does.
pub fn matches(part: &str) -> Option<String> {
    let mut names: Vec<_> = table::rows().map(|row| row.name).chain(rocketmq::keys()).collect();
    names.retain(|name| name.to_lowercase().contains(&part.to_lowercase()));
    if names.is_empty() {
        names = nearest(part);
    }
    // Sluice's own, which have a section, come first.
    names.sort_unstable_by_key(|name| (!name.contains('.'), *name));
    names.dedup();
    let width = names.iter().map(|name| name.len()).max()?;
    let line = |name: &&str| {
        let meaning = help_for(name).unwrap_or_default();
        let meaning = meaning.lines().next().unwrap_or_default();
        let meaning = meaning.strip_prefix(*name).unwrap_or(meaning).trim_start_matches(": ");
        format!("  {name:width$}  {meaning}\n")
    };
    Some(names.iter().map(line).collect())
}

/// The reference of all settings and of all RocketMQ keys, as Markdown.
pub fn reference_markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    for section in &SECTIONS {
        text += &format!("\n## {}\n\n{}.\n\n", section.name, section.meaning);
        text += "| setting | type | default | meaning | why | RocketMQ |\n|---|---|---|---|---|---|\n";
        for row in section.rows {
            text += &markdown_row(row);
        }
    }
    text += ROCKETMQ_FILES;
    text += "\n### Keys that are not needed\n\n| reason | keys |\n|---|---|\n";
    for (reason, keys) in rocketmq::reasons() {
        text += &format!("| {reason} | {} |\n", code_list(keys));
    }
    text += "\n### Keys of features that are not there yet\n\n";
    text += "**Bold**: a value that asks for the feature is refused. *Italic*: it is a warning.\n\n";
    text += "| feature | keys |\n|---|---|\n";
    for (feature, keys) in rocketmq::features() {
        let marked: Vec<String> = keys.iter().map(|key| marked_key(key)).collect();
        text += &format!("| {feature} | {} |\n", marked.join(", "));
    }
    text
}

const INTRODUCTION: &str = "\
# Settings

Made from the table of settings; a test fails when this page and the table differ (`UPDATE=1` writes
it anew). `sluice config --default` prints the same as a TOML file. \"Why\" is the reason for the default.

Sources, each overruling those before: defaults, the file, `--set key=value`, flags. The environment
is not read. A file is TOML, with Sluice's names in tables or dotted, or one of RocketMQ's property
files as it is. `--set` takes the names of both.

Sizes are bytes, or have `KiB`, `MiB`, `GiB`. Times have `ms`, `s`, `m`, `h`, `d`. A port of 0 lets
the system choose. An unknown name is an error that names the nearest known ones.

A setting marked \u{21bb} can be changed while the process runs: in the file, with a HUP signal (`systemctl reload`) after it, or by
`sluice admin broker set NAME=VALUE` and `mqadmin updateBrokerConfig` until the next start. Others need a restart.
";

const ROCKETMQ_FILES: &str = "
## RocketMQ's files

Every key of the configuration classes of RocketMQ 4.9.7 and 5.4.0 is known. A key named in the
tables above is the setting beside it. Of the others, each one in a file is reported once. Two keys
of one file that mean the same setting must agree; of one key given twice the last counts.
`listenPort` is `nameserver.port` in a name server's file and `rocketmq.port` in a broker's;
`serverChannelMaxIdleTimeSeconds` is `nameserver.idle_timeout` or `rocketmq.idle_timeout`.

What a file does not say keeps Sluice's default, not RocketMQ's: most of all, Sluice listens on
127.0.0.1 and stores in `./sluice-data`. Both are reported when a RocketMQ file leaves them out.
";

fn noun(row: &Setting) -> &'static str {
    row.name.split_once('.').map_or(row.name, |(_, noun)| noun)
}

fn default_text(row: &Setting) -> &'static str {
    if row.default.is_empty() { "not set" } else { row.default }
}

/// RocketMQ's keys of a row, each within the given quote, with what happens to its value.
fn aliases_text(row: &Setting, quote: &str) -> String {
    let one = |alias: &Alias| {
        let mut notes = vec![alias.conversion.note()];
        match alias.scope {
            Scope::Any => {}
            Scope::NameServer => notes.push("in a name server's file".to_owned()),
            Scope::Broker => notes.push("in a broker's file".to_owned()),
        }
        notes.retain(|note| !note.is_empty());
        let notes = notes.join(", ");
        let notes = if notes.is_empty() { notes } else { format!(" ({notes})") };
        format!("{quote}{}{quote}{notes}", alias.key)
    };
    row.aliases.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn toml_default(row: &Setting) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    match row.kind.read(row.default) {
        Ok(Value::Boolean(on)) => on.to_string(),
        Ok(Value::Integer(number)) => number.to_string(),
        Ok(Value::Paths(_)) => "[]".to_owned(),
        Ok(Value::List(items)) => {
            let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
        _ => quoted(row.default),
    }
}

fn markdown_row(row: &Setting) -> String {
    let range = row.kind.range();
    let kind = match row.kind.noun() {
        "choice" => range,
        noun if range.is_empty() => noun.to_owned(),
        noun => format!("{noun}, {range}"),
    };
    let default = match row.default {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let aliases = aliases_text(row, "`");
    let mark = if row.changes_at_once() { " \u{21bb}" } else { "" };
    format!("| `{}`{mark} | {kind} | {default} | {} | {} | {aliases} |\n", row.name, row.meaning, row.reason)
}

fn code_list(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

fn marked_key(key: &str) -> String {
    match rocketmq::disposition(key, Scope::Broker) {
        Some(Disposition::Later { asks: Asks::Refuse(_), .. }) => format!("**`{key}`**"),
        Some(Disposition::Later { asks: Asks::Warn(_), .. }) => format!("*`{key}`*"),
        _ => format!("`{key}`"),
    }
}
