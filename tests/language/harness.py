"""Functions of the language run three ways: by CPython, by the evaluator of IR, and in the kernel.

A test gives the body of a probe as text. Its parameters are the arguments of a raw tracepoint that exists nowhere:
twelve numbers of every width, filled from Python. It leaves results by `out[0].r0 = …`.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyebpf.builder.drop_counters import DropCounters
from pyebpf.builder.intrinsics import task
from pyebpf.compiler.evaluator import Pointer, Region, evaluate
from pyebpf.dsl.module import Module
from pyebpf.dsl.unroll import unroll
from pyebpf.module.program import build_program
from pyebpf.target import KernelFunction, KernelParameter, KernelRawTracepoint, KernelType
from pyebpf.types import BOOL, S8, S16, S32, S64, U8, U16, U32, U64, IntType, Struct, char, field
from tests.dsl.fake_target import FakeTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.compiler import ir
    from pyebpf.errors import CompileError

NUMBERS = itertools.count()

#: The arguments of the made-up raw tracepoint `numbers`, and the types that the language gives them.
ARGUMENTS: dict[str, IntType] = {
    "s": S64,
    "t": S64,
    "u": U64,
    "v": U64,
    "i": S32,
    "w": U32,
    "h": S16,
    "k": U16,
    "b": S8,
    "c": U8,
    "q": BOOL,
    "z": S64,
}
RESULTS = 8


class Out(Struct):
    """Where a probe leaves its results."""

    r0: S64
    r1: S64
    r2: S64
    r3: S64
    r4: S64
    r5: S64
    r6: S64
    r7: S64


class Record(Struct):
    """A record with padding after `flag`, and a string."""

    flag: U8
    count: U32
    at: U64
    name: str = field(char[16])


class Pair(Struct):
    """Two numbers."""

    low: S64
    high: S64


class Numbers(FakeTarget):
    """The made-up kernel with the raw tracepoint `numbers`. `missing` are features that it lacks."""

    def raw_tracepoint(self, name: str) -> KernelRawTracepoint:
        if name == "keywords":
            long = KernelType("int", 8, "long", signed=True)
            return KernelRawTracepoint(name, 2, tuple(KernelParameter(each, long) for each in ("class", "ctx", "from")))
        if name not in ("numbers", "more_numbers"):
            return super().raw_tracepoint(name)
        parameters = [
            KernelParameter(argument, KernelType("int", t.size, "_Bool" if t.is_bool else t.name, signed=t.signed))
            for argument, t in ARGUMENTS.items()
        ]
        return KernelRawTracepoint(name, 1, tuple(parameters))


class Host(Numbers):
    """The same tracepoints on this machine's kernel: its functions, its features."""

    def has(self, feature: str) -> bool:
        from pyebpf.features import Features
        from pyebpf.runtime.host import kernel_btf

        return Features(kernel_btf).has(feature)

    def function(self, name: str) -> KernelFunction:
        from pyebpf.kernel.tracefs import Tracefs
        from pyebpf.runtime.host import host_target

        with Tracefs() as tracefs:
            return host_target(lambda: tracefs).function(name)


class Oldest(Numbers):
    """The same kernel without any feature that 6.1 lacks."""

    def has(self, feature: str) -> bool:
        return feature == "isa:atomic"


class Case:
    """One probe, compiled: its module and maps."""

    def __init__(
        self, body: str, parameters: str = "", outside: str = "", targets: str = '"numbers"', target: str = ""
    ) -> None:
        self.target = Oldest() if target == "oldest" else Numbers()
        self.bpf = bpf = Module()
        names: dict[str, Any] = {
            "bpf": bpf,
            "out": bpf.array(value=Out, name="out"),
            "counts": bpf.hash(key=U32, value=U64, name="counts"),
            "signed": bpf.hash(key=U32, value=S64, name="signed"),
            "small": bpf.hash(key=U32, value=U32, size=3, name="small"),
            "bytes_": bpf.hash(key=U32, value=U8, name="bytes"),
            "pairs": bpf.hash(key=U32, value=Pair, name="pairs"),
            "by_pair": bpf.hash(key=Pair, value=U64, name="by_pair"),
            "records": bpf.hash(key=U32, value=Record, name="records"),
            "by_record": bpf.hash(key=Record, value=U64, name="by_record"),
            "names": bpf.hash(key=char[16], value=U64, name="names"),
            "table": bpf.array(value=U64, size=8, name="table"),
            "percpu": bpf.percpu_array(value=U64, size=4, name="percpu"),
            "events": bpf.ringbuf(Record, name="events", size=65536),
            "Record": Record,
            "Pair": Pair,
            "char": char,
            "unroll": unroll,
        }
        names |= {t.name: t for t in (S8, S16, S32, S64, U8, U16, U32, U64)}
        names |= {name: getattr(task, name) for name in ("pid", "tid", "uid", "gid", "comm", "cpu", "now")}
        inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        text = f"{textwrap.dedent(outside)}\n@bpf.raw_tracepoint({targets})\ndef probe({parameters}):\n{inside}\n"
        self.text = text
        self.file = f"<language {next(NUMBERS)}>"
        linecache.cache[self.file] = (len(text), None, text.splitlines(keepends=True), self.file)
        exec(compile(text, self.file, "exec", dont_inherit=True), names)
        self.probe = names["probe"]
        self.names = names

    def run_more(self, text: str) -> dict[str, Any]:
        """Run more of the probe's file."""
        lines = [*self.text.splitlines(keepends=True), *text.splitlines(keepends=True)]
        linecache.cache[self.file] = (len(lines), None, lines, self.file)
        padded = "\n" * self.text.count("\n") + text
        exec(compile(padded, self.file, "exec", dont_inherit=True), self.names)
        return self.names

    @functools.cached_property
    def _built(self) -> Any:
        return build_program(self.probe.body, self.probe.attachments[0], Oldest(), DropCounters(), "probe")

    @property
    def module(self) -> ir.Module:
        """Its intermediate representation."""
        found: ir.Module = self._built.module
        return found

    def evaluate(self, **given: int) -> list[int]:
        """Run by the evaluator; the results as s64."""
        region = Region.of("out", bytes(8 * RESULTS))
        values = {
            spec.name: Region.of(spec.name, bytes(spec.value.size)) for spec in self._built.maps.values() if spec.value
        }
        context = Pointer(Region.of("context", context_of(given)), 0)
        evaluate(self.module, [context], values={**values, "out": region})
        return results_of(region.data)

    @contextmanager
    def loaded(self, target: Any = None) -> Iterator[Loaded]:
        """Load it into this machine's kernel; nothing is attached."""
        from pyebpf.runtime import BPF

        runner = BPF(target or Host())
        runner.maps, runner.probes = self.bpf.maps, self.bpf.probes
        runner.load()
        try:
            yield Loaded(runner)
        finally:
            runner.close()

    def refused(self) -> CompileError:
        """Return the error that compiling it raises."""
        import pytest

        from pyebpf.errors import CompileError

        with pytest.raises(CompileError) as caught:
            self.bpf.compile(self.target)
        return caught.value


class Loaded:
    """A case in the kernel."""

    def __init__(self, bpf: Any) -> None:
        self.bpf = bpf

    def run(self, program: int = 0, **given: int) -> list[int]:
        """Run once; what is in `out` then."""
        list(self.bpf.programs.values())[program].test_run(context=context_of(given))
        out = self.bpf["out"][0]
        return [getattr(out, f"r{number}") for number in range(RESULTS)]

    def reset(self) -> None:
        """Zero the results."""
        self.bpf["out"][0] = Out(*[0] * RESULTS)

    def __getitem__(self, name: str) -> Any:
        return self.bpf[name]


def context_of(given: dict[str, int]) -> bytes:
    """The arguments as the kernel hands them over: each in 64 bits, junk above the narrower ones."""
    words_ = []
    for name, type_ in ARGUMENTS.items():
        value = given.get(name, 0) & ((1 << 8 * type_.size) - 1)
        junk = 0xDEAD_BEEF_CAFE_F00D << 8 * type_.size if type_.size < 8 else 0
        words_.append((value | junk) & ((1 << 64) - 1))
    return b"".join(word.to_bytes(8, "little") for word in words_)


def results_of(data: Sequence[int]) -> list[int]:
    """The eight words of `out`."""
    raw = bytes(data)
    return [int.from_bytes(raw[at : at + 8], "little", signed=True) for at in range(0, 8 * RESULTS, 8)]


def message_of(error: CompileError) -> tuple[str, str]:
    """An error's own words, and what its carets stand under."""
    assert error.location is not None
    return error.message, error.location.text[error.location.column : error.location.end_column]
