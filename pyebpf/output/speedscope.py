"""Stacks as a file for https://www.speedscope.app, by its schema "file-format-schema.json"."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyebpf.output.escape import json_text
from pyebpf.output.stacks import function_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(stacks: Mapping[tuple[str, ...], int], *, name: str, unit: str = "none") -> str:
    """JSON text of one sampled profile: stacks are tuples of names, outermost first, with their weights.

    `unit` is that of the weights: "none" for counts, or "nanoseconds", "microseconds", "milliseconds", "seconds",
    "bytes". Bytes of names that are no text are written as their numbers, as in all JSON of the tools.
    """
    name = json_text(name)
    frames: dict[str, int] = {}
    samples, weights = [], []
    for stack, weight in sorted(stacks.items(), key=lambda item: (-item[1], item[0])):
        samples.append([frames.setdefault(json_text(frame), len(frames)) for frame in stack])
        weights.append(weight)
    profile = {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    document = {
        "$schema": _SCHEMA,
        "exporter": "pyebpf",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(frame) for frame in frames]},
        "profiles": [profile],
    }
    return json.dumps(document, separators=(",", ":"))


def _frame(shown: str) -> dict[str, object]:
    """A frame, with its file and line where its name has them."""
    name, file, line = function_of(shown)
    return {"name": name, "file": file, "line": line} if line else {"name": name}
