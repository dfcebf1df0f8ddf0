"""`Method`: an attribute that is called, bound to the entity that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.entity import Entity, NoPythonOperators
from pyebpf.errors import closest_or_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder


class Method(Entity, NoPythonOperators):
    """`owner.name`, still to be called with `build(p, …)`."""

    def __init__(self, owner: str, name: str, build: Callable[..., object]) -> None:
        self.owner = owner
        self.name = name
        self.build = build

    def describe(self) -> str:
        return f"the method {self.name} of {self.owner}"

    def call(self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]) -> object:
        return invoke(p, f"{self.name}() of {self.owner}", self.build, arguments, keywords)


def invoke(
    p: ProgramBuilder,
    name: str,
    build: Callable[..., object],
    arguments: Sequence[object],
    keywords: Mapping[str, object],
) -> object:
    """Call `build` for a probe's call of `name`; arguments that it does not take are refused in the probe's terms."""
    try:
        return build(p, *arguments, **keywords)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # not by this call, but inside it
        import inspect

        try:
            inspect.signature(build).bind(p, *arguments, **keywords)
        except TypeError as unfit:
            p.fail(f"{name}: {unfit}")
        raise


def method_of(p: ProgramBuilder, owner: Entity, name: str, methods: Mapping[str, Callable[..., object]]) -> Method:
    """Return the method `name` of `owner`, or refuse with the closest names."""
    build = methods.get(name)
    if build is None:
        p.fail(f"{owner.describe()} has no attribute {name}{closest_or_all(name, methods)}")
    return Method(owner.describe(), name, build)
