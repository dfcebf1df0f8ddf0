"""Constant tables indexed at run time: a tuple, list, dictionary or text becomes an array that is only read."""

from __future__ import annotations

from gc import get_referents
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import Always, Compare
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.comparisons import compare
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.builder.values.own_methods import EQUALITY, INDEXING, check_own
from pyebpf.builder.values.restating import element_offset, is_index
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.specs import MapSpec
from pyebpf.types import INTEGERS, S64, U32, ArrayType, BytesType, CharArray, IntType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_RDONLY_PROG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.compiler import ir
    from pyebpf.dsl.translate.frame import Frame

#: More numbers than this, each compared with the key, are a map's work.
_MAX_KEYS = 256
#: A dictionary is an array where at least a quarter of that has an entry.
_SPREAD = 4

#: What the method of a read-only view of a dictionary calls.
_GETS = frozenset(["get", "items"])
_TYPES = [INTEGERS[name] for name in ("u8", "s8", "u16", "s16", "u32", "s32", "s64", "u64")]


def table_item(f: Frame, owner: Any, index: object) -> object:
    """`owner[index]` of a sequence or dictionary known at compile time."""
    if isinstance(owner, dict):
        f.fail(
            "this key may be missing, and there are no exceptions in a probe: write .get(k), and test that with "
            "`is None`, or .get(k, default)"
        )
    check_own(f.p, (owner,), INDEXING)
    if isinstance(owner, (bytes, bytearray, range)):
        owner = tuple(owner)
    if isinstance(owner, str):
        f.fail("a string known at compile time can't be indexed at run time: keep its characters in a tuple")
    values = tuple(owner)
    number = to_int(f.p, index)
    if not values or not is_index(f.p, number.value, len(values)):
        f.fail(
            f"this index may lie outside 0 to {len(values) - 1}: test it first, if 0 <= i < {len(values)}, or mask it"
            if values
            else "it is empty"
        )
    return look_up(f, values, number.value)


def look_up(f: Frame, values: Sequence[Any], index: ir.Value) -> object:
    """The value at an index that lies inside, of values of one kind: numbers, texts, or tuples of these."""
    p = f.p
    check_own(p, values)
    if all(isinstance(each, int) for each in values):
        return _element(p, _number_type(f, values), values, index)
    if all(isinstance(each, (str, bytes)) for each in values):
        raw = [each.encode("utf-8", "surrogateescape") if isinstance(each, str) else each for each in values]
        return _element(p, CharArray(max(map(len, raw)) + 1), values, index)
    first = values[0]
    if all(isinstance(each, (tuple, list)) and len(each) == len(first) for each in values):
        columns = [look_up(f, [each[i] for each in values], index) for i in range(len(first))]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    wrong = next((each for each in values if not isinstance(each, (int, str, bytes, tuple, list))), first)
    f.fail(
        f"a table that is indexed at run time holds numbers, strings or tuples of these, all of one type; "
        f"{describe(wrong)} "
        "is in this one: keep the values in a bpf.array, or compare with `if`"
    )


def _number_type(f: Frame, values: Sequence[int]) -> IntType:
    low, high = min(values), max(values)
    found = next((type_ for type_ in _TYPES if type_.minimum <= low and high <= type_.maximum), None)
    if found is None:
        f.fail(f"no integer type of 64 bits holds both {low} and {high}")
    return found


def _element(p: ProgramBuilder, type_: IntType | CharArray, values: Sequence[Any], index: ir.Value) -> object:
    """The element at an index, in an array that the program carries along."""
    count = len(values)
    if count == 1:
        index = p.b.const(0)
    table = p.b.emit(Op.MAP_VALUE, symbol=p.use_map(_table(type_, values)))
    p.b.assume_non_null(table)
    # What proves the index here, the verifier may have forgotten.
    address = p.b.emit(Op.OFFSET, table, element_offset(p, index, count, type_.size))
    p.b.assume_non_null(address)
    found = p.load_value(Lvalue(base=address, owner="a table", writable=False), type_)
    if isinstance(found, Int) and max(values) <= S64.maximum:  # bounds are those of a number read as s64
        p.b.assume_bounds(found.value, min(values), max(values))
    return found


def _table(type_: IntType | CharArray, values: Sequence[object]) -> MapSpec:
    """A frozen array of one value that holds them all, named by its content."""
    from hashlib import sha256

    texts = [each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else each for each in values]
    raw = b"".join(type_.encode(each) for each in texts)
    held = ArrayType(type_, len(values)) if isinstance(type_, IntType) else BytesType(len(raw))
    name = f".tbl{sha256(type_.name.encode() + raw).hexdigest()[:11]}"
    initial = ((bytes(U32.size), raw),)
    return MapSpec(name, MapType.ARRAY, U32, held, 1, flags=BPF_F_RDONLY_PROG, initial=initial, frozen=True)


# -- dictionaries ------------------------------------------------------------------------------------------------------


def table_get(f: Frame, table: Mapping[Any, object], arguments: Sequence[object]) -> object:
    """`table.get(key)`, `table.get(key, default)` of a dictionary known at compile time."""
    if not 1 <= len(arguments) <= 2:
        f.fail("get() takes a key, and a default where you have one")
    key, default = arguments[0], arguments[1] if len(arguments) > 1 else None
    if isinstance(table, MappingProxyType):
        check_own(f.p, get_referents(table), _GETS)
    table = dict(dict.items(table) if isinstance(table, dict) else table.items())
    check_own(f.p, table, EQUALITY)
    table = _possible(f, key, table)
    if not table:
        return default
    keys = list(table)
    numbers = [int(each) for each in keys if isinstance(each, int)]
    dense = len(numbers) == len(keys) and max(numbers) - min(numbers) < _SPREAD * len(keys) + 16
    if len(keys) > _MAX_KEYS and not dense:
        f.fail(f"{len(keys)} keys are too many to compare with at run time: keep them in a bpf.hash")
    if dense:
        return _by_index(f, table, to_int(f.p, key), default)
    paths: list[tuple[object, Join]] = []
    groups: dict[tuple[type, object], list[object]] = {}
    for each, value in table.items():
        groups.setdefault((type(value), value), []).append(each)
    for (_, value), same in groups.items():
        found, following = Join(), Join()
        for each in same:
            other = Join()
            f.b.branch(compare(f.p, "==", key, each), found, other)
            f.b.start(other)
        f.b.jump(following)
        f.b.start(found)
        paths.append((value, _left(f)))
        f.b.start(following)
    paths.append((default, _left(f)))
    return _joined(f, paths)


def _possible(f: Frame, key: object, table: Mapping[Any, object]) -> Mapping[Any, object]:
    """Entries whose key the type of a number can hold; all of them for keys of other kinds."""
    if isinstance(key, Entity):
        key = rvalue(f.p, key)
    if not isinstance(key, Int):
        return table
    low, high = key.limits
    return {each: value for each, value in table.items() if not isinstance(each, int) or low <= each <= high}


def _by_index(f: Frame, table: Mapping[Any, object], key: Int, default: object) -> object:
    """Keys that lie close together: an array of values, and one of whether there is one."""
    numbers = {int(each): value for each, value in table.items()}
    low, high = min(numbers), max(numbers)
    fill = next(iter(numbers.values()))
    values = [numbers.get(number, fill) for number in range(low, high + 1)]
    there, missing = Join(), Join()
    inside = _relation(f, key, low, high)
    f.b.branch(inside, there, missing)
    paths: list[tuple[object, Join]] = []
    if there.edges:
        f.b.start(there)
        index = f.b.binary(Op.SUB, f.b.emit(Op.REFINE, key.value), f.b.const(low))
        f.b.assume_bounds(index, 0, high - low)
        if len(numbers) < len(values):
            present = look_up(f, [int(number in numbers) for number in range(low, high + 1)], index)
            assert isinstance(present, Int)
            known = Join()
            f.b.branch(Compare(Relation.NE, present.value, f.b.const(0)), known, missing)
            f.b.start(known)
        paths.append((look_up(f, values, index), _left(f)))
    if missing.edges:
        f.b.start(missing)
        paths.append((default, _left(f)))
    return _joined(f, paths)


def _relation(f: Frame, key: Int, low: int, high: int) -> Test:
    from pyebpf.builder.values.comparisons import contains

    held_low, held_high = key.limits
    if high < held_low or low > held_high:
        return Always(holds=False)
    return contains(f.p, key, range(low, high + 1))


def _left(f: Frame) -> Join:
    join = Join()
    f.b.jump(join)
    return join


def _joined(f: Frame, paths: list[tuple[object, Join]]) -> object:
    from pyebpf.dsl.translate.choices import join_values

    return join_values(f, paths, Join(), "the look-up")
