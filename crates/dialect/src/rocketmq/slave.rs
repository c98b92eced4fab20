//! What slaves ask their master for: tables that administrators are shown too, and besides them, of features that Sluice does not have,
//! what a broker says on which nobody has used them, since slaves ask again and again. And what a slave does not do itself.

use base::Refusal;
use broker::Broker;
use serde_json::json;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::TABLE_POSITION;

use super::answer::{Answer, Answered};
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
