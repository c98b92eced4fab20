//! JSON as Java writes it, against the reader of strict JSON.

use format::loose_json::parse;
use serde_json::Value;

/// Nesting up to which both readers must agree; beyond, the loose one refuses.
const DEPTH_COMPARED: usize = 64;

/// Strict JSON is read alike by both; whatever is read comes back the same after it was written.
pub fn run(data: &[u8]) {
    let loose = parse(data);
    if let Ok(strict) = serde_json::from_slice::<Value>(data) {
        match &loose {
            Ok(value) => assert_eq!(value, &strict),
            Err(error) => assert!(depth_of(&strict) > DEPTH_COMPARED, "strict JSON is refused: {error}"),
        }
    }
    match loose {
        Ok(value) => {
            let text = value.to_string();
            assert_eq!(serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()), parse_text(&text));
            if !has_fraction(&value) {
                assert_eq!(parse_text(&text), Ok(value));
            }
        }
        Err(error) => assert!(error.position <= data.len() + 1),
    }
}

fn parse_text(text: &str) -> Result<Value, String> {
    parse(text.as_bytes()).map_err(|error| error.to_string())
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Whether there is a number whose text need not come back the same.
pub fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(members) => members.values().any(has_fraction),
        _ => false,
    }
}

/// Both dialects, edges of numbers, escapes and nesting, and captured bodies.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"offsetTable":{"t@g":{0:12,1:-3}},flag:true}"#,
        r#"{"table":{{"queueId":0,"topic":"t"}:{"x":1.5}}}"#,
        r#" {"a" : [ 1 , "x\né\"\\\u0041\ud83d\ude00", null, false, {} , [] ], "b": 1e3, "b": -0} "#,
        "[18446744073709551615,-9223372036854775808,18446744073709551616,1e308,0.1,1E-5,-0.0]",
        "[1,]",
        "\"\\",
        "{_a:1,$b:2,-3:4}",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    seeds.extend([63, 64, 65].map(|depth| ["[".repeat(depth), "]".repeat(depth)].concat().into_bytes()));
    seeds.extend(crate::golden::bodies().into_iter().filter(|body| parse(body).is_ok()));
    seeds
}
