"""Checks with pika what RabbitMQ's users count on: PORT. Says which promise does not hold, and ends with 1 then."""

import sys
import time

import pika

PORT = int(sys.argv[1])


def connect(**more):
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", PORT, **more))


def wait_for(channel, queue, seconds=10):
    """The next message, which may take a moment to come there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method:
            return properties, body
        time.sleep(0.02)
    raise AssertionError(f"nothing came into {queue} within {seconds} s")


def drain(channel, queue, count):
    got = []
    for method, _, body in channel.consume(queue, inactivity_timeout=10):
        assert method, f"{len(got)} of {count} came"
        got.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(got) == count:
            break
    channel.cancel()
    return got


def in_order_with_confirms(channel):
    channel.queue_declare("ordered", durable=True)
    sent = [str(number).encode() for number in range(2000)]
    for body in sent:
        channel.basic_publish("", "ordered", body, pika.BasicProperties(delivery_mode=2))
    channel.basic_qos(prefetch_count=50)
    assert drain(channel, "ordered", len(sent)) == sent


def properties_as_they_were(channel):
    channel.queue_declare("properties")
    headers = {"text": "grüße", "number": -7, "large": 1 << 40, "list": [1, "two", None], "table": {"deep": {"er": True}}}
    sent = pika.BasicProperties(
        content_type="a", content_encoding="b", headers=headers, delivery_mode=1, priority=3, correlation_id="c", reply_to="d",
        message_id="e", timestamp=1700000000, type="f", user_id="guest", app_id="g",
    )
    channel.basic_publish("", "properties", b"x" * 300_000, sent)
    properties, body = wait_for(channel, "properties")
    assert body == b"x" * 300_000 and properties == sent, properties


def dead_letters(channel):
    channel.exchange_declare("graveyard", "topic", durable=True)
    channel.queue_declare("dead", durable=True)
    channel.queue_bind("dead", "graveyard", "#")
    rules = {"x-dead-letter-exchange": "graveyard", "x-dead-letter-routing-key": "gone", "x-message-ttl": 200, "x-max-length": 2}
    channel.queue_declare("mortal", durable=True, arguments=rules)
    channel.basic_publish("", "mortal", b"rejected")
    method, _, _ = channel.basic_get("mortal")
    channel.basic_reject(method.delivery_tag, requeue=False)
    for body in (b"first", b"second", b"third"):
        channel.basic_publish("", "mortal", body)
    deaths = {}
    for _ in range(4):
        properties, body = wait_for(channel, "dead")
        death = properties.headers["x-death"][0]
        assert (death["queue"], death["count"], death["routing-keys"]) == ("mortal", 1, ["mortal"]), death
        deaths[body] = death["reason"]
    assert deaths == {b"rejected": "rejected", b"first": "maxlen", b"second": "expired", b"third": "expired"}, deaths


def returned_and_refused(channel):
    try:
        channel.basic_publish("", "nobody", b"", mandatory=True)
        raise AssertionError("it was not returned")
    except pika.exceptions.UnroutableError:
        pass
    channel.queue_declare("small", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", "small", b"")
    try:
        channel.basic_publish("", "small", b"")
        raise AssertionError("it was not refused")
    except pika.exceptions.NackError:
        pass


def redelivered_at_its_place(channel):
    channel.queue_declare("again")
    for number in range(3):
        channel.basic_publish("", "again", str(number).encode())
    other = channel.connection.channel()
    tags = [other.basic_get("again")[0] for _ in range(2)]
    assert not any(method.redelivered for method in tags)
    other.close()
    got = [channel.basic_get("again", auto_ack=True) for _ in range(3)]
    assert [(method.redelivered, body) for method, _, body in got] == [(True, b"0"), (True, b"1"), (False, b"2")]


def errors_close_the_channel(channel):
    def code_of(act):
        try:
            act(channel.connection.channel())
        except pika.exceptions.ChannelClosedByBroker as error:
            return error.reply_code
        return None

    channel.queue_declare("durable", durable=True)
    assert code_of(lambda other: other.queue_declare("missing", passive=True)) == 404
    assert code_of(lambda other: other.queue_declare("durable", durable=False)) == 406
    assert code_of(lambda other: other.exchange_declare("amq.own", "fanout")) == 403
    assert code_of(lambda other: other.queue_declare("odd", arguments={"x-message-ttl": -1})) == 406
    owner = connect()
    owner.channel().queue_declare("own", exclusive=True)
    assert code_of(lambda other: other.queue_declare("own", passive=True)) == 405
    owner.close()
    assert code_of(lambda other: other.queue_declare("own", passive=True)) == 404


def who_may_connect(_channel):
    for parameters, error in [
        ({"credentials": pika.PlainCredentials("guest", "wrong")}, pika.exceptions.ProbableAuthenticationError),
        ({"virtual_host": "missing"}, pika.exceptions.ProbableAccessDeniedError),
    ]:
        try:
            connect(**parameters)
            raise AssertionError(f"{parameters} were let in")
        except error:
            pass


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


def idle_with_heartbeats(_channel):
    connection = connect(heartbeat=1)
    connection.sleep(4)
    connection.channel().queue_declare("after-a-while")
    connection.close()


for promise in [
    in_order_with_confirms, properties_as_they_were, dead_letters, returned_and_refused, redelivered_at_its_place,
    errors_close_the_channel, who_may_connect, consumers_hear_of_a_queue_that_goes, idle_with_heartbeats,
]:
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        promise(channel)
    except Exception as error:
        print(f"{promise.__name__}: {type(error).__name__}: {error}")
        sys.exit(1)
    connection.close()
    print(f"{promise.__name__}: holds", flush=True)
