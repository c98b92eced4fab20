//! Which handler answers which request, of those that need not be answered on a network thread.

use wire::rocketmq::code::request;
use wire::rocketmq::frame::Command;

use super::answer::Answered;
use super::context::Context;
use super::{broker_admin, consumer, group_admin, lookup, offset, topic_admin};

/// Answers one request.
pub(super) type Handler = fn(&Context<'_>, &Command<'_>) -> Answered;

/// Handlers of requests whose body is a list: short ones are answered on the spot, long ones away from the network threads.
pub(super) const fn list_handler(code: i32) -> Option<Handler> {
    Some(match code {
        request::HEART_BEAT => consumer::heartbeat,
        request::CHECK_CLIENT_CONFIG => consumer::check_client,
        request::LOCK_BATCH_QUEUES => consumer::lock_queues,
        request::UNLOCK_BATCH_QUEUES => consumer::unlock_queues,
        _ => return None,
    })
}

/// Handlers of requests that may wait for a disk or walk large tables.
pub(super) const fn slow_handler(code: i32) -> Option<Handler> {
    Some(match code {
        request::QUERY_CONSUMER_OFFSET => offset::query,
        request::SEARCH_OFFSET_BY_TIMESTAMP => offset::search,
        request::GET_EARLIEST_MESSAGE_STORE_TIME => offset::earliest,
        request::INVOKE_BROKER_TO_RESET_OFFSET => offset::reset,
        request::CLONE_GROUP_OFFSET => offset::clone_group,
        request::GET_ALL_CONSUMER_OFFSET => offset::all,
        request::GET_ALL_DELAY_OFFSET => offset::all_delayed,
        request::CONSUMER_SEND_MESSAGE_BACK => consumer::send_back,
        request::QUERY_MESSAGE => lookup::by_key,
        request::VIEW_MESSAGE_BY_ID => lookup::by_id,
        request::QUERY_CONSUME_QUEUE => lookup::consume_queue,
        request::UPDATE_AND_CREATE_TOPIC => topic_admin::put,
        request::UPDATE_AND_CREATE_TOPIC_LIST => topic_admin::put_list,
        request::DELETE_TOPIC_IN_BROKER => topic_admin::delete,
        request::CLEAN_EXPIRED_CONSUME_QUEUE => topic_admin::remove_expired_queues,
        request::CLEAN_UNUSED_TOPIC => topic_admin::remove_unknown,
        request::GET_ALL_TOPIC_CONFIG => topic_admin::all,
        request::GET_TOPIC_CONFIG => topic_admin::get,
        request::GET_TOPIC_STATS_INFO => topic_admin::stats,
        request::QUERY_TOPIC_CONSUME_BY_WHO => topic_admin::groups,
        request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => topic_admin::system,
        request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP => group_admin::put,
        request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP_LIST => group_admin::put_list,
        request::DELETE_SUBSCRIPTION_GROUP => group_admin::delete,
        request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG => group_admin::all,
        request::GET_SUBSCRIPTION_GROUP_CONFIG => group_admin::get,
        request::GET_CONSUMER_CONNECTION_LIST => group_admin::consumer_connections,
        request::GET_PRODUCER_CONNECTION_LIST => group_admin::producer_connections,
        request::GET_ALL_PRODUCER_INFO => group_admin::all_producers,
        request::GET_CONSUME_STATS => group_admin::consume_stats,
        request::GET_BROKER_CONSUME_STATS => group_admin::all_consume_stats,
        request::QUERY_TOPICS_BY_CONSUMER => group_admin::topics,
        request::QUERY_SUBSCRIPTION_BY_CONSUMER => group_admin::subscription,
        request::QUERY_CONSUME_TIME_SPAN => group_admin::time_span,
        request::GET_BROKER_CONFIG => broker_admin::config,
        request::GET_BROKER_RUNTIME_INFO => broker_admin::runtime,
        request::VIEW_BROKER_STATS_DATA => broker_admin::stats,
        _ => return None,
    })
}
