"""What the programs that check promises with pika have in common. Each is told PORT, and ends with 1 at the first promise that does not hold."""

import sys
import time

import pika
from pika import BasicProperties as Properties
from pika.exceptions import ChannelClosedByBroker

PORT = int(sys.argv[1])
PATIENCE_S = 15


def connect(**more):
    return pika.BlockingConnection(pika.ConnectionParameters(**{"host": "127.0.0.1", "port": PORT} | more))


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

    eventually(f"{count} messages in {queue}", is_there)
    assert channel.basic_get(queue)[0] is None, "no more than these"
    return taken


def bodies(channel, queue, count):
    return [body for body, _, _ in take(channel, queue, count)]


def get(channel, queue):
    """The next message, not acknowledged."""
    found = []
    eventually(f"one in {queue}", lambda: found.append(channel.basic_get(queue)) or found[-1][0])
    return found[-1]


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


def exists(channel, queue):
    code = code_of(channel, lambda other: other.queue_declare(queue, passive=True))
    assert code in (None, 404, 405), code
    return code != 404


class Consumer:
    """Takes messages of a queue by a connection of its own."""

    def __init__(self, queue, prefetch=0, **more):
        self.connection = connect()
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.got, self.tags, self.headers = [], [], []
        self.tag = self.channel.basic_consume(queue, self.take, **more)

    def take(self, _channel, method, properties, body):
        self.got.append(body.decode())
        self.tags.append(method.delivery_tag)
        self.headers.append(properties.headers)

    def look(self, seconds=0.2):
        self.connection.process_data_events(time_limit=seconds)
        return self.got

    def close(self):
        self.connection.close()


def check(*promises):
    for promise in promises:
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
