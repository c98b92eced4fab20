//! What a group wants of a topic, as clients and administrators tell it.

use std::borrow::Cow;

use base::Refusal;
use broker::{Filter, Subscription};
use wire::rocketmq::body::client::SubscriptionData;

/// A subscription as a heartbeat tells it.
pub(super) fn subscription_of(data: SubscriptionData) -> Result<Subscription, Refusal> {
    let filter = if data.code_set.is_empty() {
        Filter::parse(&data.sub_string).unwrap_or(Filter::All)
    } else {
        Filter::from_codes(data.code_set.iter().copied())
    };
    let expression_type = if data.expression_type.is_empty() { "TAG".to_owned() } else { data.expression_type };
    Ok(Subscription {
        topic: data.topic,
        expression: data.sub_string,
        expression_type,
        tags: data.tags_set,
        codes: data.code_set,
        version: data.sub_version,
        filter,
    })
}

/// A subscription as administrators see it.
pub(super) fn subscription_data(subscription: &Subscription) -> SubscriptionData {
    SubscriptionData {
        class_filter_mode: false,
        code_set: subscription.codes.clone(),
        expression_type: subscription.expression_type.clone(),
        sub_string: subscription.expression.clone(),
        sub_version: subscription.version,
        tags_set: subscription.tags.clone(),
        topic: subscription.topic.clone(),
    }
}

/// Only tags are understood.
pub(super) fn check_expression_type(kind: Option<&Cow<'_, str>>) -> Result<(), Refusal> {
    match kind.map(|kind| &**kind) {
        None | Some("" | "TAG") => Ok(()),
        Some(other) => Err(Refusal::NotSupported(format!(
            "Sluice does not filter by {other} yet: use tags (the broker does not support consumer to filter message by {other})"
        ))),
    }
}
