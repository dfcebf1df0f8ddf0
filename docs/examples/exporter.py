"""A Prometheus exporter: how many bytes read(2) returns, by process name, at http://127.0.0.1:PORT/metrics."""

import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer

from pyebpf import BPF, char, comm
from pyebpf.output.histogram import Histogram

if len(sys.argv) != 2:
    sys.exit("usage: exporter.py PORT")
bpf = BPF()
sizes = bpf.log2_hist(key=char[16], unit="bytes", sums=True)
LARGEST = 1 << 20  # the same buckets in each answer: those up to this bound, and one for all


@bpf.tracepoint("syscalls:sys_exit_read")
def on_read(ret: int) -> None:
    if ret >= 0:
        sizes[comm()].add(ret)


def metrics(name: str, histograms: Mapping[str, Histogram]) -> str:
    lines = [f"# TYPE {name} histogram"]
    for process, histogram in histograms.items():
        text = process.encode(errors="replace").decode().replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        label, so_far = f'comm="{text}"', 0
        for bucket in histogram.buckets:
            so_far += bucket.count
            if bucket.high is not None and 0 <= bucket.high < LARGEST:  # `high` belongs to the bucket, as `le` does
                lines.append(f'{name}_bucket{{{label},le="{bucket.high}"}} {so_far}')
        lines.append(f'{name}_bucket{{{label},le="+Inf"}} {histogram.total}')
        lines.append(f"{name}_sum{{{label}}} {histogram.sum}")
        lines.append(f"{name}_count{{{label}}} {histogram.total}")
    return "\n".join(lines) + "\n"


class Answer(BaseHTTPRequestHandler):
    """Answers each request with the metrics."""

    def do_GET(self) -> None:
        body = metrics("read_bytes", sizes.snapshot()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


with bpf, HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer) as server:
    print(f"http://127.0.0.1:{server.server_port}/metrics", flush=True)
    server.serve_forever()
