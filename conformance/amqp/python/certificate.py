"""Connects with pika by a certificate alone: PORT CA CERTIFICATE KEY. Says as whom, or why not."""

import ssl
import sys

import pika

port, authority, certificate, key = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
context.load_cert_chain(certificate, key)
parameters = pika.ConnectionParameters(
    "127.0.0.1", int(port), ssl_options=pika.SSLOptions(context), credentials=pika.credentials.ExternalCredentials()
)
try:
    connection = pika.BlockingConnection(parameters)
except pika.exceptions.ProbableAuthenticationError as error:
    print("refused:", error)
    sys.exit()
channel = connection.channel()
channel.confirm_delivery()
queue = channel.queue_declare("", exclusive=True).method.queue
channel.basic_publish("", queue, b"by certificate", pika.BasicProperties(user_id="guest"))
print("let in:", channel.basic_get(queue, auto_ack=True)[2].decode())
connection.close()
