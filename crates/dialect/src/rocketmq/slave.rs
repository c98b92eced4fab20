//! What RocketMQ's slaves ask their master for, beyond the tables that administrators are shown too: features that Sluice does not have
//! are answered as by a broker on which nobody has used them, since slaves ask again and again.

use serde_json::json;
use wire::rocketmq::frame::Command;

use super::answer::{Answer, Answered};
use super::context::Context;

/// How groups are consumed, where somebody has said so (`MessageRequestModeSerializeWrapper`): nobody can.
pub(super) fn request_modes(_context: &Context<'_>, _command: &Command<'_>) -> Answered {
    Ok(Answer::json(&json!({"messageRequestModeMap": {}})))
}

/// How far timers have come (`TimerCheckpoint`, seven numbers of eight bytes): all of before now, since there are none.
pub(super) fn timer_check_point(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    let read_until_ms = context.now.wall.0;
    // Then how far its files are flushed, two positions of its queue, and the data version: state, time and counter.
    let numbers = [read_until_ms, 0, 0, 0, 0, 0, 0];
    Ok(Answer::body(numbers.map(u64::to_be_bytes).concat()))
}

/// How many timers each topic has (`TimerMetricsSerializeWrapper`): none.
pub(super) fn timer_metrics(_context: &Context<'_>, _command: &Command<'_>) -> Answered {
    let version = json!({"counter": 0, "stateVersion": 0, "timestamp": 0});
    Ok(Answer::json(&json!({"dataVersion": version, "timingCount": {}})))
}
