//! Field tables as JSON, for people and their tools.
//!
//! JSON has fewer types: a whole number becomes an `l`, another a `d`, null a `V`. Texts that are no UTF-8 are shown with U+FFFD.

use bytes::BytesMut;
use serde_json::{Map, Number, Value as Json};
use wire::amqp::argument::ShortString;
use wire::amqp::table::{Array, Table, TableWriter, Value, write_table};

/// A table, as it is shown.
pub(super) fn shown(table: &Table<'_>) -> Map<String, Json> {
    table.iter().map(|(name, value)| (text(name.bytes()), shown_value(&value))).collect()
}

fn shown_value(value: &Value<'_>) -> Json {
    match value {
        Value::Bool(is_so) => Json::Bool(*is_so),
        Value::F32(number) => float((*number).into()),
        Value::F64(number) => float(*number),
        Value::Decimal(digits, number) => float(f64::from(*number) / 10_f64.powi((*digits).into())),
        Value::LongString(bytes) | Value::Bytes(bytes) => Json::String(text(bytes)),
        Value::Timestamp(seconds) => Json::Number((*seconds).into()),
        Value::Table(table) => Json::Object(shown(table)),
        Value::Array(array) => shown_array(array),
        Value::Void => Json::Null,
        whole => whole.integer().map_or(Json::Null, |number| Json::Number(number.into())),
    }
}

fn shown_array(array: &Array<'_>) -> Json {
    Json::Array(array.iter().map(|value| shown_value(&value)).collect())
}

fn float(number: f64) -> Json {
    Number::from_f64(number).map_or(Json::Null, Json::Number)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The table that JSON means, without the length in front; or what of it cannot be in one.
pub(super) fn meant(json: &Map<String, Json>) -> Result<BytesMut, String> {
    let mut problem = None;
    let mut out = BytesMut::new();
    write_table(&mut out, |table| problem = write(table, json).err());
    if let Some(problem) = problem {
        return Err(problem);
    }
    let table = out.split_off(size_of::<u32>().min(out.len()));
    // Whoever reads it later must be able to.
    Table::read(&table).map_err(|error| error.to_string())?;
    Ok(table)
}

fn write(table: &mut TableWriter<'_>, json: &Map<String, Json>) -> Result<(), String> {
    for (name, value) in json {
        if ShortString::new(name.as_bytes()).is_none() {
            return Err(format!("the name [{name}] has more than 255 bytes"));
        }
        match value {
            Json::Null => _ = table.put(name, Value::Void),
            Json::Bool(is_so) => _ = table.put(name, Value::Bool(*is_so)),
            Json::Number(number) => _ = table.put(name, number_of(number)?),
            Json::String(text) => _ = table.put(name, Value::LongString(text.as_bytes())),
            Json::Object(inside) => {
                let mut written = Ok(());
                table.table(name, |table| written = write(table, inside));
                written?;
            }
            Json::Array(_) => return Err(format!("[{name}] is a list: no argument is one")),
        }
    }
    Ok(())
}

fn number_of(number: &Number) -> Result<Value<'static>, String> {
    if let Some(whole) = number.as_i64() {
        return Ok(Value::I64(whole));
    }
    let is_whole = number.is_u64();
    number.as_f64().filter(|_| !is_whole).map(Value::F64).ok_or_else(|| format!("{number} is too large"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(json: Json) -> Map<String, Json> {
        match json {
            Json::Object(object) => object,
            _ => panic!("no object"),
        }
    }

    #[test]
    fn what_json_means_is_shown_as_it_was() {
        let json = object(json!({
            "x-max-length": 5, "x-overflow": "reject-publish", "x-single-active-consumer": true, "weight": 1.5,
            "none": null, "inside": {"deeper": -1},
        }));
        let table = meant(&json).expect("a table");
        assert_eq!(shown(&Table::read(&table).expect("a table")), json);
        assert_eq!(Table::read(&table).expect("a table").get("x-max-length"), Some(Value::I64(5)));
    }

    #[test]
    fn what_no_table_can_have_is_refused() {
        let long = "n".repeat(256);
        for json in [json!({"list": [1]}), json!({"n": u64::MAX}), json!({long: 1}), json!({"in": {"list": []}})] {
            assert!(meant(&object(json.clone())).is_err(), "{json}");
        }
        let deep = (0..40).fold(json!({}), |inside, _| json!({"in": inside}));
        assert!(meant(&object(deep)).is_err(), "deeper than tables may be");
    }

    #[test]
    fn every_type_has_a_form() {
        let mut out = BytesMut::new();
        write_table(&mut out, |table| {
            table.put("i", Value::I8(-1)).put("d", Value::Decimal(2, 150)).put("T", Value::Timestamp(7));
            table.put("nan", Value::F64(f64::NAN)).put("S", Value::LongString(b"a\xff"));
        });
        let shown = shown(&Table::read(&out[4..]).expect("a table"));
        assert_eq!(Json::Object(shown), json!({"i": -1, "d": 1.5, "T": 7, "nan": null, "S": "a\u{fffd}"}));
    }
}
