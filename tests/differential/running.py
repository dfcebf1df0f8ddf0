"""One generated program, three ways: by CPython over the model, by the IR evaluator, and compiled."""

from __future__ import annotations

import linecache
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyebpf.builder.lost import LossTable
from pyebpf.dsl.module import Module
from pyebpf.dsl.programs import build_program
from pyebpf.types import INTEGERS, S64, U32, U64, Struct
from tests.differential.evaluation import Maps
from tests.differential.generator import FIELDS, INPUTS, RESULTS, Program
from tests.differential.model import ModelMap, ModelRecord, names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.compiler import ir
    from pyebpf.dsl.probe import Probe
    from pyebpf.specs import MapSpec
    from pyebpf.target import Target

__all__ = ["OUTPUTS", "Inputs", "Outcome", "build", "by_cpython", "by_evaluator", "declare", "inputs_of"]

#: Every integer map that a program leaves something in.
OUTPUTS = ("results", "counts", "sums", "small")
INTERESTING = (0, 1, 2, 7, 63, 64, 255, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)

Outcome = dict[str, dict[int, int]]


@dataclass(frozen=True)
class Inputs:
    """What `unsigned` and `signed` hold."""

    unsigned: tuple[int, ...]
    signed: tuple[int, ...]


def inputs_of(seed: int) -> Inputs:
    """Numbers of every size, the ends of the types among them."""
    chance = random.Random(seed)

    def number() -> int:
        return (
            chance.choice(INTERESTING) if chance.random() < 0.4 else chance.getrandbits(chance.choice((4, 16, 33, 64)))
        )

    return Inputs(
        tuple(number() for _ in range(INPUTS)),
        tuple(INTEGERS["s64"].wrap(number() * chance.choice((1, -1))) for _ in range(INPUTS)),
    )


def declare(bpf: Module) -> dict[str, Any]:
    """The maps that generated programs use."""
    return {
        "unsigned": bpf.array(value=U64, size=INPUTS, name="unsigned"),  # type: ignore[arg-type]  # a Type is one
        "signed": bpf.array(value=S64, size=INPUTS, name="signed"),  # type: ignore[arg-type]  # as above
        "results": bpf.array(value=S64, size=RESULTS, name="results"),  # type: ignore[arg-type]  # as above
        "counts": bpf.hash(key=U32, value=U64, size=64, name="counts"),  # type: ignore[arg-type]  # as above
        "sums": bpf.hash(key=U32, value=S64, size=64, name="sums"),  # type: ignore[arg-type]  # as above
        "small": bpf.hash(key=U32, value=U32, size=64, name="small"),  # type: ignore[arg-type]  # as above
    }


Record: Any = type(
    "Record",
    (Struct,),
    {"__annotations__": {name: INTEGERS[type_] for name, type_ in FIELDS.items()}, "__module__": __name__},
)


class CPythonRecord(ModelRecord):
    """The same record in the model."""

    fields: ClassVar = {name: INTEGERS[type_] for name, type_ in FIELDS.items()}


def build(program: Program, target: Target) -> tuple[ir.Module, Mapping[str, MapSpec]]:
    """The program's IR, and the maps it may use."""
    bpf = Module()
    maps = declare(bpf)
    types = {name: type_ for name, type_ in INTEGERS.items() if name != "bool"}
    namespace = {**types, **maps, "Record": Record, "subprogram": bpf.subprogram}
    file = f"<random {program.seed}>"
    linecache.cache[file] = (len(program.text), None, program.text.splitlines(keepends=True), file)
    exec(compile(program.text, file, "exec", dont_inherit=True), namespace)
    made: Probe[Any, Any] = bpf.raw_tracepoint("sched_switch")(namespace["probe"])
    built = build_program(made, made.attachments[0], target, LossTable(), "probe")
    specs = {each.spec.name: each.spec for each in maps.values()} | built.maps
    return built.module, specs


def by_cpython(program: Program, inputs: Inputs) -> Outcome:
    """What CPython computes with the model's numbers."""
    maps = {
        "unsigned": ModelMap(U32, U64, INPUTS),
        "signed": ModelMap(U32, S64, INPUTS),
        "results": ModelMap(U32, S64, RESULTS),
        "counts": ModelMap(U32, U64),
        "sums": ModelMap(U32, S64),
        "small": ModelMap(U32, U32),
    }
    for number in range(INPUTS):
        maps["unsigned"][number] = inputs.unsigned[number]
        maps["signed"][number] = inputs.signed[number]
    namespace = {**names(), **maps, "Record": CPythonRecord, "subprogram": lambda function: function}
    exec(compile(program.text, f"<model {program.seed}>", "exec", dont_inherit=True), namespace)
    namespace["probe"]()
    return {name: dict(sorted(maps[name].entries.items())) for name in OUTPUTS}


def by_evaluator(module: ir.Module, specs: Mapping[str, MapSpec], inputs: Inputs) -> Outcome:
    """What the evaluator computes from the IR."""
    maps = Maps(specs)
    for number in range(INPUTS):
        maps.set("unsigned", number, inputs.unsigned[number])
        maps.set("signed", number, inputs.signed[number])
    maps.run(module)
    return {name: dict(sorted(maps.read(name).items())) for name in OUTPUTS}
