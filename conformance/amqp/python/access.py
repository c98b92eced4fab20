"""Uses a virtual host with pika as a user: PORT VHOST USER; the password comes by standard input.

Prints `in`, or `out` and why not; then for each line it reads what came of it: `declare QUEUE`, `publish QUEUE`, `get QUEUE`,
`send EXCHANGE KEY`, `bind QUEUE EXCHANGE KEY` and `wait` for the end of the connection.
"""

import sys

import pika

port, host, user = int(sys.argv[1]), sys.argv[2], sys.argv[3]
credentials = pika.PlainCredentials(user, sys.stdin.readline().rstrip("\n"))
try:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, host, credentials))
except pika.exceptions.AMQPConnectionError as error:
    print("out", type(error).__name__, flush=True)
    sys.exit()
print("in", flush=True)
for line in sys.stdin:
    what, queue, *more = line.split() + [""]
    try:
        channel = connection.channel()
        if what == "declare":
            channel.queue_declare(queue, durable=True)
            said = "done"
        elif what == "publish":
            channel.confirm_delivery()
            channel.basic_publish("", queue, b"m", pika.BasicProperties(delivery_mode=2))
            said = "done"
        elif what == "send":
            channel.confirm_delivery()
            channel.basic_publish(queue, more[0], b"m")
            said = "done"
        elif what == "bind":
            channel.queue_bind(queue, *more[:2])
            said = "done"
        elif what == "get":
            method, _, body = channel.basic_get(queue, auto_ack=True)
            said = body.decode() if method else "nothing"
        else:
            connection.process_data_events(time_limit=30)
            said = "still there"
        channel.close()
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker) as error:
        said = f"{error.reply_code} {error.reply_text}"
    print(said, flush=True)
