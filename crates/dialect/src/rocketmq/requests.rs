//! The requests that a broker answers, one row each: a new one is a row here and its handler.
//!
//! The session dispatches by this table, fuzzing asks what it names, and `docs/semantics.md` is held against it. Rows say what a client needs
//! to be allowed; there is no access control yet that asks.

use wire::rocketmq::code::request;
use wire::rocketmq::frame::Command;

use super::answer::{Answered, BODY_SIZE_MAX};
use super::context::Context;
use super::{assignment, broker_admin, consumer, group_admin, lookup, offset, slave, topic_admin};
use Handling::{
    Ack, AckBatch, Apart, Call, ChangeTime, Commit, GiveBack, Heartbeat, Here, List, Notice, Pop, Pull, Send,
};
use Needs::{Administer, Inspect, Publish, Subscribe};

/// Answers one request.
pub(super) type Handler = fn(&Context<'_>, &Command<'_>) -> Answered;

/// Who answers a request, and where.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handling {
    /// The session: sends that came together are appended together.
    Send,
    /// The session: a pull may wait for messages.
    Pull,
    /// The session: commits are gathered.
    Commit,
    /// A job, and then the session: the message is stored again, which may take a while to be safe.
    GiveBack,
    /// The session, which knows the last one; long ones as a list.
    Heartbeat,
    /// The session: a pop may wait for messages.
    Pop,
    /// The session: so may who asks whether there are any.
    Notice,
    /// The session: acknowledgements are gathered, as commits are,
    Ack,
    /// and so are batches of them.
    AckBatch,
    /// The session, which knows where its messages are.
    ChangeTime,
    /// Another connection's client: its answer is passed back.
    Call,
    /// On the spot.
    Here(Handler),
    /// On the spot if the list in its body is short, else away from the network threads and before anything that follows.
    List(Handler),
    /// Away from the network threads: it may wait for a disk or walk large tables.
    Apart(Handler),
}

/// What a client needs to be allowed for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// To write messages to the topic.
    Publish,
    /// To consume as the group.
    Subscribe,
    /// To look at what the broker has and who is connected.
    Inspect,
    /// To change topics, groups and others' offsets.
    Administer,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its code.
    pub code: i32,
    /// What it needs.
    pub needs: Needs,
    pub(super) handling: Handling,
    /// About how many bytes its answer takes while it is made.
    answer_size: usize,
}

/// How many times its size a body takes when it is read: lists of texts grow most.
const READ_BODY_GROWTH: usize = 10;

/// Most answers stay below this.
const ANSWER_SIZE: usize = 64 * 1024;

/// Statistics of a group or topic with thousands of queues.
const LONG_ANSWER_SIZE: usize = 1024 * 1024;

/// Whole tables and single messages, which are seldom larger.
const LARGE_ANSWER_SIZE: usize = 4 * 1024 * 1024;

/// All that are answered.
pub const REQUESTS: &[Row] = &[
    row(request::SEND_MESSAGE, Publish, Send),
    row(request::SEND_MESSAGE_V2, Publish, Send),
    row(request::SEND_BATCH_MESSAGE, Publish, Send),
    row(request::PULL_MESSAGE, Subscribe, Pull),
    row(request::LITE_PULL_MESSAGE, Subscribe, Pull),
    row(request::HEART_BEAT, Subscribe, Heartbeat),
    row(request::UNREGISTER_CLIENT, Subscribe, Here(consumer::unregister)),
    row(request::GET_CONSUMER_LIST_BY_GROUP, Subscribe, Here(consumer::list_members)),
    row(request::CHECK_CLIENT_CONFIG, Subscribe, List(consumer::check_client)),
    row(request::LOCK_BATCH_QUEUES, Subscribe, List(consumer::lock_queues)),
    row(request::UNLOCK_BATCH_QUEUES, Subscribe, List(consumer::unlock_queues)),
    row(request::UPDATE_CONSUMER_OFFSET, Subscribe, Commit),
    row(request::GET_MAX_OFFSET, Inspect, Here(offset::max)),
    row(request::GET_MIN_OFFSET, Inspect, Here(offset::min)),
    row(request::QUERY_CONSUMER_OFFSET, Subscribe, Apart(offset::query)),
    row(request::SEARCH_OFFSET_BY_TIMESTAMP, Inspect, Apart(offset::search)),
    row(request::GET_EARLIEST_MESSAGE_STORE_TIME, Inspect, Apart(offset::earliest)),
    row(request::INVOKE_BROKER_TO_RESET_OFFSET, Administer, Apart(offset::reset)),
    row(request::CLONE_GROUP_OFFSET, Administer, Apart(offset::clone_group)),
    row(request::GET_ALL_CONSUMER_OFFSET, Inspect, Apart(offset::all)).answering(LARGE_ANSWER_SIZE),
    row(request::GET_ALL_DELAY_OFFSET, Inspect, Apart(offset::all_delayed)),
    row(request::CONSUMER_SEND_MESSAGE_BACK, Subscribe, GiveBack),
    row(request::NOTIFY_MIN_BROKER_ID_CHANGE, Inspect, Here(slave::note_members)),
    row(request::QUERY_ASSIGNMENT, Subscribe, Apart(assignment::query)).answering(LONG_ANSWER_SIZE),
    row(request::SET_MESSAGE_REQUEST_MODE, Administer, Apart(assignment::set_mode)),
    row(request::GET_ALL_MESSAGE_REQUEST_MODE, Inspect, Apart(assignment::all_modes)).answering(LARGE_ANSWER_SIZE),
    row(request::GET_ALL_UNDOCUMENTED_STATE, Inspect, Apart(slave::undocumented)).answering(LARGE_ANSWER_SIZE),
    row(request::GET_TIMER_CHECK_POINT, Inspect, Here(slave::timer_check_point)),
    row(request::GET_TIMER_METRICS, Inspect, Here(slave::timer_metrics)),
    // Its messages are there three times: as they were read, side by side, and in their frame.
    row(request::QUERY_MESSAGE, Inspect, Apart(lookup::by_key)).answering(3 * BODY_SIZE_MAX),
    row(request::VIEW_MESSAGE_BY_ID, Inspect, Apart(lookup::by_id)).answering(LARGE_ANSWER_SIZE),
    row(request::QUERY_CONSUME_QUEUE, Inspect, Apart(lookup::consume_queue)),
    row(request::UPDATE_AND_CREATE_TOPIC, Administer, Apart(topic_admin::put)),
    row(request::UPDATE_AND_CREATE_TOPIC_LIST, Administer, Apart(topic_admin::put_list)),
    row(request::DELETE_TOPIC_IN_BROKER, Administer, Apart(topic_admin::delete)),
    row(request::GET_ALL_TOPIC_CONFIG, Inspect, Apart(topic_admin::all)).answering(LARGE_ANSWER_SIZE),
    row(request::GET_TOPIC_CONFIG, Inspect, Apart(topic_admin::get)),
    row(request::GET_TOPIC_STATS_INFO, Inspect, Apart(topic_admin::stats)).answering(LONG_ANSWER_SIZE),
    row(request::QUERY_TOPIC_CONSUME_BY_WHO, Inspect, Apart(topic_admin::groups)),
    row(request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Inspect, Apart(topic_admin::system)),
    row(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, Administer, Apart(group_admin::put)),
    row(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP_LIST, Administer, Apart(group_admin::put_list)),
    row(request::DELETE_SUBSCRIPTION_GROUP, Administer, Apart(group_admin::delete)),
    row(request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG, Inspect, Apart(group_admin::all)).answering(LARGE_ANSWER_SIZE),
    row(request::GET_SUBSCRIPTION_GROUP_CONFIG, Inspect, Apart(group_admin::get)),
    row(request::GET_CONSUMER_CONNECTION_LIST, Inspect, Apart(group_admin::consumer_connections))
        .answering(LONG_ANSWER_SIZE),
    row(request::GET_PRODUCER_CONNECTION_LIST, Inspect, Apart(group_admin::producer_connections))
        .answering(LONG_ANSWER_SIZE),
    row(request::GET_ALL_PRODUCER_INFO, Inspect, Apart(group_admin::all_producers)).answering(LARGE_ANSWER_SIZE),
    row(request::GET_CONSUME_STATS, Inspect, Apart(group_admin::consume_stats)).answering(LONG_ANSWER_SIZE),
    row(request::GET_BROKER_CONSUME_STATS, Inspect, Apart(group_admin::all_consume_stats)).answering(LARGE_ANSWER_SIZE),
    row(request::QUERY_TOPICS_BY_CONSUMER, Inspect, Apart(group_admin::topics)),
    row(request::QUERY_SUBSCRIPTION_BY_CONSUMER, Inspect, Apart(group_admin::subscription)),
    row(request::GET_CONSUMER_RUNNING_INFO, Inspect, Call),
    row(request::CONSUME_MESSAGE_DIRECTLY, Administer, Call),
    row(request::QUERY_CONSUME_TIME_SPAN, Inspect, Apart(group_admin::time_span)),
    row(request::UPDATE_BROKER_CONFIG, Administer, Apart(broker_admin::set_config)),
    row(request::GET_BROKER_CONFIG, Inspect, Apart(broker_admin::config)),
    row(request::GET_BROKER_HA_STATUS, Inspect, Here(broker_admin::ha_status)),
    row(request::GET_BROKER_RUNTIME_INFO, Inspect, Apart(broker_admin::runtime)),
    row(request::VIEW_BROKER_STATS_DATA, Inspect, Apart(broker_admin::stats)),
    row(request::CLEAN_EXPIRED_CONSUME_QUEUE, Administer, Apart(topic_admin::remove_expired_queues)),
    row(request::DELETE_EXPIRED_COMMIT_LOG, Administer, Apart(topic_admin::remove_expired_log)),
    row(request::CLEAN_UNUSED_TOPIC, Administer, Apart(topic_admin::remove_unknown)),
    row(request::POP_MESSAGE, Subscribe, Pop),
    row(request::ACK_MESSAGE, Subscribe, Ack),
    row(request::BATCH_ACK_MESSAGE, Subscribe, AckBatch),
    row(request::CHANGE_MESSAGE_INVISIBLE_TIME, Subscribe, ChangeTime),
    row(request::NOTIFICATION, Subscribe, Notice),
];

/// Codes are below this,
const CODES_END: usize = 1024;

/// but for those of pop consumption, from here on.
const POP_CODES: i32 = 200_000;

/// As many of these.
const POP_CODES_END: usize = 256;

/// Where the row of each code is, those of pop consumption behind the others.
const PLACES: [u8; CODES_END + POP_CODES_END] = {
    let mut places = [u8::MAX; CODES_END + POP_CODES_END];
    let mut place = 0;
    while place < REQUESTS.len() {
        places[slot_of(REQUESTS[place].code)] = place as u8;
        place += 1;
    }
    places
};

/// Where in `PLACES` a code stands; at its end if it has no place there.
const fn slot_of(code: i32) -> usize {
    if 0 <= code && (code as usize) < CODES_END {
        code as usize
    } else if POP_CODES <= code && ((code - POP_CODES) as usize) < POP_CODES_END {
        CODES_END + (code - POP_CODES) as usize
    } else {
        CODES_END + POP_CODES_END
    }
}

impl Row {
    /// The row of a code; `None` if such requests are not answered.
    pub(super) fn of(code: i32) -> Option<&'static Self> {
        let place = PLACES.get(slot_of(code))?;
        REQUESTS.get(usize::from(*place))
    }

    /// About how much memory a request of `frame_size` bytes takes while it is answered away from the network threads. It is counted before
    /// the work begins, so that many large ones at once find no room.
    pub(super) const fn job_size(&self, frame_size: usize) -> usize {
        frame_size * READ_BODY_GROWTH + self.answer_size
    }

    const fn answering(self, answer_size: usize) -> Self {
        Self { answer_size, ..self }
    }
}

const fn row(code: i32, needs: Needs, handling: Handling) -> Row {
    Row { code, needs, handling, answer_size: ANSWER_SIZE }
}
