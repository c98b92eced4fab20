"""Goes with pika through what queues, exchanges and channels can do: PORT. Says which promise does not hold, and ends with 1 then."""

import sys
import time

import pika
from pika import BasicProperties as Properties
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, NackError, UnroutableError

PORT = int(sys.argv[1])
PATIENCE_S = 15


def connect():
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", PORT))


def eventually(what, is_so):
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.02)


def publish(channel, queue, *bodies, exchange="", **properties):
    for body in bodies:
        channel.basic_publish(exchange, queue, body.encode(), Properties(**properties))


def ready(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def take(channel, queue, count):
    """The next messages of a queue, which may take a moment to come there."""
    taken = []

    def is_there():
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method:
            taken.append((body.decode(), properties, method))
        return len(taken) == count

    eventually(f"{count} messages in {queue}, {len(taken)} came", is_there)
    assert channel.basic_get(queue)[0] is None, "no more than these"
    return taken


def bodies(channel, queue, count):
    return [body for body, _, _ in take(channel, queue, count)]


def exists(channel, queue):
    other = channel.connection.channel()
    try:
        other.queue_declare(queue, passive=True)
        other.close()
        return True
    except ChannelClosedByBroker as error:
        assert error.reply_code == 404, error
        return False


def code_of(channel, act):
    """What the broker closes another channel with for that."""
    other = channel.connection.channel()
    try:
        act(other)
        # Answered behind whatever that has led to.
        other.basic_qos()
    except ChannelClosedByBroker as error:
        return error.reply_code
    other.close()
    return None


class Consumer:
    """Takes messages of a queue by a connection of its own."""

    def __init__(self, queue, prefetch=0, **more):
        self.connection = connect()
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.got, self.tags = [], []
        self.channel.basic_consume(queue, self.take, **more)

    def take(self, _channel, method, _properties, body):
        self.got.append(body.decode())
        self.tags.append(method.delivery_tag)

    def look(self, seconds=0.3):
        self.connection.process_data_events(time_limit=seconds)
        return self.got

    def close(self):
        self.connection.close()


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
    eventually("a queue that nobody uses goes", lambda: time.sleep(0.5) or not exists(channel, "passing"))


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
        found = []
        eventually("it comes back", lambda: found.append(channel.basic_get("work")) or found[-1][0])
        method, properties, _ = found[-1]
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
    for _ in range(3):
        found = []
        eventually("it comes again", lambda: found.append(channel.basic_get("limited")) or found[-1][0])
        channel.basic_reject(found[-1][0].delivery_tag, requeue=True)
    assert channel.basic_get("limited")[0] is None, "once too often"
    [(_, properties, _)] = take(channel, "buried", 1)
    assert properties.headers["x-death"][0]["reason"] == "delivery_limit", properties


def callers_get_their_replies(channel):
    channel.queue_declare("calls")
    caller = connect()
    of_caller = caller.channel()
    replies = []
    of_caller.basic_consume("amq.rabbitmq.reply-to", lambda *reply: replies.append(reply[3]), auto_ack=True)
    publish(of_caller, "calls", "there", reply_to="amq.rabbitmq.reply-to")
    [(_, properties, _)] = take(channel, "calls", 1)
    assert channel.queue_declare(properties.reply_to, passive=True)
    publish(channel, properties.reply_to, "back")
    caller.process_data_events(time_limit=PATIENCE_S)
    assert replies == [b"back"], replies
    caller.close()
    assert code_of(channel, lambda other: other.basic_consume("amq.rabbitmq.reply-to", lambda *_: None)) == 406
    assert code_of(channel, lambda other: publish(other, "calls", "m", reply_to="amq.rabbitmq.reply-to")) == 406


def copies_go_to_further_queues(channel):
    for queue in ("open", "copied", "hidden"):
        channel.queue_declare(queue)
    publish(channel, "open", "m", headers={"CC": ["copied", "open"], "BCC": ["hidden"]})
    for queue in ("open", "copied", "hidden"):
        [(_, properties, _)] = take(channel, queue, 1)
        assert properties.headers == {"CC": ["copied", "open"]}, properties.headers
    assert code_of(channel, lambda other: publish(other, "open", "m", headers={"CC": "copied"})) == 406


def exchanges_route(channel):
    channel.exchange_declare("lost", "fanout")
    channel.exchange_declare("in", "topic", arguments={"alternate-exchange": "lost"})
    channel.exchange_declare("inner", "direct", internal=True)
    channel.exchange_bind("inner", "in", "a.*")
    for queue in ("routed", "unrouted"):
        channel.queue_declare(queue)
    channel.queue_bind("routed", "inner", "a.b")
    channel.queue_bind("routed", "in", "#.b")
    channel.queue_bind("unrouted", "lost")
    publish(channel, "a.b", "once", exchange="in")
    publish(channel, "c", "nowhere", exchange="in")
    assert bodies(channel, "routed", 1) == ["once"] and bodies(channel, "unrouted", 1) == ["nowhere"]
    assert code_of(channel, lambda other: publish(other, "a.b", "m", exchange="inner")) == 403
    channel.exchange_unbind("inner", "in", "a.*")
    channel.queue_unbind("routed", "in", "#.b")
    publish(channel, "a.b", "unbound", exchange="in")
    assert bodies(channel, "unrouted", 1) == ["unbound"]
    assert code_of(channel, lambda other: other.exchange_delete("in", if_unused=True)) is None
    channel.queue_bind("unrouted", "amq.fanout")
    channel.exchange_declare("odd", "fanout", auto_delete=True)
    channel.queue_bind("unrouted", "odd")
    channel.queue_unbind("unrouted", "odd")
    assert code_of(channel, lambda other: other.exchange_declare("odd", passive=True)) == 404, "it goes with its last binding"


def headers_are_asked_for_in_four_ways(channel):
    channel.exchange_declare("asked", "headers")
    asked = {"n": 1, "x-n": 2}
    for mode in ("all", "any", "all-with-x", "any-with-x"):
        channel.queue_declare(mode)
        channel.queue_bind(mode, "asked", "", {"x-match": mode} | asked)
    channel.queue_declare("present")
    channel.queue_bind("present", "asked", "", {"x-match": "all", "n": None})
    for headers, expected in [
        ({"n": 1}, {"all", "any", "any-with-x", "present"}),
        ({"x-n": 2}, {"any-with-x"}),
        (asked, {"all", "any", "all-with-x", "any-with-x", "present"}),
        ({"n": "1"}, {"present"}),
        ({}, set()),
    ]:
        publish(channel, "", "m", exchange="asked", headers=headers)
        for queue in ("all", "any", "all-with-x", "any-with-x", "present"):
            assert ready(channel, queue) == (queue in expected), (headers, queue)
            channel.queue_purge(queue)
    assert code_of(channel, lambda other: other.queue_bind("all", "asked", "", {"x-match": "some"})) == 406


def prefetch_is_a_consumers_or_a_channels(channel):
    channel.queue_declare("fetched")
    publish(channel, "fetched", *map(str, range(10)))
    own = Consumer("fetched", prefetch=3)
    eventually("three", lambda: len(own.look()) == 3)
    own.channel.basic_ack(own.tags[0])
    eventually("one more", lambda: len(own.look()) == 4)
    own.close()
    shared = connect()
    of_shared = shared.channel()
    of_shared.basic_qos(prefetch_count=4, global_qos=True)
    got = []
    for _ in range(2):
        of_shared.basic_consume("fetched", lambda *delivery: got.append(delivery))
    shared.process_data_events(time_limit=1)
    assert len(got) == 4, len(got)
    shared.close()


def what_is_recovered_comes_again(channel):
    channel.queue_declare("recovered")
    publish(channel, "recovered", "1", "2")
    assert not channel.basic_get("recovered")[0].redelivered
    channel.basic_recover(requeue=True)
    got = take(channel, "recovered", 2)
    assert [(body, method.redelivered) for body, _, method in got] == [("1", True), ("2", False)]
    assert code_of(channel, lambda other: other.basic_ack(1)) == 406
    assert code_of(channel, lambda other: other.basic_nack(7)) == 406


def transactions_are_whole(_channel):
    connection = connect()
    channel, watcher = connection.channel(), connection.channel()
    channel.queue_declare("transacted")
    channel.tx_select()
    publish(channel, "transacted", "1", "2")
    assert ready(watcher, "transacted") == 0
    channel.tx_rollback()
    publish(channel, "transacted", "3")
    channel.tx_commit()
    assert ready(watcher, "transacted") == 1
    channel.basic_ack(channel.basic_get("transacted")[0].delivery_tag)
    channel.tx_rollback()
    channel.close()
    eventually("what was not acknowledged is there", lambda: ready(watcher, "transacted") == 1)
    assert code_of(watcher, lambda other: other.tx_select() and other.confirm_delivery()) == 406
    connection.close()


def what_goes_nowhere_comes_back(channel):
    try:
        channel.basic_publish("amq.direct", "nobody", b"m", mandatory=True)
        raise AssertionError("it did not come back")
    except UnroutableError as error:
        assert error.messages[0].method.reply_code == 312
    for act, code in [
        (lambda other: publish(other, "", "m", exchange="missing"), 404),
        (lambda other: other.queue_declare("typed", arguments={"x-queue-type": "odd"}), 406),
        (lambda other: other.exchange_declare("", "direct"), 403),
        (lambda other: other.queue_bind("missing", "amq.topic", "k"), 404),
        (lambda other: publish(other, "q", "m", user_id="somebody"), 406),
    ]:
        assert code_of(channel, act) == code
    other = connect()
    try:
        other.channel().exchange_declare("cut", "direct")
        other.channel().basic_qos(prefetch_size=1)
        raise AssertionError("prefetch_size was taken")
    except ConnectionClosedByBroker as error:
        assert error.reply_code == 540, error


for promise in [
    messages_and_queues_have_their_time, lengths_have_three_modes, dead_letters_tell_their_way, priorities_come_first,
    queues_go_with_their_owners, one_consumer_is_active, consumers_have_priorities, deliveries_are_counted,
    callers_get_their_replies, copies_go_to_further_queues, exchanges_route, headers_are_asked_for_in_four_ways,
    prefetch_is_a_consumers_or_a_channels, what_is_recovered_comes_again, transactions_are_whole,
    what_goes_nowhere_comes_back,
]:
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        promise(channel)
    except Exception as error:
        print(f"{promise.__name__}: {type(error).__name__}: {error}")
        raise
    connection.close()
    print(f"{promise.__name__}: holds", flush=True)
