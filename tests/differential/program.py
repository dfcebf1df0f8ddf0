"""A generated program, and what its statements may use where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Program", "Scope"]


@dataclass
class Program:
    """The text before the probe, and the probe's own."""

    seed: int
    outside: str
    probe: str
    #: Whether it is a syscall program, which is given a record.
    called: bool = False

    @property
    def text(self) -> str:
        """Both, without the probe's decorator."""
        return f"{self.outside}\n{self.probe}"


@dataclass
class Scope:
    """What a statement may use: names by type ("u", "s"), records, and how deep it stands."""

    names: dict[str, str]
    records: list[str]
    #: The kinds of the elements of each tuple: "us" is a u64 and an s64.
    tuples: dict[str, str] = field(default_factory=dict)
    depth: int = 0
    loops: int = 0
    frozen: set[str] = field(default_factory=set)
    rounds: int = 1
    #: Conditions around, since the innermost loop.
    level: int = 0
    #: Numbers that are not changed, with the largest that they may be; records with arrays; texts; larger records.
    bounded: dict[str, int] = field(default_factory=dict)
    wide: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)

    def inside(self, **changes: object) -> Scope:
        """The scope of a body: its own new names are not seen after it."""
        scope = Scope(
            dict(self.names),
            list(self.records),
            dict(self.tuples),
            self.depth + 1,
            self.loops,
            set(self.frozen),
            self.rounds,
            self.level + 1,
            dict(self.bounded),
            list(self.wide),
            list(self.texts),
            list(self.pairs),
        )
        for name, value in changes.items():
            setattr(scope, name, value)
        return scope

    def of(self, kind: str) -> list[str]:
        """Names of one type."""
        return [name for name, its in self.names.items() if its == kind]
