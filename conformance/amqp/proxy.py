"""Passes connections on and keeps the bytes of both sides: PORT TARGET FOLDER."""

import socket
import sys
import threading

port, target, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def passed(source, sink, path):
    with open(path, "wb") as kept:
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            if not data:
                break
            kept.write(data)
            kept.flush()
            try:
                sink.sendall(data)
            except OSError:
                break
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


listener = socket.create_server(("127.0.0.1", port))
print("ready", flush=True)
number = 0
while True:
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", target))
    for source, sink, side in ((client, server, "client"), (server, client, "server")):
        path = f"{folder}/{number:02}.{side}.bin"
        threading.Thread(target=passed, args=(source, sink, path), daemon=True).start()
    number += 1
