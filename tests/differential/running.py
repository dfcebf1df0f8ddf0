"""One generated program, several ways: by CPython over the model, by the IR evaluator, and compiled."""

from __future__ import annotations

import ast
import linecache
from typing import TYPE_CHECKING, Any

from pyebpf.builder.drop_counters import DropCounters
from pyebpf.dsl.module import Module
from pyebpf.module.program import build_program
from pyebpf.types import INTEGERS
from tests.differential.data import (
    MODELS,
    OUTPUTS,
    STRUCTS,
    Inputs,
    Question,
    declare,
    inputs_of,
    model_maps,
    modelled,
    used,
)
from tests.differential.evaluation import Maps
from tests.differential.model import ModelText, names, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.compiler import ir
    from pyebpf.module.probe import Probe
    from pyebpf.specs import MapSpec
    from pyebpf.target import Target
    from tests.differential.program import Program

__all__ = [
    "OUTPUTS",
    "Inputs",
    "Outcome",
    "build",
    "by_cpython",
    "by_evaluator",
    "declare",
    "fill",
    "inputs_of",
    "outcome",
    "raw_context",
    "used",
]

#: What a program leaves: the entries of each map that it names; of a syscall program its record and its result.
Outcome = dict[str, dict[Any, Any]]

#: A raw tracepoint's arguments, of which programs read none.
_NO_ARGUMENTS = bytes(96)


def build(program: Program, target: Target) -> tuple[ir.Module, Mapping[str, MapSpec]]:
    """The program's IR, and the maps it may use."""
    bpf = Module()
    maps = declare(bpf)
    types = {name: type_ for name, type_ in INTEGERS.items() if name != "bool"}
    namespace = {**types, **maps, **STRUCTS, "subprogram": bpf.subprogram}
    file = f"<random {program.seed}>"
    text = program.text
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        exec(compile(text, file, "exec", dont_inherit=True), namespace)
        decorator: Any = bpf.syscall(Question) if program.called else bpf.raw_tracepoint("sched_switch")
        made: Probe[Any, Any] = decorator(namespace["probe"])
        built = build_program(made.body, made.attachments[0], target, DropCounters(), "probe")
    finally:
        del linecache.cache[file]
    specs = {each.spec.name: each.spec for each in maps.values()} | built.maps
    return built.module, specs


def raw_context(program: Program, inputs: Inputs) -> bytes:
    """What a program is given as its context."""
    return bytes(Question.layout.encode(inputs.context)) if program.called else _NO_ARGUMENTS


def outcome(program: Program, maps: Mapping[str, Any], context: bytes | Any = b"", returned: int = 0) -> Outcome:
    """What is in the maps that a program names, and what it gave back."""
    found = {name: {plain(key): plain(value) for key, value in sorted(maps[name].items())} for name in used(program)}
    if program.called:
        record = Question.layout.decode(context) if isinstance(context, bytes) else context
        found["context"] = {0: plain(record)}
        found["returned"] = {0: (returned & 0xFFFF_FFFF ^ 1 << 31) - (1 << 31)}
    return found


def fill(maps: Mapping[str, Any], inputs: Inputs) -> None:
    """Give maps what they hold at first."""
    for name, entries in inputs.contents.items():
        if name in maps:
            if name not in ("unsigned", "signed"):
                maps[name].clear()
            if entries:
                maps[name].update(entries)


def _with_model_texts(tree: ast.Module) -> ast.Module:
    """Literal texts that are given names as the model's, which have a NUL where Python's have no character."""
    for node in ast.walk(tree):  # a visitor would reach Python's recursion limit in deep trees
        for place in ("value", "body", "orelse") if isinstance(node, ast.Assign | ast.IfExp) else ():
            literal = getattr(node, place, None)
            if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                setattr(node, place, ast.parse(f"ModelText({literal.value!r})", mode="eval").body)
    return tree


def by_cpython(program: Program, inputs: Inputs) -> Outcome:
    """What CPython computes with the model's numbers."""
    maps = model_maps(inputs)
    structs = {name: MODELS[struct] for name, struct in STRUCTS.items()}
    namespace = {"ModelText": ModelText, **names(), **maps, **structs, "subprogram": lambda function: function}
    tree = _with_model_texts(ast.parse(program.text))
    exec(compile(tree, f"<model {program.seed}>", "exec", dont_inherit=True), namespace)
    if not program.called:
        namespace["probe"]()
        return outcome(program, {name: each.entries for name, each in maps.items()})
    context = modelled(inputs.context)
    returned = namespace["probe"](context)
    return outcome(program, {name: each.entries for name, each in maps.items()}, context, returned)


def by_evaluator(program: Program, module: ir.Module, specs: Mapping[str, MapSpec], inputs: Inputs) -> Outcome:
    """What the evaluator computes from the IR."""
    maps = Maps(specs)
    for name, entries in inputs.contents.items():
        for key, value in entries.items():
            maps.set(name, key, value)
    returned, context = maps.run_in(module, raw_context(program, inputs))
    return outcome(program, {name: maps.read(name) for name in specs}, context, returned)
