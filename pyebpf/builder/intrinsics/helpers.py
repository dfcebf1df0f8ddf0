"""Kernel helpers called by their own names, with the C prototypes of linux/bpf.h.

An argument is what its C type asks for: a map, the context, a record, string or array where C has a pointer, an
integer where C has one. What comes back is an s64 or u64 by the C type of the result. What no plain call can express
(callbacks, locks, objects that must be given back) is refused with what to write instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from pyebpf.builder.available import need_helper
from pyebpf.builder.context import Context
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.arrays import KeptBytes
from pyebpf.builder.values.entity import Entity, RunTimeValue, describe
from pyebpf.builder.values.integers import Int, read_int
from pyebpf.builder.values.kernel_objects import KernelReference, address_as_int
from pyebpf.builder.values.lvalue import Lvalue, moved, write_bytes
from pyebpf.builder.values.operations import fits, rvalue, to_int
from pyebpf.builder.values.optional import OptionalInt
from pyebpf.builder.values.packet_bounds import MOVES, invalidate_packet_pointers
from pyebpf.builder.values.pointers import Pointer
from pyebpf.builder.values.references import Reference, note_change
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.errors import OnlyInProbe
from pyebpf.specs import MapSpec
from pyebpf.types import INTEGERS, S64, U32, U64, BytesType, IntType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_RDONLY_PROG
from pyebpf.uapi.helpers import Helper, helper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

#: C's integer types, as parameters and results.
_INTEGERS: dict[str, IntType] = {
    **{name: INTEGERS[name] for name in ("u16", "u32", "u64", "s32", "s64")},
    "long": S64,
    "int": INTEGERS["s32"],
    "size_t": U64,
    "__be16": INTEGERS["u16"],
    "__wsum": INTEGERS["u32"],
}

#: Parameters whose pointer is an address that the helper itself checks: a number will do.
_ADDRESSES = {"unsafe_ptr", "user_ptr"}
#: Parameters that the verifier wants to know the text of (ARG_PTR_TO_CONST_STR): it stands in a frozen map.
_CONSTANT_TEXTS = {("strncmp", "s2"), ("snprintf", "fmt")}
#: Parameters that the kernel declares as `void *` and that are maps.
_MAPS = {"ringbuf", "map"}

#: Objects that the verifier tracks by themselves.
_TRACKED = {
    "struct bpf_dynptr": "dynptrs, which have functions of their own: dynptr(…), ring.reserve(…)",
    "struct bpf_spin_lock": "spin locks, which are held by `with entry.lock:`",
    "struct bpf_timer": "timers, which are started by entry.timer.start(…)",
}

#: Replacements for helpers whose result or effect no plain call can express.
_INSTEAD = {
    "trace_printk": "it prints to a log that all programs share: emit a record to a ring buffer",
    "tail_call": "write a function and decorate it with @bpf.subprogram",
    "ringbuf_reserve": "write ring.emit(Record(…))",
    "ringbuf_submit": "write ring.emit(Record(…))",
    "ringbuf_discard": "write ring.emit(Record(…)) under an `if`",
    "loop": "write a `for` loop, or loop(n, function)",
    "for_each_map_elem": "write table.for_each(function)",
}

#: Where a name ends with one of these, the parameter is the size of the memory before it.
_SIZE = re.compile(r"(size|len|sz)$|^size_of_")


class HelperFunction(Entity):
    """`helpers.NAME`: called in a probe, one call of that helper."""

    def __init__(self, name: str) -> None:
        self.helper = helper(name)
        self.__name__ = self.helper.name
        gpl = " Only for programs under the GPL, as they are by default." if self.helper.gpl_only else ""
        self.__doc__ = f"{self.helper}: helper {self.helper.id} of the kernel, inside probes.{gpl}"

    def __call__(self, *_arguments: object, **_keywords: object) -> Any:
        """Refuse: only a probe can call it."""
        raise OnlyInProbe(f"helpers.{self.helper.name}() is called inside a probe, on each event")

    def __repr__(self) -> str:
        return f"<helper {self.helper}>"

    def describe(self) -> str:
        return f"the helper {self.helper.name}"

    def call(self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]) -> object:
        called = self.helper
        _refuse_unfit(p, called)
        given = _bind(p, called, arguments, keywords)
        need_helper(p, called.name, f"helpers.{called.name}()", str(called))
        if called.name in _USER_READS:
            p.program_context.check_user_read(p)
        if called.gpl_only:
            p.gpl_only.add(called.name)
        call = _Call(p, called)
        values = [call.argument(index, value) for index, value in enumerate(given)]
        result = call.result(values)
        if called.name in MOVES:
            invalidate_packet_pointers(p, f"helpers.{called.name}()")
        return result


def _refuse_unfit(p: ProgramBuilder, called: Helper) -> None:
    instead = _INSTEAD.get(called.name)
    if instead is not None:
        p.fail(f"helpers.{called.name}() cannot be called directly: {instead}")
    if called.variadic:
        p.fail(f"helpers.{called.name}() takes any number of arguments, which a probe cannot pass: {called}")
    for parameter in called.parameters:
        if parameter.name == "callback_fn":
            p.fail(f"helpers.{called.name}() takes a function to call back, which a probe cannot pass: {called}")
        tracked = _TRACKED.get(parameter.type.removesuffix("*").strip())
        if tracked is not None:
            p.fail(f"helpers.{called.name}() works on {tracked}: {called}")
    returns = called.returns
    if returns.endswith("*") and called.name not in ("get_current_task_btf", *_VALUES):
        p.fail(f"helpers.{called.name}() returns an address that may be NULL or must be released: {called}")


#: Helpers that read a process's memory, or may.
_USER_READS = frozenset(
    {"probe_read_user", "probe_read_user_str", "probe_read", "probe_read_str", "get_stack", "get_stackid"}
)

#: Helpers that return the address of a map's value, or NULL.
_VALUES = ("map_lookup_elem", "map_lookup_percpu_elem")


def _bind(
    p: ProgramBuilder, called: Helper, arguments: Sequence[object], keywords: Mapping[str, object]
) -> list[object]:
    """Put arguments in order, by position and by the prototype's names."""
    names = [parameter.name for parameter in called.parameters]
    if len(arguments) > len(names):
        p.fail(f"helpers.{called.name}() takes {len(names)} arguments, not {len(arguments)}: {called}")
    given = dict(zip(names, arguments, strict=False))
    for name, value in keywords.items():
        if name not in names or name in given:
            p.fail(f"helpers.{called.name}() takes no {'second ' if name in given else ''}argument {name}: {called}")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        p.fail(f"helpers.{called.name}() lacks {', '.join(missing)}: {called}")
    return [given[name] for name in names]


class _Call:
    """One call under construction: what each argument turned out to be."""

    def __init__(self, p: ProgramBuilder, called: Helper) -> None:
        self.p = p
        self.helper = called
        #: The map among the arguments, whose values a look-up returns.
        self.map: MapSpec | None = None
        #: Bytes of the memory that the last pointer leads to, where they are known.
        self._room: int | None = None

    def _fail(self, index: int, wanted: str, value: object) -> NoReturn:
        parameter = self.helper.parameters[index]
        self.p.fail(
            f"{parameter.name} of helpers.{self.helper.name}() is {wanted}, not {describe(value)}: {self.helper}"
        )

    def argument(self, index: int, value: object) -> ir.Value:
        """Return what is passed for an argument."""
        parameter = self.helper.parameters[index]
        value = rvalue(self.p, value)
        c_type = parameter.type.removeprefix("const ").strip()
        if not c_type.endswith("*"):
            return self._integer(index, _INTEGERS[c_type], value)
        self._room = None
        spec = getattr(value, "spec", None)
        if c_type == "struct bpf_map *" or (parameter.name in _MAPS and c_type == "void *"):
            if not isinstance(spec, MapSpec):
                self._fail(index, "a map", value)
            self.map = spec
            return self.p.b.emit(Op.MAP, symbol=self.p.use_map(spec))
        if isinstance(value, Context):
            if index:
                self._fail(index, "no context", value)
            return self.p.context
        return self._pointer(index, c_type, value)

    def _integer(self, index: int, type_: IntType, value: object) -> ir.Value:
        if not isinstance(value, Entity) and not isinstance(value, int):
            self._fail(index, f"a {type_.name}", value)
        if isinstance(value, int):
            fits(self.p, type_, value)
        name = self.helper.parameters[index].name
        if isinstance(value, int) and self._room is not None and _SIZE.search(name) and value > self._room:
            before = self.helper.parameters[index - 1].name
            self.p.fail(
                f"{name} of helpers.{self.helper.name}() is {int(value)}, but {before} has only {self._room} bytes"
            )
        self._room = None
        return to_int(self.p, value).value

    def _pointer(self, index: int, c_type: str, value: object) -> ir.Value:
        p, name = self.p, self.helper.parameters[index].name
        if value is None or (isinstance(value, int) and value == 0):
            return p.b.const(0)
        if (self.helper.name, name) in _CONSTANT_TEXTS:
            if not isinstance(value, str):
                self._fail(index, "a string known at compile time", value)
            return p.b.emit(Op.MAP_VALUE, symbol=p.use_map(_text_map(value)))
        if isinstance(value, (str, bytes)):
            return self._literal(value, text="char" in c_type)
        if name in _ADDRESSES and isinstance(value, (int, Int, Pointer, KernelReference)):
            return address_as_int(p, value).value
        if isinstance(value, KernelReference):
            if c_type not in ("void *", f"{value.type.c_name} *"):
                self._fail(index, f"a {c_type}", value)
            return moved(p, value.address, value.offset) if value.trusted else address_as_int(p, value).value
        if isinstance(value, RunTimeValue) and not isinstance(value, Reference):
            value = value.local(p)
        lvalue = getattr(value, "lvalue", None)
        if not isinstance(lvalue, Lvalue):
            self._fail(index, "the address of memory: a record, a string, an array or a map's entry", value)
        lvalue.check(p, describe(value))
        if not self.helper.parameters[index].type.startswith("const ") and isinstance(value, Reference):
            # It may write there; this one does not.
            if isinstance(value, KeptBytes) and self.helper.name != "csum_diff":
                value.check_writable(p)
            note_change(p, value.type)
        size = getattr(getattr(value, "type", None), "size", None)
        self._room = size if isinstance(size, int) else None
        return lvalue.exact(p)

    def _literal(self, value: str | bytes, *, text: bool) -> ir.Value:
        """Write constant bytes to the stack; text with a NUL at its end."""
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if text or isinstance(value, str):
            raw += b"\0"
        address = self.p.b.slot_address(self.p.b.slot(-(-len(raw) // 8) * 8, name="literal"))
        write_bytes(self.p, address, 0, raw)
        self._room = len(raw)
        return address

    def result(self, values: list[ir.Value]) -> object:
        """Append the call and return what it gives: None for void."""
        p, returns = self.p, self.helper.returns
        comment = f"bpf_{self.helper.name}"
        if returns == "void":
            p.b.call(self.helper.id, *values, comment=comment)
            return None
        if returns.endswith("*"):
            found = p.b.call(self.helper.id, *values, result=ValueType.POINTER, comment=comment)
            if self.helper.name in _VALUES:
                return self._map_value(found)
            p.b.assume_non_null(found)
            struct = returns.removesuffix("*").strip()
            return KernelReference(found, p.target.type_named(struct), trusted=True)
        type_ = _INTEGERS[returns]
        value = p.b.call(self.helper.id, *values, comment=comment)
        if type_.size == U64.size:
            return Int(value, type_)
        value = p.b.emit(Op.SEXT if type_.signed else Op.ZEXT, value, size=type_.size)
        p.b.assume_bounds(value, type_.minimum, type_.maximum)
        return Int(value, S64, type_)

    def _map_value(self, found: ir.Value) -> object:
        """A map's value behind its address, or None where that is NULL."""
        p, spec = self.p, self.map
        what = f"helpers.{self.helper.name}(…)"
        if spec is None or spec.value is None:
            p.fail(f"{what}: this map's values have no type")
        if not isinstance(spec.value, IntType):
            return p.load_value(
                Lvalue(base=found, owner=f"an entry of {spec.name}", null_check=found, shared=True), spec.value
            )
        value = p.b.variable(hint=spec.name)
        with p.b.if_(Compare(Relation.NE, found, p.b.const(0), null_check=True)):
            number = read_int(p, found, 0, spec.value)
            p.b.write(value, number.value)
        with p.b.else_():
            p.b.write(value, p.b.const(0))
        joined = p.b.read_final(value)
        return OptionalInt(found, joined, number.type, number.loaded, what)


def _text_map(text: str) -> MapSpec:
    """A frozen array that holds one text, named by its content."""
    from hashlib import sha256

    raw = text.encode("utf-8", "surrogateescape") + b"\0"
    name = f".text{sha256(raw).hexdigest()[:10]}"
    return MapSpec(
        name,
        MapType.ARRAY,
        U32,
        BytesType(len(raw)),
        1,
        flags=BPF_F_RDONLY_PROG,
        initial=((bytes(U32.size), raw),),
        frozen=True,
    )
