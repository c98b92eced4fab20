"""Keeps books of messages with pika.

    produce PORT QUEUE    persistent messages with confirms, a number each; prints each number that is confirmed, until it cannot
    acknowledge PORT QUEUE   consumes, and acknowledges nine of ten, until it cannot; prints each number as `given`, as `sent` before it is
                          acknowledged, and when the broker has that
    drain PORT QUEUE      takes all there is; prints a number each, and whether it was delivered before
"""

import sys
import time

import pika

what, port, queue = sys.argv[1], int(sys.argv[2]), sys.argv[3]
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = connection.channel()
channel.queue_declare(queue, durable=True)
if what == "produce":
    channel.confirm_delivery()
    number = 0
    while True:
        channel.basic_publish("", queue, str(number).encode(), pika.BasicProperties(delivery_mode=2))
        print(number, flush=True)
        number += 1
elif what == "acknowledge":
    channel.basic_qos(prefetch_count=1000)
    sent = []
    for method, _, body in channel.consume(queue, inactivity_timeout=10):
        if method is None:
            break
        print(body.decode(), "given", flush=True)
        if int(body) % 10 == 0:
            continue
        print(body.decode(), "sent", flush=True)
        channel.basic_ack(method.delivery_tag)
        sent.append(body.decode())
        if len(sent) == 25:
            # Answered behind the acknowledgements.
            channel.queue_declare(queue, passive=True)
            now = time.time()
            for number in sent:
                print(number, now, flush=True)
            sent.clear()
elif what == "drain":
    while (got := channel.basic_get(queue, auto_ack=True))[0]:
        print(got[2].decode(), int(got[0].redelivered))
else:
    sys.exit(__doc__)
