"""BTF, with every question asked of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyebpf.btf import Btf, Index, Kind, c_declaration, c_definition, digest, raw_tracepoint, raw_tracepoint_names
from pyebpf.errors import BtfError, InvalidValue, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COVERS = ("pyebpf/btf",)
TEXT = False
DICTIONARY = (
    *(b"\x9f\xeb\x01\0", b"\xeb\x9f\x01\0", b"\x18\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\x01\0\0\x84"),
    *(b"outer\0", b"__traceiter_", b"btf_trace_", b"arg:nullable\0", b"__nullable\0"),
    *(bytes((0, 0, kind)) for kind in range(20)),
)
_MAX_TYPES = 400  # asked about one by one; more of them only take longer
_NAMES = ("outer", "BROKEN", "work", "job", "int", "state", "")


def _ask(question: Callable[..., object], *arguments: object) -> None:
    with suppress(BtfError, NotFound, InvalidValue):
        question(*arguments)


def target(data: bytes) -> None:
    """Whatever stands in the bytes: an answer, BtfError, NotFound or InvalidValue, for each question.

    The first byte says whether the rest is a BTF of its own or one split from the kernel's.
    """
    base = None
    if data[:1] == b"\1":
        from tests.btf.conftest import build_sample

        base = build_sample().btf
    try:
        btf = Btf(data[1:], base)
        stop = btf.stop
    except BtfError:
        return
    for type_id in range(min(stop + 1, _MAX_TYPES)):
        for ask in (btf.type_by_id, btf.kind, btf.size_of, btf.members, btf.skip_modifiers, btf.resolve):
            _ask(ask, type_id)
        _ask(btf.resolve_path, type_id, "in.left")
        _ask(btf.resolve_path, type_id, "grid[1][2]")
        _ask(btf.nullable_parameters, type_id)
        _ask(c_declaration, btf, type_id)
        _ask(c_definition, btf, type_id)
    for name in _NAMES:
        for question in (
            btf.find,
            btf.struct,
            btf.union,
            btf.function,
            btf.enumerator,
            btf.find_enumerator,
            btf.prototype,
        ):
            _ask(question, name)
        _ask(btf.enumerator, name, "state")
        _ask(btf.string_offsets, name)
        _ask(raw_tracepoint, btf, name)
    _ask(lambda: list(btf.names(frozenset(Kind))))
    _ask(lambda: list(raw_tracepoint_names(btf)))
    if base is None:
        with suppress(BtfError):
            content = digest(data)
            stored = btf.index.to_bytes(content)
            assert Index.from_bytes(stored, content) is not None, "an index does not read back"
            Index.from_bytes(stored[: data[-1]] + data[-9:] + stored[data[-1] :], content)


def seeds() -> Iterable[bytes]:
    """One BTF with every kind, in both byte orders, and one split from it."""
    from pyebpf.btf import BtfBuilder
    from tests.btf.conftest import build_sample

    sample = build_sample()
    yield b"\0" + sample.data
    yield b"\0" + build_sample("big").data
    builder = BtfBuilder(sample.btf)
    builder.add_struct("device", 112, [("in", sample.ids["outer"], 0, 0), ("own", 1, 32, 0)])
    builder.add_typedef("name_t", sample.btf.stop)
    yield b"\1" + builder.to_bytes()
    small = BtfBuilder()
    small.add_ptr(small.add_typedef("x", small.add_int("int", 4, signed=True)))
    yield b"\0" + small.to_bytes()
