"""Stacks for the Firefox Profiler, https://profiler.firefox.com: its processed profile format, version 48.

The profiler upgrades files of older versions. Stacks that were counted have no times of their own: a thread's samples
follow each other, the most frequent first, each with its weight. So the call tree and the flame graph mean something,
and the order along the time axis does not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyebpf.output.escape import json_text
from pyebpf.output.stacks import entries, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.output.stack_files import Recording
    from pyebpf.output.stacks import Entry, Stack

_GECKO_VERSION, _PROCESSED_VERSION = 27, 48
_NANOSECONDS_A_MILLISECOND = 1e6
#: Names and colours; the first is for what is no function, and grey, as the format wants one.
_CATEGORIES = (("Other", "grey"), ("User", "yellow"), ("Kernel", "orange"), ("JIT", "green"))
_CATEGORY = {"mark": 0, "user": 1, "kernel": 2, "jit": 3}
_LIBRARY = 1  # the type of a resource
#: How long one unit of time is, in milliseconds; the weights of "tracing-ms" are in these.
_MILLISECONDS = {"nanoseconds": 1e-6, "microseconds": 1e-3, "milliseconds": 1.0, "seconds": 1e3}


def firefox(stacks: Sequence[Stack], recording: Recording) -> str:
    """JSON text with a thread for each process and thread name, those with most of it first."""
    threads: dict[tuple[int, str], _Thread] = {}
    unit = recording.quantity[1]
    scale = _MILLISECONDS.get(unit)
    for stack in sorted(merged(stacks), key=lambda stack: -stack.count):
        key = stack.pid or 0, json_text(stack.comm)
        thread = threads.get(key)
        if thread is None:
            thread = threads[key] = _Thread()
        thread.sample(entries(stack), stack.count if scale is None else stack.count * scale)
    interval = 1.0 if recording.period is None else recording.period / _NANOSECONDS_A_MILLISECOND
    weight_type = "tracing-ms" if scale is not None else "bytes" if unit == "bytes" else "samples"
    seen: set[int] = set()
    done = []
    for number, ((pid, name), thread) in enumerate(sorted(threads.items(), key=lambda item: -item[1].total)):
        done.append(thread.tables(interval, weight_type) | _identity(pid, name, number, main=pid not in seen))
        seen.add(pid)
    meta = {
        "product": json_text(recording.title),
        "interval": interval,
        "startTime": recording.start / _NANOSECONDS_A_MILLISECOND,
        "processType": 0,
        "stackwalk": 1,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": _PROCESSED_VERSION,
        "symbolicated": True,
        "importedFrom": "pyebpf",
        "categories": [{"name": name, "color": colour, "subcategories": ["Other"]} for name, colour in _CATEGORIES],
        "markerSchema": [],
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
    }
    return json.dumps({"meta": meta, "libs": [], "pages": [], "threads": done}, separators=(",", ":"))


def _identity(pid: int, name: str, number: int, *, main: bool) -> dict[str, Any]:
    return {
        "processType": "default",
        "processName": name,
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": name,
        "isMainThread": main,
        "pid": str(pid),
        "tid": number,
    }


class _Thread:
    """The tables of a thread, which refer to each other by index. Stacks are a tree: each node has its caller's."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.resources: dict[str, int] = {}
        self.functions: dict[tuple[str, str, str], int] = {}  # by name, module and source file
        self.frames: dict[tuple[int, int, int], int] = {}  # by function, category and line
        self.nodes: dict[tuple[int | None, int], int] = {}  # by the caller's node and frame
        self.stacks: list[int | None] = []
        self.weights: list[float] = []
        self.total = 0.0

    def sample(self, path: Sequence[Entry], weight: float) -> None:
        node: int | None = None
        for entry in path:
            name, file, line = entry.function
            key = json_text(name), entry.module, json_text(file)
            function = self.functions.setdefault(key, len(self.functions))
            frame = self.frames.setdefault((function, _CATEGORY[entry.kind], line), len(self.frames))
            node = self.nodes.setdefault((node, frame), len(self.nodes))
        self.stacks.append(node)
        self.weights.append(weight)
        self.total += weight

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def resource(self, module: str) -> int:
        return self.resources.setdefault(module, len(self.resources)) if module else -1

    def tables(self, interval: float, weight_type: str) -> dict[str, Any]:
        count = len(self.stacks)
        categories = [category for _, category, _ in self.frames]
        tables: dict[str, Any] = {
            "samples": {
                "stack": self.stacks,
                "time": [index * interval for index in range(count)],
                "weight": self.weights,
                "weightType": weight_type,
                "length": count,
            },
            "markers": _table(data=[], name=[], startTime=[], endTime=[], phase=[], category=[]),
            "stackTable": _table(
                frame=[frame for _, frame in self.nodes],
                prefix=[caller for caller, _ in self.nodes],
                category=[categories[frame] for _, frame in self.nodes],
                subcategory=[0] * len(self.nodes),
            ),
            "frameTable": self.frame_table(categories),
            "funcTable": self.function_table(),
        }
        names = [self.string(json_text(module.rpartition("/")[2] or module)) for module in self.resources]
        nothing = [None] * len(names)
        tables["resourceTable"] = _table(lib=nothing, name=names, host=nothing, type=[_LIBRARY] * len(names))
        tables["nativeSymbols"] = _table(libIndex=[], address=[], name=[], functionSize=[])
        tables["stringArray"] = list(self.strings)
        return tables

    def frame_table(self, categories: list[int]) -> dict[str, Any]:
        count = len(categories)
        nothing = [None] * count
        return _table(
            address=[-1] * count,
            inlineDepth=[0] * count,
            category=categories,
            subcategory=[0] * count,
            func=[function for function, _, _ in self.frames],
            nativeSymbol=nothing,
            innerWindowID=[0] * count,
            implementation=nothing,
            line=[line or None for _, _, line in self.frames],
            column=nothing,
        )

    def function_table(self) -> dict[str, Any]:
        count = len(self.functions)
        nothing = [None] * count
        return _table(
            isJS=[False] * count,
            relevantForJS=[False] * count,
            name=[self.string(name) for name, _, _ in self.functions],
            resource=[self.resource(module) for _, module, _ in self.functions],
            fileName=[self.string(file) if file else None for _, _, file in self.functions],
            lineNumber=nothing,
            columnNumber=nothing,
        )


def _table(**columns: list[Any]) -> dict[str, Any]:
    """Columns with their length beside them."""
    return {**columns, "length": len(next(iter(columns.values())))}
