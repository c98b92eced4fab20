//! TOML documents: nested tables become dotted names, every entry keeps its line.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::entry::{Entry, Found, Place};
use super::error::Error;

/// Reads all entries of a document.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Entry>, Error> {
    let place = |offset: usize| Place::File { path: path.to_owned(), line: line_of(text, offset) };
    let table = DeTable::parse(text).map_err(|error| Error::Syntax {
        place: place(error.span().map_or(0, |span| span.start)),
        why: error.message().to_owned(),
    })?;
    let mut entries = Vec::new();
    collect("", table.get_ref(), &place, &mut entries);
    entries.sort_by_key(|entry| entry.place.line());
    Ok(entries)
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

fn collect(prefix: &str, table: &DeTable<'_>, place: &dyn Fn(usize) -> Place, entries: &mut Vec<Entry>) {
    for (name, value) in table {
        let key = match prefix {
            "" => name.get_ref().to_string(),
            prefix => format!("{prefix}.{}", name.get_ref()),
        };
        match value.get_ref() {
            DeValue::Table(inner) => collect(&key, inner, place, entries),
            other => {
                let place = place(name.span().start);
                entries.push(Entry { key, found: found(other), place });
            }
        }
    }
}

fn found(value: &DeValue<'_>) -> Found {
    match value {
        DeValue::String(text) => Found::Text(text.to_string()),
        DeValue::Integer(_) => Found::Integer(scalar(value).unwrap_or_default()),
        DeValue::Boolean(on) => Found::Boolean(*on),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| scalar(item.get_ref()));
            match items.collect::<Option<Vec<_>>>() {
                Some(items) => Found::List(items),
                None => Found::Other("an array of other things"),
            }
        }
        DeValue::Float(_) => Found::Other("a number with a fraction"),
        DeValue::Datetime(_) => Found::Other("a date or time"),
        DeValue::Table(_) => Found::Other("a table"),
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix()).ok();
            Some(value.map_or_else(|| number.as_str().to_owned(), |value| value.to_string()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_dotted_names_say_the_same() {
        let tables = "[storage]\nflush = \"sync\"\nsegment_size = 0x10_000\n";
        let dotted = "storage.flush = \"sync\"\n\"storage\".segment_size = 65536\n";
        let read = |text| {
            let entries = parse(Path::new("sluice.toml"), text).unwrap();
            entries.into_iter().map(|entry| (entry.key, entry.found)).collect::<Vec<_>>()
        };
        assert_eq!(read(tables), read(dotted));
        assert_eq!(read(tables).len(), 2);
    }

    #[test]
    fn a_syntax_error_has_its_line() {
        let error = parse(Path::new("sluice.toml"), "[log]\nlevel = info\n").unwrap_err();
        assert!(error.to_string().starts_with("sluice.toml:2: "), "{error}");
    }
}
