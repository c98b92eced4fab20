"""Leaves messages of every kind in a data directory, and finds them again: `fill` or `verify`, PORT."""

import sys

import pika

COUNT = 200
what, port = sys.argv[1], int(sys.argv[2])
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = connection.channel()
to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
for queue, arguments in {
    "confirmed": {}, "committed": {}, "settled": {}, "copied": {}, "ranked": {"x-max-priority": 5}, "dead": {}, "mortal": to_dead,
    "limited": {"x-queue-type": "quorum"}, "flow": {"x-queue-type": "stream"},
}.items():
    channel.queue_declare(queue, durable=True, arguments=arguments)
channel.exchange_declare("all", "fanout", durable=True)
for queue in ("settled", "copied"):
    channel.queue_bind(queue, "all")


def body(number):
    return f"{number}:{'b' * (number * 37 % 6000)}".encode()


def publish(channel, exchange, key, number):
    # Every other one is transient.
    properties = pika.BasicProperties(delivery_mode=2 - number % 2, priority=number % 6)
    channel.basic_publish(exchange, key, body(number), properties)


def take(queue, numbers):
    for number in numbers:
        method, properties, came = channel.basic_get(queue, auto_ack=True)
        assert method, f"{number} is not in {queue}"
        assert came == body(number), f"{came[:9]} is in {queue} instead of {number}"
        yield properties
    assert channel.basic_get(queue)[0] is None, f"there is more in {queue}"


if what == "fill":
    channel.confirm_delivery()
    for number in range(30):
        publish(channel, "", "confirmed", number)
    transacted = connection.channel()
    transacted.tx_select()
    for number in range(COUNT):
        for queue in ("committed", "ranked", "mortal", "limited", "flow"):
            publish(transacted, "", queue, number)
        publish(transacted, "all", "", number)
        if number % 20 == 19:
            transacted.tx_commit()
    for number in range(COUNT):
        channel.basic_reject(channel.basic_get("mortal")[0].delivery_tag, requeue=False)
    settling = connection.channel()
    for number in range(COUNT // 2):
        settling.basic_ack(settling.basic_get("settled")[0].delivery_tag)
    # One that is settled behind others that are not.
    settling.basic_get("settled")
    settling.basic_ack(settling.basic_get("settled")[0].delivery_tag)
else:
    for queue, numbers in {
        "confirmed": range(30), "committed": range(COUNT), "copied": range(COUNT), "limited": range(COUNT), "mortal": [],
        "settled": [number for number in range(COUNT // 2, COUNT) if number != COUNT // 2 + 1],
        "ranked": sorted(range(COUNT), key=lambda number: (-min(number % 6, 5), number)),
    }.items():
        for _ in take(queue, numbers):
            pass
    for properties in take("dead", range(COUNT)):
        [death] = properties.headers["x-death"]
        assert (death["queue"], death["reason"], death["count"]) == ("mortal", "rejected", 1), death
    channel.basic_qos(prefetch_count=100)
    offset = 0
    for method, properties, came in channel.consume("flow", arguments={"x-stream-offset": "first"}, inactivity_timeout=10):
        assert method, f"{offset} is not in the stream"
        assert (properties.headers["x-stream-offset"], came) == (offset, body(offset))
        channel.basic_ack(method.delivery_tag)
        offset += 1
        if offset == COUNT:
            break
connection.close()
