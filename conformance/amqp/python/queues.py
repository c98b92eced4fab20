"""Goes with pika through what queues can do: PORT."""

import datetime
import time

from pika.exceptions import NackError
from promises import Consumer, bodies, check, code_of, connect, eventually, exists, get, publish, ready, take


def messages_and_queues_have_their_time(channel):
    channel.queue_declare("timed", arguments={"x-message-ttl": 300})
    channel.queue_declare("untimed")
    publish(channel, "timed", "by its queue")
    publish(channel, "untimed", "by itself", expiration="300")
    publish(channel, "untimed", "stays")
    eventually("a queue's time counts", lambda: ready(channel, "timed") == 0)
    eventually("a message's time counts", lambda: ready(channel, "untimed") == 1)
    assert bodies(channel, "untimed", 1) == ["stays"]
    assert code_of(channel, lambda other: publish(other, "untimed", "m", expiration="soon")) == 406
    channel.queue_declare("passing", arguments={"x-expires": 300})
    # Whoever looks at it uses it.
    time.sleep(0.4)
    eventually("a queue that nobody uses goes", lambda: time.sleep(0.4) or not exists(channel, "passing"))


def lengths_have_three_modes(channel):
    for limit in ({"x-max-length": 2}, {"x-max-length-bytes": 2}):
        channel.queue_declare("cut", arguments=limit)
        publish(channel, "cut", "1", "2", "3")
        eventually("the oldest goes", lambda: ready(channel, "cut") == 2)
        assert bodies(channel, "cut", 2) == ["2", "3"]
        channel.queue_delete("cut")
        channel.queue_declare("late")
        for mode in ("reject-publish", "reject-publish-dlx"):
            more = {"x-overflow": mode, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
            channel.queue_declare("cut", arguments=limit | more)
            publish(channel, "cut", "1", "2")
            try:
                publish(channel, "cut", "3")
                raise AssertionError(f"{mode}: it was not refused")
            except NackError:
                pass
            assert bodies(channel, "cut", 2) == ["1", "2"]
            channel.queue_delete("cut")
        [(body, properties, _)] = take(channel, "late", 1)
        assert (body, properties.headers["x-death"][0]["reason"]) == ("3", "maxlen"), properties


def dead_letters_tell_their_way(channel):
    again = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    channel.queue_declare("pause", arguments={"x-message-ttl": 100} | again)
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "pause"})
    publish(channel, "work", "m", headers={"own": 1}, expiration="60000")
    for attempt in range(3):
        method, properties, _ = get(channel, "work")
        assert properties.headers["own"] == 1
        deaths = {death["queue"]: death for death in properties.headers.get("x-death", [])}
        if attempt:
            assert (deaths["work"]["count"], deaths["work"]["reason"]) == (attempt, "rejected"), deaths
            assert (deaths["pause"]["count"], deaths["pause"]["reason"]) == (attempt, "expired"), deaths
            assert deaths["work"]["routing-keys"] == ["work"] and deaths["work"]["exchange"] == ""
            assert properties.headers["x-first-death-reason"] == "rejected" and properties.expiration is None
        channel.basic_nack(method.delivery_tag, requeue=False)


def priorities_come_first(channel):
    channel.queue_declare("ranked", arguments={"x-max-priority": 5})
    for priority in (None, 3, 9, 1, 5):
        publish(channel, "ranked", str(priority), priority=priority)
    assert bodies(channel, "ranked", 5) == ["9", "5", "3", "1", "None"]


def queues_go_with_their_owners(channel):
    owner = connect()
    of_owner = owner.channel()
    own = of_owner.queue_declare("", exclusive=True).method.queue
    assert own.startswith("amq.gen-"), own
    for act in (
        lambda other: other.queue_declare(own, passive=True), lambda other: other.basic_get(own),
        lambda other: other.queue_delete(own), lambda other: other.queue_purge(own),
        lambda other: other.queue_bind(own, "amq.topic", "k"), lambda other: other.basic_consume(own, lambda *_: None),
    ):
        assert code_of(channel, act) == 405
    of_owner.queue_declare("shared", auto_delete=True)
    tag = of_owner.basic_consume("shared", lambda *_: None)
    assert exists(channel, "shared")
    of_owner.basic_cancel(tag)
    eventually("it goes with its last consumer", lambda: not exists(channel, "shared"))
    owner.close()
    eventually("it goes with its connection", lambda: not exists(channel, own))


def one_consumer_is_active(channel):
    channel.queue_declare("single", arguments={"x-single-active-consumer": True})
    first, second = Consumer("single"), Consumer("single")
    publish(channel, "single", "1", "2")
    eventually("the first has all", lambda: first.look() == ["1", "2"])
    assert second.look() == []
    first.close()
    eventually("the next follows", lambda: second.look() == ["1", "2"])
    assert code_of(channel, lambda other: other.basic_consume("single", lambda *_: None, exclusive=True)) == 403
    second.close()
    channel.queue_declare("alone")
    alone = Consumer("alone", exclusive=True)
    assert code_of(channel, lambda other: other.basic_consume("alone", lambda *_: None)) == 403
    alone.close()


def consumers_have_priorities(channel):
    channel.queue_declare("preferred")
    low, high = Consumer("preferred"), Consumer("preferred", prefetch=2, arguments={"x-priority": 10})
    publish(channel, "preferred", "1", "2", "3")
    eventually("the preferred one has as many as it takes", lambda: len(high.look()) == 2)
    eventually("the other has the rest", lambda: low.look() == ["3"])
    low.close()
    high.close()


def deliveries_are_counted(channel):
    channel.queue_declare("buried")
    arguments = {
        "x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "buried",
    }
    channel.queue_declare("limited", durable=True, arguments=arguments)
    publish(channel, "limited", "m")
    for attempt in range(3):
        method, properties, _ = get(channel, "limited")
        assert (properties.headers or {}).get("x-delivery-count", 0) == attempt
        channel.basic_reject(method.delivery_tag, requeue=True)
    assert channel.basic_get("limited")[0] is None, "once too often"
    [(_, properties, _)] = take(channel, "buried", 1)
    assert properties.headers["x-death"][0]["reason"] == "delivery_limit", properties


def queues_are_removed_only_as_one_wants(channel):
    channel.queue_declare("kept")
    publish(channel, "kept", "m")
    assert code_of(channel, lambda other: other.queue_delete("kept", if_empty=True)) == 406
    assert channel.queue_purge("kept").method.message_count == 1
    consumer = Consumer("kept")
    assert code_of(channel, lambda other: other.queue_delete("kept", if_unused=True)) == 406
    consumer.close()
    eventually("unused", lambda: channel.queue_declare("kept", passive=True).method.consumer_count == 0)
    channel.queue_delete("kept", if_unused=True, if_empty=True)
    assert not exists(channel, "kept")


def queues_are_of_three_kinds(channel):
    for kind in ("classic", "quorum", "stream"):
        channel.queue_declare(f"of-{kind}", durable=True, arguments={"x-queue-type": kind})
        publish(channel, f"of-{kind}", "m", delivery_mode=2)
        eventually("it is there", lambda: ready(channel, f"of-{kind}") == 1)
        refused = code_of(channel, lambda other: other.queue_declare(f"of-{kind}", durable=True, arguments={"x-max-length": 5}))
        assert refused == 406, "there is one that is another"
    for kind in ("quorum", "stream"):
        arguments = {"x-queue-type": kind}
        assert code_of(channel, lambda other: other.queue_declare("passing", arguments=arguments)) == 406
        assert code_of(channel, lambda other: other.queue_declare("own", durable=True, exclusive=True, arguments=arguments)) == 406


def streams_are_read_from_where_one_wants(channel):
    arguments = {"x-queue-type": "stream"}
    channel.queue_declare("flow", durable=True, arguments=arguments)
    publish(channel, "flow", *"01234")
    publish(channel, "flow", *"56789", headers={"x-stream-filter-value": "late"})
    hour_ago = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    for offset, expected in [("first", "0123456789"), (4, "456789"), ("last", "9"), ("1h", "0123456789"), (hour_ago, "0123456789")]:
        consumer = Consumer("flow", prefetch=100, arguments={"x-stream-offset": offset})
        eventually(f"{expected} from {offset}", lambda: "".join(consumer.look()) == expected)
        assert [headers["x-stream-offset"] for headers in consumer.headers] == [int(body) for body in expected]
        consumer.close()
    late = Consumer("flow", prefetch=100, arguments={"x-stream-offset": "first", "x-stream-filter": "late"})
    following = Consumer("flow", prefetch=1, arguments={"x-stream-offset": "next"})
    publish(channel, "flow", "a", "b")
    eventually("what is filtered", lambda: "".join(late.look()) == "56789")
    eventually("as many as are not acknowledged", lambda: following.look() == ["a"])
    following.channel.basic_ack(following.tags[0])
    eventually("the next", lambda: following.look() == ["a", "b"])
    late.close()
    following.close()
    eventually("nobody takes anything away", lambda: ready(channel, "flow") == 12)
    assert code_of(channel, lambda other: other.basic_consume("flow", lambda *_: None)) == 406, "a prefetch is needed"
    short = arguments | {"x-max-length-bytes": 2}
    channel.queue_declare("brook", durable=True, arguments=short)
    publish(channel, "brook", *"0123")
    eventually("the oldest go", lambda: ready(channel, "brook") == 2)


check(
    messages_and_queues_have_their_time, lengths_have_three_modes, dead_letters_tell_their_way, priorities_come_first,
    queues_go_with_their_owners, queues_are_removed_only_as_one_wants, one_consumer_is_active, consumers_have_priorities,
    deliveries_are_counted, queues_are_of_three_kinds, streams_are_read_from_where_one_wants,
)
