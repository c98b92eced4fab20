"""Keeps books of messages with pika.

    produce PORT QUEUE    persistent messages with confirms, a number each; prints each number that is confirmed, until it cannot
    settle PORT QUEUE N   consumes, and acknowledges the first N; prints each number that it has acknowledged
    acknowledge PORT QUEUE   consumes and acknowledges, until it cannot; prints each number as `sent`, and when the broker has that
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
elif what == "settle":
    channel.basic_qos(prefetch_count=10)
    left = int(sys.argv[4])
    for method, _, body in channel.consume(queue, inactivity_timeout=10):
        if method is None or left == 0:
            break
        channel.basic_ack(method.delivery_tag)
        print(body.decode(), flush=True)
        left -= 1
    # Answered behind the last acknowledgement.
    channel.queue_declare(queue, passive=True)
elif what == "acknowledge":
    channel.basic_qos(prefetch_count=50)
    told = []
    for method, _, body in channel.consume(queue, inactivity_timeout=10):
        if method is None:
            break
        print(body.decode(), "sent", flush=True)
        channel.basic_ack(method.delivery_tag)
        told.append(body.decode())
        if len(told) == 25:
            # Answered behind the acknowledgements.
            channel.queue_declare(queue, passive=True)
            now = time.time()
            for number in told:
                print(number, now, flush=True)
            told.clear()
elif what == "drain":
    for method, _, body in channel.consume(queue, inactivity_timeout=2, auto_ack=True):
        if method is None:
            break
        print(body.decode(), int(method.redelivered))
else:
    sys.exit(__doc__)
