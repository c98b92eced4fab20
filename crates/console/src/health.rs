//! `GET /health`: whether the process does its work, and if not, why.
//!
//! A broker alone answers for the process. Of several, one that fails does not take the process down with it: whoever
//! watches the status code must not restart the others for it. The body tells of each.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use broker::Broker;
use serde_json::{Map, Value, json};

use crate::Sources;

pub(crate) async fn get(State(sources): State<Sources>) -> impl IntoResponse {
    if let Some(reason) = sources.ending.get() {
        return answer(StatusCode::SERVICE_UNAVAILABLE, &snapshot(Some(reason)));
    }
    let problems: Vec<_> =
        sources.brokers.iter().map(|broker| (broker.options().broker_name.as_str(), problem(broker))).collect();
    let (status, body) = judge(&problems);
    answer(status, &body)
}

fn answer(status: StatusCode, body: &Value) -> impl IntoResponse + use<> {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string())
}

/// Why a broker takes no messages, or soon will not.
pub(crate) fn problem(broker: &Broker) -> Option<String> {
    let poisoned = broker.durability.poisoned().map(|refusal| refusal.to_string());
    poisoned.or_else(|| broker.durability.lacks_space())
}

fn judge(problems: &[(&str, Option<String>)]) -> (StatusCode, Value) {
    if let [] | [_] = problems {
        let problem = problems.iter().find_map(|(_, problem)| problem.as_deref());
        return (status_code(problem.is_none()), snapshot(problem));
    }
    let down = problems.iter().filter(|(_, problem)| problem.is_some()).count();
    let status = match down {
        0 => "up",
        some if some < problems.len() => "degraded",
        _ => "down",
    };
    let brokers: Map<_, _> =
        problems.iter().map(|(name, problem)| ((*name).to_owned(), snapshot(problem.as_deref()))).collect();
    (status_code(down < problems.len()), json!({"status": status, "brokers": brokers}))
}

const fn status_code(works: bool) -> StatusCode {
    if works { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn snapshot(problem: Option<&str>) -> Value {
    match problem {
        None => json!({"status": "up"}),
        Some(reason) => json!({"status": "down", "reason": reason}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(problems: &[Option<&str>]) -> (u16, String) {
        let names = ["a", "a-2", "a-3"];
        let problems: Vec<_> =
            names.into_iter().zip(problems.iter().map(|problem| problem.map(str::to_owned))).collect();
        let (status, body) = judge(&problems);
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
