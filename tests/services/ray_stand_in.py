#!/usr/bin/env python3
"""A stand-in for the ``ray`` command: a head that counts the nodes which join it, and says so; other flags end it."""

import os
import pathlib
import socket
import sys
import threading

command, *words = sys.argv[1:]
flags = dict(word.removeprefix("--").partition("=")[::2] for word in words)
node = os.environ["SLURMD_NODENAME"]
HEAD = {"head", "node-ip-address", "port", "include-dashboard", "disable-usage-stats"}


def ask(text: str) -> socket.socket:
    host, _, port = flags["address"].partition(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(text.encode() + b"\n")
    return connection


def attend(connection: socket.socket, nodes: list[str]) -> None:
    word, _, name = connection.recv(200).decode().strip().partition(" ")
    if word == "join":
        nodes.append(name)
        connection.recv(1)
        nodes.remove(name)
    elif word == "status":
        listed = "".join(f" 1 node_{name}\n" for name in nodes)
        connection.sendall(
            f"Node status\nActive:\n{listed}Pending:\n (no pending nodes)\n".encode()
        )
    connection.close()


def head() -> None:
    nodes = [node]
    server = socket.create_server((flags["node-ip-address"], int(flags["port"])))
    if os.fork():
        os._exit(0)
    os.setsid()
    while True:
        connection, _ = server.accept()
        threading.Thread(target=attend, args=(connection, nodes), daemon=True).start()


if command == "start" and "head" in flags:
    assert set(flags) == HEAD, flags
    head()
elif command == "start":
    assert set(flags) == {"address", "block"}, flags
    joined = ask(f"join {node}")
    (pathlib.Path(os.environ["NOTES"]) / f"ray-{node}").write_text(flags["address"])
    joined.settimeout(None)
    joined.recv(1)
    sys.exit(1)
elif command == "status":
    answer = ask("status")
    while said := answer.recv(4096):
        sys.stdout.write(said.decode())
