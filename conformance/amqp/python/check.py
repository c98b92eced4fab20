"""Checks with pika what users count on of connections, exchanges and channels: PORT [ADDRESS], by which others reach the broker."""

import sys
import threading

import pika
from pika import BasicProperties as Properties
from pika.exceptions import (
    ConnectionClosedByBroker, NackError, ProbableAccessDeniedError, ProbableAuthenticationError, UnroutableError,
)
from promises import PATIENCE_S, Consumer, bodies, check, code_of, connect, eventually, exists, publish, ready, take


class AmqPlain(pika.PlainCredentials):
    """The log-in that AMQP itself tells of."""

    def response_for(self, start):
        assert b"AMQPLAIN" in start.mechanisms.split()
        pieces = []
        pika.data.encode_table(pieces, {"LOGIN": self.username, "PASSWORD": self.password})
        # Without its length.
        return "AMQPLAIN", b"".join(pieces)[4:]


def who_may_connect(_channel):
    for parameters, error in [
        ({"credentials": pika.PlainCredentials("guest", "wrong")}, ProbableAuthenticationError),
        ({"credentials": AmqPlain("guest", "wrong")}, ProbableAuthenticationError),
        *[({"host": address}, ProbableAuthenticationError) for address in sys.argv[2:]],
        ({"virtual_host": "missing"}, ProbableAccessDeniedError),
    ]:
        try:
            connect(**parameters)
            raise AssertionError(f"{parameters} were let in")
        except error:
            pass
    connect(credentials=AmqPlain("guest", "guest")).close()
    connection = connect()
    connection.update_secret("guest", "it is still the same")
    try:
        connection.update_secret("another", "it is not the user's")
        raise AssertionError("a secret that is not the user's was taken")
    except ConnectionClosedByBroker as error:
        assert error.reply_code == 530, error


def in_order_with_confirms(channel):
    channel.queue_declare("ordered", durable=True)
    sent = [str(number).encode() for number in range(50)]
    for body in sent:
        channel.basic_publish("", "ordered", body, Properties(delivery_mode=2))
    assert [body.encode() for body in bodies(channel, "ordered", len(sent))] == sent


def properties_as_they_were(channel):
    channel.queue_declare("properties")
    headers = {"text": "grüße", "number": -7, "large": 1 << 40, "list": [1, "two", None], "table": {"deep": {"er": True}}}
    sent = Properties(
        content_type="a", content_encoding="b", headers=headers, delivery_mode=1, priority=3, correlation_id="c", reply_to="d",
        message_id="e", timestamp=1700000000, type="f", user_id="guest", app_id="g",
    )
    for frame_max in (4096, 131072):
        connection = connect(frame_max=frame_max, channel_max=1)
        of_connection = connection.channel()
        of_connection.basic_publish("", "properties", b"x" * 300_000, sent)
        [(body, properties, _)] = take(of_connection, "properties", 1)
        assert body == "x" * 300_000 and properties == sent, properties
        connection.close()


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


def several_are_settled_at_once(channel):
    channel.queue_declare("settled")
    publish(channel, "settled", *"01234567")
    consumer = Consumer("settled")
    eventually("all", lambda: len(consumer.look()) == 8)
    tags = consumer.tags
    consumer.channel.basic_ack(tags[1])
    consumer.channel.basic_ack(tags[2], multiple=True)
    consumer.channel.basic_nack(tags[4], multiple=True, requeue=False)
    consumer.channel.basic_cancel(consumer.tag)
    consumer.channel.basic_nack(tags[6], multiple=True, requeue=True)
    assert [(body, method.redelivered) for body, _, method in take(channel, "settled", 2)] == [("5", True), ("6", True)]
    # What a consumer has that is cancelled it may settle, until its channel goes.
    consumer.close()
    eventually("it comes back", lambda: ready(channel, "settled") == 1)
    unasked = Consumer("settled", auto_ack=True)
    eventually("it comes", lambda: unasked.look() == ["7"])
    unasked.close()
    assert ready(channel, "settled") == 0


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
        (lambda other: other.exchange_declare("amq.own", "fanout"), 403),
        (lambda other: other.exchange_declare("amq.topic", "fanout"), 406),
        (lambda other: other.queue_declare("odd", arguments={"x-message-ttl": -1}), 406),
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


def consumers_hear_of_a_queue_that_goes(channel):
    channel.queue_declare("short-lived")
    cancelled = []
    consumer = connect()
    of_consumer = consumer.channel()
    of_consumer.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = of_consumer.basic_consume("short-lived", lambda *_: None)
    channel.queue_delete("short-lived")
    consumer.process_data_events(time_limit=5)
    assert cancelled == [tag], cancelled
    consumer.close()


class Idle(threading.Thread):
    """A connection that says nothing for some seconds but that it is there; beside it one that does not even say that."""

    def __init__(self):
        super().__init__(daemon=True)
        self.is_kept = False
        self.silent = connect(heartbeat=1)
        self.queue = self.silent.channel().queue_declare("", exclusive=True).method.queue
        self.start()

    def run(self):
        connection = connect(heartbeat=1)
        connection.sleep(4)
        connection.channel().queue_declare("after-a-while")
        connection.close()
        self.is_kept = True


idle = Idle()


def signs_of_life_keep_a_connection(channel):
    eventually("the silent one is gone, with its queue", lambda: not exists(channel, idle.queue))
    idle.join(PATIENCE_S)
    assert idle.is_kept


check(
    who_may_connect, in_order_with_confirms, properties_as_they_were, callers_get_their_replies, copies_go_to_further_queues,
    exchanges_route, headers_are_asked_for_in_four_ways, prefetch_is_a_consumers_or_a_channels, several_are_settled_at_once,
    what_is_recovered_comes_again, transactions_are_whole, what_goes_nowhere_comes_back, consumers_hear_of_a_queue_that_goes,
    signs_of_life_keep_a_connection,
)
