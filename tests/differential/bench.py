"""Generated programs in a kernel: compiled for it, loaded, run on several inputs, compared with what CPython says."""

from __future__ import annotations

import json
import pickle
import traceback
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyebpf.attach.syscall import SyscallProgram
from pyebpf.attach.tracepoints import RawTracepoint
from pyebpf.compiler import compile_with_report
from pyebpf.dsl.module import Module
from pyebpf.errors import PyebpfError, VerifierError
from pyebpf.objects import Map, Program as Loaded
from pyebpf.specs import MapSpec, ProgramSpec
from pyebpf.types import U32, BytesType
from pyebpf.uapi.bpf import ProgramType
from tests.differential.data import Question
from tests.differential.generator import generate
from tests.differential.program import Program
from tests.differential.running import (
    build,
    by_cpython,
    by_evaluator,
    declare,
    fill,
    inputs_of,
    outcome,
    raw_context,
    used,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from pyebpf.specs import Code
    from pyebpf.target import Target
    from tests.differential.running import Inputs, Outcome

__all__ = ["GAVE_UP", "Bench", "Compiled", "Failure", "compiled", "is_small", "packed", "tried", "unpacked"]

#: Words of a verifier that came to the end of its patience, and of the compiler where the stack is full: nothing is
#: said of the program's meaning.
GAVE_UP = ("program is too large", "is too complex", "bytes of stack")
RUNS = 2
_BIG_ONES = 50
_CHECKED = 64


def is_small(seed: int) -> bool:
    """Most programs have few statements, since many of them are looked at."""
    return seed % _BIG_ONES != 0


def is_checked(seed: int) -> bool:
    """Whether the slower legs run a program, too."""
    return seed % _CHECKED == 0


@dataclass(frozen=True)
class Failure:
    """What went wrong with a seed's program: a difference, a refusal by a verifier or by the compiler, an error."""

    seed: int
    kind: str
    message: str

    def line(self) -> str:
        """One line of JSON, with the command that does it again and the program."""
        text = generate(self.seed, small=is_small(self.seed)).text
        again = f"python -m tests.differential run --seed {self.seed} --programs 1"
        return json.dumps({"seed": self.seed, "kind": self.kind, "message": self.message, "again": again, "text": text})


@dataclass(frozen=True)
class Compiled:
    """A program ready to be loaded."""

    program: Program
    spec: ProgramSpec
    maps: Mapping[str, MapSpec]
    spilled: bool = False
    #: What CPython leaves in each run, if that is known already.
    expected: tuple[Outcome, ...] = ()


def compiled(
    seed: int, target: Target, *, small: bool | None = None, checked: Callable[[int], bool] = is_checked
) -> Compiled:
    """The program of a seed for a target; of some the evaluator and the compiler's own checks are run, too.

    Raises CompileError, and AssertionError for a difference.
    """
    program = generate(seed, small=is_small(seed) if small is None else small)
    module, specs = build(program, target)
    check = checked(seed)
    if check:
        inputs = inputs_of(seed * RUNS, tuple(used(program)))
        assert by_evaluator(program, module, specs, inputs) == by_cpython(program, inputs), "the evaluator differs"
    report = compile_with_report(module, target, check=check)
    return Compiled(program, _spec(program, report.code), specs, report.spilled)


def _spec(program: Program, code: Code) -> ProgramSpec:
    if program.called:
        place = SyscallProgram(Question.layout)
        return ProgramSpec("random", ProgramType.SYSCALL, code, place, flags=place.load_flags)
    return ProgramSpec("random", ProgramType.RAW_TRACEPOINT, code, RawTracepoint("sched_switch"))


class Bench:
    """Programs run one after the other, with maps made once."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.maps = {
            name: self._stack.enter_context(closing(Map(each.spec))) for name, each in declare(Module()).items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def differences(self, made: Compiled) -> str:
        """Load a program and run it; what it leaves that CPython does not, or nothing. Raises VerifierError."""
        with ExitStack() as stack:
            hidden = {
                name: stack.enter_context(closing(Map(each)))
                for name, each in made.maps.items()
                if name not in self.maps
            }
            loaded = stack.enter_context(closing(Loaded(made.spec, {**self.maps, **hidden})))
            names = used(made.program)
            for number in range(RUNS):
                inputs = inputs_of(made.program.seed * RUNS + number, tuple(names))
                found = self._run(made.program, loaded, inputs)
                expected = made.expected[number] if made.expected else by_cpython(made.program, inputs)
                if found != expected:
                    return f"run {number}: {described(found, expected)}"
        return ""

    def _run(self, program: Program, loaded: Loaded, inputs: Inputs) -> Any:
        fill(self.maps, inputs)
        result = loaded.test_run(context=raw_context(program, inputs))
        return outcome(program, self.maps, result.context, result.retval)


def described(found: Any, expected: Any) -> str:
    """Entries that differ."""
    differing = [
        f"{name}[{key!r}] is {found[name].get(key)!r}, CPython has {expected[name].get(key)!r}"
        for name in expected
        for key in sorted(set(found[name]) | set(expected[name]), key=repr)
        if found[name].get(key) != expected[name].get(key)
    ]
    return "; ".join(differing[:5])


def tried(seed: int, bench: Bench, make: Callable[[int], Compiled | None]) -> Failure | None:
    """Make one program and run it, if there is one. A verifier that gives up is a failure of the kind `gave up`."""
    try:
        made = make(seed)
        message = bench.differences(made) if made is not None else ""
        return Failure(seed, "difference", message) if message else None
    except PyebpfError as error:
        kind = "verifier" if isinstance(error, VerifierError) else "refused"
        gave_up = any(words in str(error) for words in GAVE_UP)
        return Failure(seed, "gave up" if gave_up else kind, f"{type(error).__name__}: {error}")
    except AssertionError as error:
        return Failure(seed, "difference", str(error))
    except Exception as error:  # noqa: BLE001 - each is a finding
        where = "".join(traceback.format_exception(error)[-3:])
        return Failure(seed, "error", f"{type(error).__name__}: {error}\n{where}")


def packed(made: Compiled) -> bytes:
    """A compiled program, for a machine that only runs it: what it is made of, and what CPython says it leaves."""
    program, hidden = made.program, []
    names = tuple(used(program))
    expected = tuple(by_cpython(program, inputs_of(program.seed * RUNS + number, names)) for number in range(RUNS))
    for name, each in made.maps.items():
        if name.startswith("."):
            assert each.key is not None
            assert each.key.size == U32.size
            assert each.value is not None
            hidden.append((name, each.type, each.value.size, each.max_entries, each.flags, each.initial, each.frozen))
    return pickle.dumps((program.seed, program.called, names, expected, made.spec.code, hidden))


def unpacked(data: bytes) -> Compiled:
    """What `packed` made. The text of this program is nothing but the names of its maps."""
    seed, called, names, expected, code, hidden = pickle.loads(data)
    program = Program(seed, " ".join(names), "", called=called)
    maps = {
        name: MapSpec(name, kind, U32, BytesType(size), entries, flags=flags, initial=initial, frozen=frozen)
        for name, kind, size, entries, flags, initial, frozen in hidden
    }
    return Compiled(program, _spec(program, code), maps, expected=expected)
