//! What slaves ask their master for: tables that administrators are shown too, and besides them, of features that Sluice does not have,
//! what a broker says on which nobody has used them, since slaves ask again and again. And what a slave does not do itself.

use base::Refusal;
use broker::Broker;
use format::state;
use serde_json::json;
use wire::rocketmq::code::response;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{STATE_PARTS, StatePart, TABLE_POSITION};

use super::answer::{Answer, Answered, header};
use super::context::Context;
use super::requests::Needs;

/// A table as a slave needs it: with the position below which all that the log says is in it. Waits for the disk.
pub(super) fn table(context: &Context<'_>, copied: impl FnOnce() -> Answered) -> Answered {
    // Read before the table is copied: what comes meanwhile the log tells too.
    let position = context.broker.state_position();
    let answer = copied()?;
    if context.broker.follows() {
        // Its log may tell of nothing.
        return Ok(answer);
    }
    // A slave acts on what it hears: nothing of it may be lost here any more.
    context.broker.sync_state()?;
    Ok(answer.field(TABLE_POSITION, position))
}

/// Bytes of state in one answer, more or less: what is longer is told in parts.
const STATE_PART_SIZE: usize = 4 * 1024 * 1024;

/// What no table tells: leases, and virtual hosts with what is in them. Of a slave nobody takes it.
pub(super) fn undocumented(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let asked: StatePart = header(command)?;
    if context.broker.follows() {
        return Ok(Answer { code: response::REQUEST_CODE_NOT_SUPPORTED, ..Answer::default() });
    }
    table(context, || {
        let mut changes = context.broker.undocumented(context.now)?;
        let fitting = || (state::encode(&changes).len() / STATE_PART_SIZE + 1) as u32;
        let parts = asked.parts.and_then(|parts| u32::try_from(parts).ok()).filter(|parts| *parts > 0);
        let parts = parts.unwrap_or_else(fitting);
        changes.retain(|change| change.part_of(parts) == asked.part.unwrap_or_default().unsigned_abs());
        Ok(Answer::body(state::encode(&changes)).field(STATE_PARTS, parts))
    })
}

/// What a slave leaves to its master, in the words of RocketMQ.
pub(super) fn check_is_master(broker: &Broker, needs: Needs) -> Result<(), Refusal> {
    if needs == Needs::Administer && broker.follows() {
        return Err(Refusal::Internal(
            "Can't modify topic or subscription group from slave broker, please execute it from master broker."
                .to_owned(),
        ));
    }
    Ok(())
}

/// A name server says that another member of this broker's group is the first now. Its answer to a registration says which.
pub(super) fn note_members(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    context.broker.catalog.announce_soon();
    Ok(Answer::ok())
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
