"""Publishes with pika until the disk is full, with confirms: PORT FILLER. FILLER is a file whose removal makes room again.

The publisher is told that it is blocked, what it has sent waits, its consumer and its acknowledgements go on; once there is room it is told
so, and every message is confirmed and in its queue, in order.
"""

import os
import sys
import time

import pika

port, filler = int(sys.argv[1]), sys.argv[2]
BODY = b"x" * 20_000
LIMIT_S = 60


state = {"sent": 0, "confirmed": 0, "refused": 0, "blocked": None, "unblocked": False, "delivered": [], "at_block": 0, "beside": 0}


def check(is_so, what):
    if not is_so:
        sys.exit(f"not so: {what}: { {**state, 'delivered': len(state['delivered'])} }")


def opened(connection):
    connection.add_on_connection_blocked_callback(lambda _, frame: blocked(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: state.update(unblocked=True))
    connection.channel(on_open_callback=declared)


def blocked(reason):
    check(reason.startswith("low on disk: the disk of "), reason)
    state.update(blocked=reason, at_block=state["sent"])
    connection.channel(on_open_callback=beside)


def beside(channel):
    """While publishers wait, messages of another queue are consumed and acknowledged on the same connection."""

    def take(channel, method, _properties, _body):
        channel.basic_ack(method.delivery_tag)
        state["beside"] += 1
        if state["beside"] == 10:
            connection.ioloop.call_later(1, make_room)

    channel.basic_consume("beside", take)


def make_room():
    check(not state["unblocked"] and state["refused"] == 0, "it waits")
    check(state["sent"] > state["confirmed"], "nothing that waits is confirmed")
    os.remove(filler)


def declared(channel):
    channel.confirm_delivery(confirm)
    channel.queue_declare("beside", durable=True)
    channel.queue_declare("filling", durable=True, callback=lambda _: fill(channel))


def confirm(frame):
    method = frame.method
    if isinstance(method, pika.spec.Basic.Nack):
        state["refused"] += 1
    state["confirmed"] = method.delivery_tag
    if state["unblocked"] and state["confirmed"] == state["sent"]:
        connection.close()


def publish(channel, queue, body):
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))
    state["sent"] += 1


def fill(channel):
    if state["sent"] == 0:
        for number in range(10):
            publish(channel, "beside", b"%d" % number)
    waiting = state["sent"] - state["confirmed"]
    if state["unblocked"]:
        return
    # Twenty more once it is told that it is blocked: they have to wait as well.
    if waiting < 20 or state["blocked"] and state["sent"] < state["at_block"] + 20:
        publish(channel, "filling", b"%08d" % state["sent"] + BODY)
        connection.ioloop.call_later(0, lambda: fill(channel))
    else:
        connection.ioloop.call_later(0.005, lambda: fill(channel))


started = time.monotonic()
connection = pika.SelectConnection(
    pika.ConnectionParameters("127.0.0.1", port),
    on_open_callback=opened,
    on_close_callback=lambda connection, _reason: connection.ioloop.stop(),
)
connection.ioloop.call_later(LIMIT_S, lambda: check(False, f"over within {LIMIT_S} s"))
connection.ioloop.start()
check(state["blocked"] and state["unblocked"] and state["refused"] == 0 and state["beside"] == 10, "all was seen")

reader = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).channel()
left = reader.queue_declare("filling", passive=True).method.message_count
check(left == state["sent"] - 10, f"{left} messages are in the queue")
for number in range(10, state["sent"]):
    body = reader.basic_get("filling", auto_ack=True)[2]
    check(body == b"%08d" % number + BODY, f"message {number}: {body[:8]}")
print(f"blocked after {state['at_block']}, {state['sent']} in all: {state['blocked']}")
print("holds")
