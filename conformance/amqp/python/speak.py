"""Says with pika what there is to say: PORT."""

import sys
from decimal import Decimal

import pika
from pika.exchange_type import ExchangeType

connection = pika.BlockingConnection(
    pika.ConnectionParameters(
        "127.0.0.1", int(sys.argv[1]), heartbeat=1, frame_max=8192, client_properties={"connection_name": "pika says all"}
    )
)
channel = connection.channel()
for kind in ExchangeType:
    channel.exchange_declare(f"e.{kind.value}", kind, durable=True, arguments={"alternate-exchange": "amq.fanout"})
channel.exchange_declare("e.direct", passive=True)
channel.exchange_bind("e.topic", "e.direct", "a.#", arguments={"x": 1})
channel.exchange_unbind("e.topic", "e.direct", "a.#", arguments={"x": 1})
arguments = {"x-message-ttl": 60000, "x-max-length": 10, "x-dead-letter-exchange": "e.fanout", "x-max-priority": 5}
channel.queue_declare("q", durable=True, arguments=arguments)
own = channel.queue_declare("", exclusive=True, auto_delete=True).method.queue
channel.queue_bind("q", "e.topic", "a.*")
channel.queue_bind("q", "e.headers", arguments={"x-match": "any", "colour": "red"})
channel.queue_unbind("q", "e.topic", "a.*")
channel.queue_bind("q", "e.topic", "a.*")
properties = pika.BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={
        "bool": True,
        "int": 7,
        "negative": -7,
        "large": 1 << 40,
        "decimal": Decimal("3.14"),
        "text": "grüße",
        "bytes": b"\x00\xff",
        "list": [1, "two", None, {"three": 3}],
        "table": {"inside": {"deep": True}},
        "nothing": None,
    },
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=1700000000,
    type="t",
    user_id="guest",
    app_id="a",
)
channel.basic_qos(prefetch_count=10)
channel.basic_publish("e.topic", "a.b", b"x" * 20_000, properties)
channel.basic_publish("", "q", b"")
channel.confirm_delivery()
channel.basic_publish("e.topic", "a.b", b"confirmed", mandatory=True)
try:
    channel.basic_publish("", "nowhere", b"comes back", mandatory=True)
except pika.exceptions.UnroutableError:
    pass
method, _, _ = channel.basic_get("q")
channel.basic_reject(method.delivery_tag, requeue=True)
channel.basic_get(own)
got = []


def take(channel, method, properties, body):
    got.append(body)
    if len(got) == 1:
        channel.basic_nack(method.delivery_tag, requeue=True)
    elif len(got) == 4:
        channel.basic_ack(method.delivery_tag, multiple=True)
        channel.stop_consuming()


channel.basic_consume("q", take, arguments={"x-priority": 2})
channel.start_consuming()
channel.basic_recover(requeue=True)
transacted = connection.channel()
transacted.tx_select()
transacted.basic_publish("", "q", b"in a transaction")
transacted.tx_commit()
transacted.basic_publish("", "q", b"not at all")
transacted.tx_rollback()
transacted.close()
broken = connection.channel()
try:
    broken.queue_declare("missing", passive=True)
except pika.exceptions.ChannelClosedByBroker:
    pass
connection.sleep(1.5)
channel.queue_purge("q")
channel.queue_delete("q")
for kind in ExchangeType:
    channel.exchange_delete(f"e.{kind.value}")
connection.close()
