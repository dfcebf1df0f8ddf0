"""A tool as a library: the bytes of this program's own TCP sessions. No signal handlers, no global state."""

import os
import socket
from itertools import islice

from pyebpf.programs import tcplife

with (
    tcplife.open(pid=os.getpid()) as sessions,  # attached from here to the end of the block
    socket.create_server(("127.0.0.1", 0)) as listener,
):
    with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
        client.sendall(b"request")
        server.sendall(server.recv(7) * 3)
        client.recv(21)
    for session in islice(sessions, 2):  # typed records; each end is one
        print(f"{session.local_port} sent {session.sent} and received {session.received} bytes")
