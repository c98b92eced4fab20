//! Which topic a popped message is stored in: the one that was asked for, or the one where a group's messages of that topic come again.
//!
//! Receipts and answers carry it as a flag, not as a name: a client knows the topic it asked for and its group, and makes the name of
//! them. Two forms of name are in use, `%RETRY%group_topic` and `%RETRY%group+topic`; the first can't be taken apart without the group.

use std::borrow::Cow;

use base::name::RETRY_PREFIX;

/// Where a popped message is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// In the topic that was asked for.
    #[default]
    Topic,
    /// In the group's retry topic for it, `%RETRY%group_topic`.
    Retry,
    /// The same, `%RETRY%group+topic`: with `enableRetryTopicV2`.
    RetryV2,
}

impl Origin {
    /// Where brokers of 5.4.0 put what comes again, unless `enableRetryTopicV2` is set.
    pub const DEFAULT_RETRY: Self = Self::Retry;

    /// The flag in receipts, answers and acknowledgements.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Topic => "0",
            Self::Retry => "1",
            Self::RetryV2 => "2",
        }
    }

    /// The origin with this flag.
    pub fn from_flag(flag: &str) -> Option<Self> {
        [Self::Topic, Self::Retry, Self::RetryV2].into_iter().find(|origin| origin.flag() == flag)
    }

    /// What a client takes for the origin of a message in `stored_topic`. The name alone decides, so any group's retry topic counts.
    pub fn of(stored_topic: &str) -> Self {
        match stored_topic.strip_prefix(RETRY_PREFIX) {
            None => Self::Topic,
            Some(rest) if rest.contains('+') => Self::RetryV2,
            Some(_) => Self::Retry,
        }
    }

    /// The topic a message is stored in that `group` got when it asked for `topic`.
    pub fn stored_topic<'a>(self, topic: &'a str, group: &str) -> Cow<'a, str> {
        match self {
            Self::Topic => Cow::Borrowed(topic),
            Self::Retry => Cow::Owned(format!("{RETRY_PREFIX}{group}_{topic}")),
            Self::RetryV2 => Cow::Owned(format!("{RETRY_PREFIX}{group}+{topic}")),
        }
    }
}

/// The topic `group` asks for to get what is in `stored_topic`; `None` if that is a retry topic of another group or of no topic.
///
/// A group that is another's name with an underscore and more is taken for it: `a` with the topic `b_c`, and `a_b` with `c`, share
/// `%RETRY%a_b_c`.
pub fn asked_topic<'a>(stored_topic: &'a str, group: &str) -> Option<&'a str> {
    let Some(rest) = stored_topic.strip_prefix(RETRY_PREFIX) else { return Some(stored_topic) };
    let topic = rest.strip_prefix(group)?.strip_prefix(['+', '_'])?;
    // No topic or group has a plus: with one more it is the second form, of a longer group.
    (!topic.is_empty() && !topic.contains('+')).then_some(topic)
}

/// Group and topic of a retry topic of the second form, the only one that says them.
pub fn group_and_topic(stored_topic: &str) -> Option<(&str, &str)> {
    let (group, topic) = stored_topic.strip_prefix(RETRY_PREFIX)?.split_once('+')?;
    (!group.is_empty() && !topic.is_empty() && !topic.contains('+')).then_some((group, topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_topics_have_the_names_java_gives_them() {
        for (origin, flag, stored) in [
            (Origin::Topic, "0", "orders"),
            (Origin::Retry, "1", "%RETRY%billing_orders"),
            (Origin::RetryV2, "2", "%RETRY%billing+orders"),
        ] {
            assert_eq!(origin.stored_topic("orders", "billing"), stored);
            assert_eq!((origin.flag(), Origin::from_flag(flag)), (flag, Some(origin)));
            assert_eq!(Origin::of(stored), origin);
            assert_eq!(asked_topic(stored, "billing"), Some("orders"));
        }
        assert_eq!(Origin::DEFAULT_RETRY.stored_topic("orders", "billing"), "%RETRY%billing_orders");
        for flag in ["", "3", "00", "0 ", "-0", "true"] {
            assert_eq!(Origin::from_flag(flag), None, "{flag:?}");
        }
    }

    #[test]
    fn the_name_alone_says_the_origin() {
        for (stored, origin) in [
            ("%RETRY%billing", Origin::Retry),
            ("%RETRY%a+b+c", Origin::RetryV2),
            ("or+ders", Origin::Topic),
            ("%DLQ%billing", Origin::Topic),
            ("", Origin::Topic),
        ] {
            assert_eq!(Origin::of(stored), origin, "{stored}");
        }
    }

    #[test]
    fn a_retry_topic_of_another_group_has_no_topic_to_ask_for() {
        assert_eq!(asked_topic("orders", "billing"), Some("orders"));
        assert_eq!(asked_topic("or+ders", "billing"), Some("or+ders"));
        for other in ["%RETRY%billing", "%RETRY%billing_", "%RETRY%other_x", "%RETRY%a+b+c", "%RETRY%billingorders"] {
            assert_eq!(asked_topic(other, "billing"), None, "{other}");
        }
        assert_eq!((asked_topic("%RETRY%a_b+c", "a"), asked_topic("%RETRY%a_b+c", "a_b")), (None, Some("c")));
        // What Java cannot tell apart either.
        assert_eq!((asked_topic("%RETRY%a_b_c", "a"), asked_topic("%RETRY%a_b_c", "a_b")), (Some("b_c"), Some("c")));
    }

    #[test]
    fn only_the_second_form_says_its_group() {
        assert_eq!(group_and_topic("%RETRY%billing+orders"), Some(("billing", "orders")));
        for unclear in ["%RETRY%billing_orders", "%RETRY%a+b+c", "%RETRY%+orders", "%RETRY%billing+", "a+b", "orders"] {
            assert_eq!(group_and_topic(unclear), None, "{unclear}");
        }
    }
}
