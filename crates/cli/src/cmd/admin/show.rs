//! Lists for people: a table where it fits, otherwise one thing below the other.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use jiff::Timestamp;
use serde_json::Value;

use crate::say::clean;

/// These columns of all items. Nothing at all if there are none.
pub(super) fn list(items: &[Value], columns: &[&str]) -> String {
    arranged(items, columns, width())
}

/// So many messages, as a sentence says it.
pub(super) fn messages(count: &Value) -> String {
    if *count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

/// How wide a line may be; `None`: as it likes, since nobody looks at it as it is.
fn width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    told.or_else(|| Table::new().width().map(usize::from))
}

fn arranged(items: &[Value], columns: &[&str], width: Option<usize>) -> String {
    if items.is_empty() {
        return String::new();
    }
    let table = table(items, columns);
    let is_wide = |width| table.lines().any(|line| line.chars().count() > width);
    if width.is_some_and(is_wide) { stacked(items, columns) } else { table }
}

fn table(items: &[Value], columns: &[&str]) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(columns.iter().map(|column| heading(column)));
    for item in items {
        table.add_row(columns.iter().map(|column| cell(item, column)));
    }
    for (at, column) in columns.iter().enumerate() {
        let has_numbers = items.iter().all(|item| item[*column].is_number()) && heading(column) == *column;
        let Some(column) = table.column_mut(at) else { continue };
        column.set_padding((0, 2));
        if has_numbers {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// The first column as a heading, the others below.
fn stacked(items: &[Value], columns: &[&str]) -> String {
    let mut lines = Vec::new();
    for item in items {
        for (at, column) in columns.iter().enumerate() {
            let value = cell(item, column);
            lines.push(if at == 0 { value } else { format!("  {} {value}", heading(column)).trim_end().to_owned() });
        }
    }
    lines.join("\n")
}

/// These columns of one thing, below each other.
pub(super) fn below_each_other(item: &Value, columns: &[&str]) -> String {
    let lines = columns.iter().map(|column| format!("  {} {}", heading(column), cell(item, column)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The items of a list in what was told.
pub(super) fn rows<'a>(told: &'a Value, name: &str) -> &'a [Value] {
    told[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Words in a sentence.
pub(super) fn words(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// What a column is called: a moment is shown as a date.
fn heading(column: &str) -> &str {
    column.strip_suffix("_ms").unwrap_or(column)
}

fn cell(item: &Value, column: &str) -> String {
    let value = &item[column];
    let is_moment = heading(column) != column;
    let moment = value.as_i64().filter(|_| is_moment).and_then(|ms| Timestamp::from_second(ms / 1000).ok());
    moment.map_or_else(|| shown(value), |moment| moment.to_string())
}

/// A value in one line, which cannot move the cursor of a terminal.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::Bool(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::Object(pairs) => {
            pairs.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect::<Vec<_>>().join(",")
        }
    };
    clean(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn items() -> Vec<Value> {
        vec![
            json!({"name": "orders", "ready": 5, "arguments": {"x-max-length": 9}, "durable": true}),
            json!({"name": "a\u{1b}[2J", "ready": 12, "arguments": {}, "durable": false}),
        ]
    }

    const COLUMNS: [&str; 4] = ["name", "ready", "durable", "arguments"];

    #[test]
    fn a_table_has_numbers_to_the_right_and_nothing_that_moves_a_cursor() {
        let text = arranged(&items(), &COLUMNS, None);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "name        ready  durable  arguments");
        assert_eq!(lines[1], "orders          5  yes      x-max-length=9");
        assert!(lines[2].starts_with("a\\u{1b}[2J"), "{text}");
        assert_eq!(arranged(&[], &COLUMNS, None), "");
    }

    #[test]
    fn moments_are_dates() {
        let items = [json!({"queue": 1, "stored_ms": 1_700_000_000_999_i64}), json!({"queue": 2, "stored_ms": null})];
        let text = arranged(&items, &["queue", "stored_ms"], None);
        assert_eq!(text, "queue  stored\n    1  2023-11-14T22:13:20Z\n    2  -");
    }

    #[test]
    fn where_a_table_does_not_fit_things_stand_below_each_other() {
        let text = arranged(&items()[..1], &COLUMNS, Some(30));
        assert_eq!(text, "orders\n  ready 5\n  durable yes\n  arguments x-max-length=9");
    }
}
