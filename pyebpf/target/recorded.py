"""Facts written down while a program is compiled, and a target that has only those.

With them a program compiles to the same bytes on any machine: golden listings, and bug reports without root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, ParamSpec, Self, TypeVar, cast, get_args

from pyebpf.errors import MalformedData, NotFound, check_argument
from pyebpf.target.facts import (
    KernelFunction,
    KernelMember,
    KernelRawTracepoint,
    KernelType,
    KernelVariable,
    from_plain,
    to_plain,
)
from pyebpf.target.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyebpf.types.tracepoint import TracepointFormat

VERSION = 1
Fact = TypeVar("Fact")
Asked = ParamSpec("Asked")


def question(what: str, *about: object) -> str:
    """Write a question as text: the key of its answer."""
    words = (each.key if isinstance(each, KernelType) else str(each) for each in about)
    return " ".join([what, *(word for word in words if word)])


class Recorder(Target):
    """Passes every question on to another target and keeps the answers, "not found" among them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._facts: dict[str, dict[str, object]] = {}

    def to_json(self) -> str:
        """Write down the facts so far; the same facts give the same text."""
        import json

        return json.dumps({"version": VERSION, "facts": self._facts}, indent=1, sort_keys=True) + "\n"

    def recorded(self) -> RecordedTarget:
        """Return a target that has the facts so far, and no others."""
        return RecordedTarget(self._facts)

    def _note(self, what: str, answer: Fact) -> Fact:
        self._facts[what] = {"answer": to_plain(answer)}
        return answer

    def _ask(self, what: str, ask: Callable[Asked, Fact], *about: Asked.args, **options: Asked.kwargs) -> Fact:
        asked = question(what, *about, *options.values())
        try:
            return self._note(asked, ask(*about, **options))
        except NotFound as error:
            self._facts[asked] = {"missing": str(error)}
            raise

    @property
    def arch(self) -> str:
        """Asked and noted."""
        return self._note("arch", self._target.arch)

    @property
    def byteorder(self) -> Literal["little", "big"]:
        """Asked and noted."""
        return self._note("byteorder", self._target.byteorder)

    @property
    def page_size(self) -> int:
        """Asked and noted."""
        return self._note("page_size", self._target.page_size)

    @property
    def possible_cpus(self) -> int:
        """Asked and noted."""
        return self._note("possible_cpus", self._target.possible_cpus)

    @property
    def pid_namespace(self) -> tuple[int, int] | None:
        """Asked and noted."""
        return self._note("pid_namespace", self._target.pid_namespace)

    def type_named(self, name: str) -> KernelType:
        """Asked and noted."""
        return self._ask("type", self._target.type_named, name)

    def member(self, owner: KernelType, name: str) -> KernelMember:
        """Asked and noted."""
        return self._ask("member", self._target.member, owner, name)

    def has_field(self, struct: str, path: str) -> bool:
        """Asked and noted."""
        return self._ask("has_field", self._target.has_field, struct, path)

    def enumerator(self, name: str, enum: str = "") -> int:
        """Asked and noted."""
        return self._ask("enumerator", self._target.enumerator, name, enum)

    def enum_of(self, name: str) -> str:
        """Asked and noted."""
        return self._ask("enum_of", self._target.enum_of, name)

    def function(self, name: str) -> KernelFunction:
        """Asked and noted."""
        return self._ask("function", self._target.function, name)

    def has_function(self, name: str) -> bool:
        """Asked and noted."""
        return self._ask("has_function", self._target.has_function, name)

    def variable(self, name: str) -> KernelVariable:
        """Asked and noted."""
        return self._ask("variable", self._target.variable, name)

    def functions(self, pattern: str) -> tuple[str, ...]:
        """Asked and noted."""
        return self._ask("functions", self._target.functions, pattern)

    def members(self, owner: KernelType) -> tuple[str, ...]:
        """Asked and noted."""
        return self._ask("members", self._target.members, owner)

    def named_members(self, owner: KernelType) -> tuple[str, ...]:
        """Asked and noted."""
        return self._ask("named_members", self._target.named_members, owner)

    def prototype(self, type_: KernelType) -> KernelFunction:
        """Asked and noted."""
        return self._ask("prototype", self._target.prototype, type_)

    def raw_tracepoint(self, name: str) -> KernelRawTracepoint:
        """Asked and noted."""
        return self._ask("raw_tracepoint", self._target.raw_tracepoint, name)

    def raw_tracepoints(self, pattern: str) -> tuple[str, ...]:
        """Asked and noted."""
        return self._ask("raw_tracepoints", self._target.raw_tracepoints, pattern)

    def tracepoint_format(self, category: str, name: str) -> TracepointFormat:
        """Asked and noted."""
        return self._ask("tracepoint_format", self._target.tracepoint_format, category, name)

    def tracepoints(self, category: str, pattern: str) -> tuple[str, ...]:
        """Asked and noted."""
        return self._ask("tracepoints", self._target.tracepoints, category, pattern)

    def tracepoint_categories(self, pattern: str) -> tuple[str, ...]:
        """Asked and noted."""
        return self._ask("tracepoint_categories", self._target.tracepoint_categories, pattern)

    def has(self, feature: str) -> bool:
        """Asked and noted."""
        return self._ask("has", self._target.has, feature)


def _composites(answers: list[object]) -> Iterator[dict[str, object]]:
    """Structs and unions in answers as JSON has them."""
    waiting = answers[::-1]
    while waiting:
        plain = waiting.pop()
        if isinstance(plain, dict):
            if plain.get("kind") in ("struct", "union"):
                yield plain
            waiting += list(plain.values())[::-1]
        elif isinstance(plain, list):
            waiting += plain[::-1]


class RecordedTarget(Target):
    """A target that knows recorded facts only. Any other question raises NotFound that names it."""

    def __init__(self, facts: Mapping[str, Mapping[str, object]]) -> None:
        check_argument("facts", facts, dict, "a dictionary; from_json() reads a text")
        self._facts = {asked: dict(fact) for asked, fact in facts.items()}

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `Recorder.to_json` wrote. Raises MalformedData."""
        import json

        check_argument("text", text, (str, bytes), "the text that bpf.facts() gave")
        try:
            stored = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MalformedData(f"recorded facts are not JSON: {error}") from error
        facts = stored.get("facts") if isinstance(stored, dict) else None
        if not isinstance(facts, dict) or stored.get("version") != VERSION:
            raise MalformedData(f"these are no recorded facts of version {VERSION}")
        if not all(isinstance(fact, dict) and list(fact) in (["answer"], ["missing"]) for fact in facts.values()):
            raise MalformedData("a recorded fact is neither an answer nor missing")
        return cls(facts)

    def _answer(self, what: str, kind: type[Fact], *about: object) -> Fact:
        asked = question(what, *about)
        fact = self._facts.get(asked)
        if fact is None:
            raise NotFound(
                f"the fact {asked!r} was not recorded: no program that was recorded asks for it; record again if the "
                "program has changed since"
            )
        if "answer" not in fact:
            raise NotFound(str(fact.get("missing")))
        return self._read(kind, fact["answer"], asked)

    @staticmethod
    def _read(kind: type[Fact], plain: object, asked: str) -> Fact:
        try:
            annotation = str(kind).replace("typing.", "") if get_args(kind) else kind.__name__
            answer: Fact = from_plain(annotation, plain, f"the recorded fact {asked!r}")
        except RecursionError:
            raise MalformedData(f"the recorded fact {asked!r} nests too deep") from None
        return answer

    @property
    def arch(self) -> str:
        """As recorded."""
        return self._answer("arch", str)

    @property
    def byteorder(self) -> Literal["little", "big"]:
        """As recorded."""
        return "little" if self._answer("byteorder", cast("type[str]", Literal["little", "big"])) == "little" else "big"

    @property
    def page_size(self) -> int:
        """As recorded."""
        return self._answer("page_size", int)

    @property
    def possible_cpus(self) -> int:
        """As recorded."""
        return self._answer("possible_cpus", int)

    @property
    def pid_namespace(self) -> tuple[int, int] | None:
        """As recorded."""
        return self._answer("pid_namespace", cast("type[tuple[int, int] | None]", tuple[int, int] | None))

    def type_named(self, name: str) -> KernelType:
        """As recorded: by its name, or as a part of another answer."""
        asked = question("type", name)
        if asked not in self._facts:
            for plain in _composites([fact.get("answer") for fact in self._facts.values()]):
                if plain.get("name") and f"{plain['kind']} {plain['name']}" == name:
                    return self._read(KernelType, plain, asked)
        return self._answer("type", KernelType, name)

    def member(self, owner: KernelType, name: str) -> KernelMember:
        """As recorded."""
        return self._answer("member", KernelMember, owner, name)

    def has_field(self, struct: str, path: str) -> bool:
        """As recorded."""
        return self._answer("has_field", bool, struct, path)

    def enumerator(self, name: str, enum: str = "") -> int:
        """As recorded."""
        return self._answer("enumerator", int, name, enum)

    def enum_of(self, name: str) -> str:
        """As recorded; not known where older facts do not say."""
        return self._answer("enum_of", str, name) if question("enum_of", name) in self._facts else ""

    def function(self, name: str) -> KernelFunction:
        """As recorded."""
        return self._answer("function", KernelFunction, name)

    def has_function(self, name: str) -> bool:
        """As recorded."""
        return self._answer("has_function", bool, name)

    def variable(self, name: str) -> KernelVariable:
        """As recorded."""
        return self._answer("variable", KernelVariable, name)

    def functions(self, pattern: str) -> tuple[str, ...]:
        """As recorded."""
        return self._answer("functions", tuple[str, ...], pattern)

    def members(self, owner: KernelType) -> tuple[str, ...]:
        """As recorded."""
        return self._answer("members", tuple[str, ...], owner)

    def named_members(self, owner: KernelType) -> tuple[str, ...]:
        """As recorded."""
        return self._answer("named_members", tuple[str, ...], owner)

    def prototype(self, type_: KernelType) -> KernelFunction:
        """As recorded."""
        return self._answer("prototype", KernelFunction, type_)

    def raw_tracepoint(self, name: str) -> KernelRawTracepoint:
        """As recorded."""
        return self._answer("raw_tracepoint", KernelRawTracepoint, name)

    def raw_tracepoints(self, pattern: str) -> tuple[str, ...]:
        """As recorded."""
        return self._answer("raw_tracepoints", tuple[str, ...], pattern)

    def tracepoint_format(self, category: str, name: str) -> TracepointFormat:
        """As recorded."""
        from pyebpf.types.tracepoint import TracepointFormat

        return self._answer("tracepoint_format", TracepointFormat, category, name)

    def tracepoints(self, category: str, pattern: str) -> tuple[str, ...]:
        """As recorded."""
        return self._answer("tracepoints", tuple[str, ...], category, pattern)

    def tracepoint_categories(self, pattern: str) -> tuple[str, ...]:
        """As recorded."""
        return self._answer("tracepoint_categories", tuple[str, ...], pattern)

    def has(self, feature: str) -> bool:
        """As recorded."""
        return self._answer("has", bool, feature)
