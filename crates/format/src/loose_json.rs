//! Reads the JSON dialects of RocketMQ's Java side (fastjson): object keys may be bare numbers or words, or objects.
//!
//! `{0:"10.0.0.1:10911"}` and `{{"queueId":0,"topic":"t"}:5}` are both read; a key that is an object becomes its own
//! compact JSON text. Everything else is JSON as usual. Nesting and the number of values are bounded, so no input can exhaust the stack or
//! the memory.

use serde_json::{Map, Number, Value};

/// Objects and arrays within each other.
const DEPTH_MAX: usize = 64;

/// Values in a text: more than the largest documents have, and some hundred MiB when read.
const VALUES_MAX: usize = 4 * 1024 * 1024;

/// What is wrong with the text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON at byte {position}: expected {expected}")]
pub struct JsonError {
    /// Byte position in the text.
    pub position: usize,
    /// What was expected there.
    pub expected: &'static str,
}

/// Parses all of `text`.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let mut parser = Parser { text, position: 0, values_left: VALUES_MAX };
    let value = parser.value(DEPTH_MAX)?;
    parser.skip_blanks();
    if parser.position < text.len() {
        return Err(parser.error("the end of the text"));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a [u8],
    position: usize,
    values_left: usize,
}

impl Parser<'_> {
    fn error(&self, expected: &'static str) -> JsonError {
        JsonError { position: self.position, expected }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    fn take(&mut self, byte: u8, expected: &'static str) -> Result<(), JsonError> {
        self.skip_blanks();
        if self.peek() != Some(byte) {
            return Err(self.error(expected));
        }
        self.position += 1;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(self.error("fewer values"))?;
        self.skip_blanks();
        match self.peek() {
            Some(b'{') => self.object(depth).map(Value::Object),
            Some(b'[') => self.array(depth).map(Value::Array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(byte) if byte.is_ascii_alphabetic() => match self.word() {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                "null" => Ok(Value::Null),
                _ => Err(self.error("a value")),
            },
            _ => Err(self.error("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Map<String, Value>, JsonError> {
        let depth = depth.checked_sub(1).ok_or(self.error("less nesting"))?;
        self.take(b'{', "{")?;
        let mut members = Map::new();
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.position += 1;
            return Ok(members);
        }
        loop {
            let key = self.key(depth)?;
            self.take(b':', ":")?;
            let value = self.value(depth)?;
            members.insert(key, value);
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b'}') => {
                    self.position += 1;
                    return Ok(members);
                }
                _ => return Err(self.error(", or }")),
            }
        }
    }

    fn key(&mut self, depth: usize) -> Result<String, JsonError> {
        self.skip_blanks();
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => Ok(Value::Object(self.object(depth)?).to_string()),
            Some(b'-' | b'_' | b'$' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => Ok(self.word().to_owned()),
            _ => Err(self.error("a key")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, JsonError> {
        let depth = depth.checked_sub(1).ok_or(self.error("less nesting"))?;
        self.take(b'[', "[")?;
        let mut items = Vec::new();
        self.skip_blanks();
        if self.peek() == Some(b']') {
            self.position += 1;
            return Ok(items);
        }
        loop {
            items.push(self.value(depth)?);
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b']') => {
                    self.position += 1;
                    return Ok(items);
                }
                _ => return Err(self.error(", or ]")),
            }
        }
    }

    /// A JSON string; its escapes are decoded by `serde_json`.
    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.position;
        self.position += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.position += 2,
                Some(_) => self.position += 1,
                None => return Err(self.error("the end of a string")),
            }
        }
        self.position += 1;
        let quoted = self.text.get(start..self.position).unwrap_or_default();
        serde_json::from_slice(quoted).map_err(|_| JsonError { position: start, expected: "a string" })
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.position;
        let text = self.word();
        let number: Option<Number> = serde_json::from_str(text).ok();
        number.map(Value::Number).ok_or(JsonError { position: start, expected: "a number" })
    }

    /// Letters, digits and the signs numbers are made of.
    fn word(&mut self) -> &str {
        let start = self.position;
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_' | b'$'))
        {
            self.position += 1;
        }
        let bytes = self.text.get(start..self.position).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn javas_odd_keys_are_read() {
        assert_eq!(
            parse(br#"{"offsetTable":{"t@g":{0:12,1:-3}},flag:true}"#),
            Ok(json!({"offsetTable": {"t@g": {"0": 12, "1": -3}}, "flag": true}))
        );
        assert_eq!(
            parse(br#"{"table":{{"queueId":0,"topic":"t"}:{"x":1.5}}}"#),
            Ok(json!({"table": {"{\"queueId\":0,\"topic\":\"t\"}": {"x": 1.5}}}))
        );
    }

    #[test]
    fn ordinary_json_is_read_as_usual() {
        let text = r#" {"a" : [ 1 , "x\né\"", null, false, {} , [] ], "b": 1e3} "#;
        assert_eq!(parse(text.as_bytes()).ok(), serde_json::from_str(text).ok());
    }

    #[test]
    fn what_is_not_json_is_an_error_with_its_place() {
        for text in ["", "{", "{\"a\"}", "[1,]", "{\"a\":1}x", "\"abc", "{\"a\":tru}", "\"\\", "-", "\"\\x\""] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert!(parse("{".repeat(100_000).as_bytes()).is_err());
    }
}
