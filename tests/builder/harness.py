"""A program under construction whose context is a row of 64-bit words, and its run by the evaluator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyebpf.builder.program import ProgramBuilder
from pyebpf.builder.values.integers import Int
from pyebpf.compiler.checker import check_module
from pyebpf.compiler.evaluator import Pointer, Region, evaluate
from pyebpf.errors import Location
from pyebpf.types import S64, IntType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Location("probe.py", 7, 4, 9, "    x + y\n")


class Everything:
    """A target with every feature. Its kernel functions are numbered from 900."""

    NAMES = ("bpf_iter_num_new", "bpf_iter_num_next", "bpf_iter_num_destroy")

    def has(self, _name: str, /) -> bool:
        return True

    def function(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, btf_id=900 + self.NAMES.index(name))


class Nothing:
    """A target with no feature: Linux 6.1 and older."""

    def has(self, _name: str, /) -> bool:
        return False


class Probe(ProgramBuilder):
    """`number(i, T)` reads word i of the context as a T; `run` returns what the program returned, as s64."""

    def __init__(self, target: Any = None) -> None:
        super().__init__("test", ProgramType.RAW_TRACEPOINT, None, target or Nothing(), HERE)

    def number(self, index: int, type_: IntType = S64) -> Int:
        value = Int(self.b.load(self.context, 8 * index, 8), S64)
        return value.convert(self, type_)

    def ret(self, value: Any) -> None:
        from pyebpf.builder.values.operations import to_int

        self.b.ret(to_int(self, value).value)

    def run(
        self,
        *words: int,
        helpers: Mapping[int, Callable[..., Any]] | None = None,
        kfuncs: Mapping[str, Callable[..., Any]] | None = None,
        values: Mapping[str, Region] | None = None,
    ) -> int:
        module = self.finish()
        check_module(module)
        return self.run_module(module, *words, helpers=helpers, kfuncs=kfuncs, values=values)

    @staticmethod
    def run_module(
        module: Any,
        *words: int,
        helpers: Mapping[int, Callable[..., Any]] | None = None,
        kfuncs: Mapping[str, Callable[..., Any]] | None = None,
        values: Mapping[str, Region] | None = None,
    ) -> int:
        context = Region.of("context", b"".join((w & (1 << 64) - 1).to_bytes(8, "little") for w in words))
        answer = evaluate(module, [Pointer(context, 0)], helpers=helpers, kfuncs=kfuncs, values=values)
        assert isinstance(answer, int)
        return answer - (1 << 64) if answer >> 63 else answer
