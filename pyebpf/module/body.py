"""`Body`: the code of a probe, as the linker sees it: a front end makes it of what its programs are written in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.errors import Location


class Body:
    """The code of one probe, built anew for each program that is made of it.

    A body keeps nothing from one program to the next. What a front end learns while it builds a program, and needs
    from the start, is an analysis of the program (`ProgramBuilder.analysis`): while one of them changes, the linker
    builds again.
    """

    #: The name of the program.
    name: str
    #: Names of the parameters in their order, without `ctx`: attach points of which these mean the same share the code.
    parameters: Sequence[str] = ()
    #: The Python object that the body was made of; a probe shows its name, text and signature.
    wrapped: Any = None

    @property
    def where(self) -> Location | None:
        """The place that errors about the whole probe name. May raise CompileError: what it was made of is gone."""
        return None

    def where_requested(self, number: int, count: int) -> Location | None:  # noqa: ARG002 - for those that override it
        """The place of what made the request of a number, of `count` that a probe has. Raises as `where`."""
        return self.where

    def annotation(self, parameter: str) -> object:  # noqa: ARG002 - for those that override it
        """The type that the author gives a parameter, None for none."""
        return None

    def map_names(self) -> Iterable[tuple[object, str]]:
        """Objects that the body names, in order, each with the name: a map without one is called so."""
        return ()

    def build(self, p: ProgramBuilder) -> None:
        """Build the main function, `p.b`, every path of which returns. Parameters are `p.parameter(name)`.

        Raises CompileError.
        """
        raise NotImplementedError
