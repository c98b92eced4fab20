//! One topic of a registration, in either form. An odd one costs itself, not the broker: what cannot stand in a route is
//! made into what can, or the topic is left out, and a note is made of it.

use base::cursor::preview;
use format::document::TopicDocument;
use serde::Deserialize;
use serde_json::Value;

/// What was odd in a registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OddTopics {
    /// How many topics.
    pub count: usize,
    /// How many of them were left out.
    pub left_out: usize,
    /// What was odd about the first.
    pub first: Option<String>,
}

impl OddTopics {
    /// Notes one; `problem` says what is odd and what is made of it.
    pub fn note(&mut self, topic: &str, problem: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| format!("topic [{}]: {problem}", preview(topic.as_bytes())));
    }

    /// Notes one that cannot have a route.
    pub fn leave_out(&mut self, topic: &str, problem: &str) {
        self.left_out += 1;
        self.note(topic, &format!("{problem}; left out"));
    }
}

/// A topic as the plain form has it, with anything in any place.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PlainTopic {
    attributes: Value,
    order: Value,
    perm: Value,
    read_queue_nums: Value,
    topic_filter_type: Value,
    topic_name: Value,
    topic_sys_flag: Value,
    write_queue_nums: Value,
}

impl PlainTopic {
    /// The topic under `key`.
    pub(super) fn usable(self, key: &str, odd: &mut OddTopics) -> TopicDocument {
        let usual = TopicDocument::default();
        let mut problem = None;
        let mut number = |name: &str, value: &Value, usual: u32| {
            number_of(value, usual).unwrap_or_else(|taken| {
                problem.get_or_insert(format!("{name} is {value}, taken as {taken}"));
                taken
            })
        };
        let perm = number("perm", &self.perm, usual.perm);
        let read_queue_nums = number("readQueueNums", &self.read_queue_nums, usual.read_queue_nums);
        let write_queue_nums = number("writeQueueNums", &self.write_queue_nums, usual.write_queue_nums);
        let mut attributes = usual.attributes;
        match self.attributes {
            Value::Null => {}
            Value::Object(members) => {
                for (name, value) in members {
                    match value {
                        Value::String(text) => drop(attributes.insert(name, text)),
                        Value::Number(_) | Value::Bool(_) => drop(attributes.insert(name, value.to_string())),
                        _ => drop(problem.get_or_insert(format!("the attribute {name} has no text, left out"))),
                    }
                }
            }
            _ => drop(problem.get_or_insert("the attributes are no object, left out".to_owned())),
        }
        if let Some(problem) = problem {
            odd.note(key, &problem);
        }
        let text = |value: Value| if let Value::String(text) = value { Some(text) } else { None };
        TopicDocument {
            attributes,
            order: self.order == Value::Bool(true),
            perm,
            read_queue_nums,
            topic_filter_type: text(self.topic_filter_type).unwrap_or(usual.topic_filter_type),
            topic_name: text(self.topic_name).filter(|name| !name.is_empty()).unwrap_or_else(|| key.to_owned()),
            topic_sys_flag: self.topic_sys_flag.as_i64().and_then(|flag| i32::try_from(flag).ok()).unwrap_or_default(),
            write_queue_nums,
        }
    }
}

/// A count or mask as Java's `int` has it, none of which is negative; else the nearest that can be.
fn number_of(value: &Value, usual: u32) -> Result<u32, u32> {
    match value {
        Value::Null => Ok(usual),
        Value::Number(number) => match number.as_i64() {
            Some(number) => within_int(number),
            None => Err(if number.as_f64().is_some_and(f64::is_sign_negative) { 0 } else { INT_MAX }),
        },
        Value::String(text) => text.trim().parse().map_err(|_| usual).and_then(within_int),
        _ => Err(usual),
    }
}

const INT_MAX: u32 = i32::MAX as u32;

fn within_int(number: i64) -> Result<u32, u32> {
    match u32::try_from(number) {
        Ok(fits) if fits <= INT_MAX => Ok(fits),
        _ => Err(if number < 0 { 0 } else { INT_MAX }),
    }
}

/// A line of the packed form; `None` if there is no topic in it.
pub(super) fn read_line(line: &[u8], odd: &mut OddTopics) -> Option<TopicDocument> {
    let topic = std::str::from_utf8(line).ok().and_then(|text| split_line(text, odd));
    if topic.is_none() {
        odd.leave_out(&String::from_utf8_lossy(line), "this is no line of a topic");
    }
    topic
}

fn split_line(text: &str, odd: &mut OddTopics) -> Option<TopicDocument> {
    let mut parts = text.splitn(6, ' ');
    let mut next = || parts.next().filter(|part| !part.is_empty());
    let topic_name = next()?.to_owned();
    let mut problem = None;
    let mut number = |name: &str, text: &str| {
        let number: i64 = text.parse().ok()?;
        Some(within_int(number).unwrap_or_else(|taken| {
            problem.get_or_insert(format!("{name} is {number}, taken as {taken}"));
            taken
        }))
    };
    let read_queue_nums = number("readQueueNums", next()?)?;
    let write_queue_nums = number("writeQueueNums", next()?)?;
    let perm = number("perm", next()?)?;
    let topic_filter_type = next()?.to_owned();
    // As Java does: attributes that cannot be read are none.
    let attributes = parts.next().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    if let Some(problem) = problem {
        odd.note(&topic_name, &problem);
    }
    Some(TopicDocument {
        attributes,
        perm,
        read_queue_nums,
        topic_filter_type,
        topic_name,
        write_queue_nums,
        ..TopicDocument::default()
    })
}
