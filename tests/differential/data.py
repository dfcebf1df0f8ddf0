"""The maps and records that generated programs use, what they hold at first, and the same in CPython's model."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pyebpf.types import INTEGERS, S64, U32, U64, Struct, char, field
from tests.differential import model
from tests.differential.arrays import ARRAYS, CONTEXT, WIDE, WIDE_ENTRIES
from tests.differential.core import FIELDS, INPUTS, RESULTS
from tests.differential.model import ModelMap, ModelRecord, ModelTable, ModelText
from tests.differential.strings import TEXT, TEXTS, WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.dsl.module import Module
    from tests.differential.program import Program

__all__ = ["MODELS", "OUTPUTS", "STRUCTS", "Inputs", "Question", "declare", "inputs_of", "model_maps", "used"]

INTERESTING = (0, 1, 2, 7, 63, 64, 255, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
KEPT = 8


def _struct(name: str, fields: Mapping[str, Any]) -> Any:
    annotations, values = {}, {}
    for each, type_ in fields.items():
        annotations[each] = type_ if isinstance(type_, type) else INTEGERS.get(getattr(type_, "name", ""), object)
        if annotations[each] is object:
            values[each] = field(type_)
    return type(name, (Struct,), {"__annotations__": annotations, "__module__": __name__, **values})


def _arrays(fields: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    return {name: INTEGERS[type_][length] for name, (type_, length) in fields.items()}


def _model_arrays(fields: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    return {name: (INTEGERS[type_], length) for name, (type_, length) in fields.items()}


Record: Any = _struct("Record", {name: INTEGERS[type_] for name, type_ in FIELDS.items()})
Two: Any = _struct("Two", {"first": Record, "number": INTEGERS["s64"], "second": Record})
Wide: Any = _struct("Wide", _arrays(WIDE))
Named: Any = _struct("Named", {"number": INTEGERS["u32"], "name": char[TEXT]})
Question: Any = _struct(
    "Question", {"a": INTEGERS["u64"], "b": INTEGERS["s64"], **_arrays(CONTEXT), "name": char[TEXT]}
)
STRUCTS = {"Record": Record, "Two": Two, "Wide": Wide, "Question": Question}


class ModelledRecord(ModelRecord):
    fields: ClassVar = {name: INTEGERS[type_] for name, type_ in FIELDS.items()}


class ModelledTwo(ModelRecord):
    fields: ClassVar = {"first": ModelledRecord, "number": INTEGERS["s64"], "second": ModelledRecord}


class ModelledWide(ModelRecord):
    fields: ClassVar = _model_arrays(WIDE)


class ModelledNamed(ModelRecord):
    fields: ClassVar = {"number": INTEGERS["u32"], "name": None}


class ModelledQuestion(ModelRecord):
    fields: ClassVar = {"a": INTEGERS["u64"], "b": INTEGERS["s64"], **_model_arrays(CONTEXT), "name": None}


MODELS: dict[Any, type[ModelRecord]] = {
    Record: ModelledRecord,
    Two: ModelledTwo,
    Wide: ModelledWide,
    Named: ModelledNamed,
    Question: ModelledQuestion,
}

#: Maps that are compared afterwards: hash tables by the type of a value, whose keys are u32, and arrays with a size.
HASHES: dict[str, Any] = {"counts": U64, "sums": S64, "small": U32, "kept": Record}
SIZED: dict[str, tuple[Any, int]] = {
    "results": (S64, RESULTS),
    **{name: (INTEGERS[type_], size) for name, (type_, size) in ARRAYS.items()},
    "held": (Wide, WIDE_ENTRIES),
    "texts": (Named, TEXTS),
    "twos": (Two, 4),
}
OUTPUTS = (*HASHES, *SIZED, "seen")


def used(program: Program) -> list[str]:
    """The maps among them that a program names."""
    names = set(re.findall(r"\w+", program.text))
    return [name for name in OUTPUTS if name in names]


def declare(bpf: Module) -> dict[str, Any]:
    """The maps that generated programs use."""
    array: Any = bpf.array
    table: Any = bpf.hash
    return {
        "unsigned": array(value=U64, size=INPUTS, name="unsigned"),
        "signed": array(value=S64, size=INPUTS, name="signed"),
        **{name: table(key=U32, value=value, size=64, name=name) for name, value in HASHES.items()},
        **{name: array(value=value, size=size, name=name) for name, (value, size) in SIZED.items()},
        "seen": table(key=char[TEXT], value=U64, size=256, name="seen"),
    }


@dataclass(frozen=True)
class Inputs:
    """What maps hold at first, by their names, and what a syscall program is given."""

    contents: Mapping[str, Mapping[Any, Any]]
    context: Any


def inputs_of(seed: int, names: tuple[str, ...] = OUTPUTS) -> Inputs:
    """Numbers of every size, the ends of the types among them; of the maps `names`, and of those that are only read."""
    chance = random.Random(seed)

    def number() -> int:
        return (
            chance.choice(INTERESTING) if chance.random() < 0.4 else chance.getrandbits(chance.choice((4, 16, 33, 64)))
        )

    def value(type_: Any) -> Any:
        if type_ in MODELS:
            return type_(*(value(each.type) for each in type_.layout.fields))
        if hasattr(type_, "cls"):
            return value(type_.cls)
        if hasattr(type_, "element") and type_.name.startswith("u8"):
            return bytes(number() & 255 for _ in range(type_.length))
        if hasattr(type_, "element"):
            return tuple(value(type_.element) for _ in range(type_.length))
        if type_.name.startswith("char"):
            return chance.choice(WORDS)
        return type_.wrap(number() * chance.choice((1, -1)) if type_.signed else number())

    contents: dict[str, dict[Any, Any]] = {
        "unsigned": {key: value(U64) for key in range(INPUTS)},
        "signed": {key: value(S64) for key in range(INPUTS)},
    }
    context = value(Question)
    for name in names:
        if name in SIZED and name != "results":
            contents[name] = {key: value(SIZED[name][0]) for key in range(SIZED[name][1])}
        elif name == "results":
            contents[name] = dict.fromkeys(range(RESULTS), 0)
        else:
            filled = name == "kept"
            contents[name] = {key: value(Record) for key in range(KEPT) if filled and chance.random() < 0.3}
    return Inputs(contents, context)


def modelled(value: Any) -> Any:
    """A record of the language as one of the model."""
    if isinstance(value, str):
        return ModelText(value)
    if not isinstance(value, Struct):
        return value
    fields = type(value).layout.fields
    return MODELS[type(value)](**{each.name: modelled(getattr(value, each.name)) for each in fields})


def model_maps(inputs: Inputs) -> dict[str, Any]:
    """The maps in the model, with what they hold at first."""
    made: dict[str, Any] = {}
    models: dict[str, Callable[[], Any]] = {
        "unsigned": partial(ModelMap, U32, U64, INPUTS),
        "signed": partial(ModelMap, U32, S64, INPUTS),
        "seen": partial(ModelTable, missing=model.U64),
    }
    for name, entries in inputs.contents.items():
        type_ = HASHES.get(name) or (SIZED[name][0] if name in SIZED else None)
        if name in models:
            made[name] = models[name]()
        else:
            made[name] = ModelTable() if type_ in MODELS else ModelMap(U32, type_)
        for key, value in entries.items():
            made[name][key] = modelled(value)
    return made
