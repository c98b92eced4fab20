//! What a step's answer is expected to be.

use wire::rocketmq::code::{request, response};

use super::line::{number, text};
use crate::client::Reply;

/// Holds the answers of a step against what is expected of them.
pub fn check(words: &[&str], replies: &[Reply]) -> Result<(), String> {
    if words == ["waits"] {
        return if replies.is_empty() {
            Ok(())
        } else {
            Err(format!("expected that it waits, and it was {}", told(&replies[0])))
        };
    }
    let reply = match replies {
        [] => return Err(format!("expected {}, and it waits", said(words))),
        [reply] => reply,
        several => return Err(format!("there are {} answers", several.len())),
    };
    let differs = || Err(format!("expected {}, and it was {}", said(words), told(reply)));
    let is_so = match words {
        ["ok"] => reply.code == response::SUCCESS,
        ["nothing"] => reply.code == response::PULL_NOT_FOUND,
        ["nothing", "that", "matches"] => reply.code == response::PULL_RETRY_IMMEDIATELY,
        ["moved", "to", offset] => {
            reply.code == response::PULL_OFFSET_MOVED && reply.number("nextBeginOffset") == number(offset)?
        }
        ["no", "offset"] => reply.code == response::QUERY_NOT_FOUND,
        ["reset"] => reply.code == response::SUCCESS,
        ["offset", offset] => reply.code == response::SUCCESS && reply.number("offset") == number(offset)?,
        ["queue", queue, "offset", offset] => {
            reply.code == response::SUCCESS
                && (reply.number("queueId"), reply.number("queueOffset")) == (number(queue)?, number(offset)?)
        }
        ["members", members @ ..] => reply.code == response::SUCCESS && list(reply, "consumerIdList") == *members,
        ["queues", queues @ ..] => reply.code == response::SUCCESS && locked(reply) == *queues,
        ["refused", code] => i64::from(reply.code) == number(code)?,
        ["refused", code, part] => i64::from(reply.code) == number(code)? && reply.remark.contains(text(part)?),
        ["change", "of", group] => {
            reply.code == request::NOTIFY_CONSUMER_IDS_CHANGED && reply.fields["consumerGroup"] == *group
        }
        texts if texts.iter().all(|word| word.starts_with('"')) => {
            let expected: Vec<_> = texts.iter().filter_map(|word| text(word).ok()).collect();
            reply.code == response::SUCCESS && reply.bodies() == expected
        }
        _ => return Err("no such expectation".to_owned()),
    };
    if is_so { Ok(()) } else { differs() }
}

fn said(words: &[&str]) -> String {
    let texts: Vec<_> = words.iter().filter_map(|word| text(word).ok()).collect();
    if texts.len() == words.len() { format!("{texts:?}") } else { words.join(" ") }
}

/// An answer in words.
fn told(reply: &Reply) -> String {
    match reply.code {
        _ if !reply.is_response => format!("a notice {}", reply.code),
        response::SUCCESS if reply.fields.contains_key("nextBeginOffset") => format!("{:?}", reply.bodies()),
        response::SUCCESS => format!("ok with {:?} {}", reply.fields, String::from_utf8_lossy(&reply.body)),
        code => format!("refused with {code} ({}) {:?}", reply.remark, reply.fields),
    }
}

fn list(reply: &Reply, name: &str) -> Vec<String> {
    let json = reply.json();
    let members = json[name].as_array().cloned().unwrap_or_default();
    members.iter().filter_map(|member| member.as_str().map(str::to_owned)).collect()
}

fn locked(reply: &Reply) -> Vec<String> {
    let queues = reply.json()["lockOKMQSet"].as_array().cloned().unwrap_or_default();
    let mut numbers: Vec<_> = queues.iter().map(|queue| queue["queueId"].to_string()).collect();
    numbers.sort();
    numbers
}
