"""`pyebpf live` with real tools: the page's events have what the kernel saw."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request


def messages(address):
    """The messages of a run, kind and data, until it ends."""
    with urllib.request.urlopen(f"{address}events", timeout=120) as answer:
        kind = ""
        for line in answer:
            name, _, value = line.decode("ascii").rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


def test_opens_of_a_name_with_any_bytes(tmp_path):
    """Each of 23 is a row, with the name escaped as in --json; the signal ends the tool and its messages."""
    path = tmp_path / "\x1b]0;<b>\udcff\\"
    path.write_bytes(b"")
    command = [sys.executable, "-m", "pyebpf", "live", "opensnoop"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().strip()
        found = messages(address)
        assert next(found)[0] == "state"
        for _ in range(23):
            path.read_bytes()
        rows = []
        shown = f"{tmp_path}/\x1b]0;<b>\\xff\\\\"
        for kind, data in found:
            rows += [row for row in data["rows"] if row[-1] == shown] if kind == "events" else []
            if len(rows) == 23:
                process.send_signal(signal.SIGINT)
                rows.append(None)
        assert len(rows) == 24
        assert (kind, data) == ("end", {"reason": "signal", "message": ""})
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == "Tracing open(2)... Hit Ctrl-C to end.\n"
