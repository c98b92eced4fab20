//! `GET /health`: whether the process does its work, and `GET /ready`: whether clients are to be sent to it. If not, why.
//!
//! The two differ where a broker is well, but an operator wants producers to go elsewhere: it drains.
//!
//! A broker alone answers for the process. Of several, one that fails does not take the process down with it: whoever
//! watches the status code must not restart the others for it. The body tells of each.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use broker::Broker;
use serde_json::{Map, Value, json};

use crate::Sources;

/// What is said of a process: that all is as it should be, or some of it, or nothing.
struct Words {
    all: &'static str,
    some: &'static str,
    none: &'static str,
}

const HEALTH: Words = Words { all: "up", some: "degraded", none: "down" };
const READINESS: Words = Words { all: "ready", some: "partly ready", none: "not ready" };

pub(crate) async fn get(State(sources): State<Sources>) -> Response {
    tell(&sources, &HEALTH, problem)
}

pub(crate) async fn ready(State(sources): State<Sources>) -> Response {
    tell(&sources, &READINESS, |broker| problem(broker).or_else(|| closed(broker)))
}

/// Answers whatever is asked before the brokers are opened.
pub(crate) async fn starting() -> Response {
    let reason = "the data directory is being opened; after a crash the end of its log is read first";
    answer(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "starting", "reason": reason}))
}

fn tell(sources: &Sources, words: &Words, problem: impl Fn(&Broker) -> Option<String>) -> Response {
    if let Some(reason) = sources.ending.get() {
        return answer(StatusCode::SERVICE_UNAVAILABLE, &snapshot(words, Some(reason)));
    }
    let problems: Vec<_> =
        sources.brokers.iter().map(|broker| (broker.options().broker_name.as_str(), problem(broker))).collect();
    let (status, body) = judge(words, &problems);
    answer(status, &body)
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Why a broker takes no messages, or soon will not. Waits for no disk, and for nobody who waits for one.
pub(crate) fn problem(broker: &Broker) -> Option<String> {
    let durability = &broker.durability;
    let poisoned = durability.poisoned().map(|refusal| refusal.to_string());
    // What is known of its space is old once the disk hangs.
    poisoned.or_else(|| durability.disk_hangs()).or_else(|| durability.lacks_space())
}

/// What a broker that is as it should be does not let clients do, as an operator wants it: it is to get no new ones.
fn closed(broker: &Broker) -> Option<String> {
    let permission = broker.running.permission();
    let what = match (permission.read, permission.write) {
        (true, true) => return None,
        (true, false) => "draining: broker.permission lets nobody write",
        (false, true) => "broker.permission lets nobody read",
        (false, false) => "broker.permission lets nobody read or write",
    };
    Some(format!("{what}; sluice admin broker resume ends that"))
}

fn judge(words: &Words, problems: &[(&str, Option<String>)]) -> (StatusCode, Value) {
    if let [] | [_] = problems {
        let problem = problems.iter().find_map(|(_, problem)| problem.as_deref());
        return (status_code(problem.is_none()), snapshot(words, problem));
    }
    let down = problems.iter().filter(|(_, problem)| problem.is_some()).count();
    let status = match down {
        0 => words.all,
        some if some < problems.len() => words.some,
        _ => words.none,
    };
    let brokers: Map<_, _> =
        problems.iter().map(|(name, problem)| ((*name).to_owned(), snapshot(words, problem.as_deref()))).collect();
    (status_code(down < problems.len()), json!({"status": status, "brokers": brokers}))
}

const fn status_code(works: bool) -> StatusCode {
    if works { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn snapshot(words: &Words, problem: Option<&str>) -> Value {
    match problem {
        None => json!({"status": words.all}),
        Some(reason) => json!({"status": words.none, "reason": reason}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(problems: &[Option<&str>]) -> (u16, String) {
        let names = ["a", "a-2", "a-3"];
        let problems: Vec<_> =
            names.into_iter().zip(problems.iter().map(|problem| problem.map(str::to_owned))).collect();
        let (status, body) = judge(&HEALTH, &problems);
        (status.as_u16(), body.to_string())
    }

    #[test]
    fn a_broker_alone_answers_for_the_process_and_so_does_a_name_server() {
        assert_eq!(judged(&[]), (200, r#"{"status":"up"}"#.to_owned()));
        assert_eq!(judged(&[None]), (200, r#"{"status":"up"}"#.to_owned()));
        assert_eq!(judged(&[Some("full")]), (503, r#"{"reason":"full","status":"down"}"#.to_owned()));
    }

    #[test]
    fn of_several_the_process_is_down_only_when_all_are() {
        assert_eq!(
            judged(&[None, None]),
            (200, r#"{"brokers":{"a":{"status":"up"},"a-2":{"status":"up"}},"status":"up"}"#.to_owned())
        );
        assert_eq!(
            judged(&[None, Some("full")]),
            (
                200,
                r#"{"brokers":{"a":{"status":"up"},"a-2":{"reason":"full","status":"down"}},"status":"degraded"}"#
                    .to_owned()
            )
        );
        let (status, body) = judged(&[Some("full"), Some("poisoned"), Some("full")]);
        assert!(status == 503 && body.ends_with(r#""status":"down"}"#), "{body}");
    }
}
