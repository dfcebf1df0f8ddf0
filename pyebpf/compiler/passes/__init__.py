"""The passes over IR, in the order in which they run.

Each takes a valid function and gives a valid one that does the same: the very function that it took where it finds
nothing to do. One that comes again is left out if no other has changed the function since its last run.

tidy_flow     jumps threaded, unreachable blocks dropped, straight lines merged
simplify      constants folded, algebra, copies propagated, comparisons tested directly
fold_memory   offsets and extensions folded into loads and stores
legalize      ops that the target lacks written with those it has
thread_known  tests whose outcome every path to them decides, skipped
merge_equal   common subexpressions computed once
compute_truths  comparisons that nothing tests, computed without a jump
store_early   stores into the stack moved up to where their value is known
drop_dead     what nobody needs dropped
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyebpf.compiler.passes.algebra import simplify
from pyebpf.compiler.passes.common import merge_equal
from pyebpf.compiler.passes.dead import drop_dead
from pyebpf.compiler.passes.flow import tidy_flow
from pyebpf.compiler.passes.legalize import legalize
from pyebpf.compiler.passes.memory import fold_memory
from pyebpf.compiler.passes.stores import store_early
from pyebpf.compiler.passes.threading import thread_known
from pyebpf.compiler.passes.truths import compute_truths

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.compiler.features import Features
    from pyebpf.compiler.ir import Function

__all__ = ["PASSES", "run_passes"]

Run: TypeAlias = "Callable[[Function, Features], Function]"


def _any_target(name: str, run: Callable[[Function], Function]) -> tuple[str, Run]:
    return name, lambda function, target: run(function)  # noqa: ARG005 - a pass's signature


PASSES: tuple[tuple[str, Run], ...] = (
    _any_target("tidy_flow", tidy_flow),
    _any_target("simplify", simplify),
    _any_target("drop_dead", drop_dead),
    _any_target("fold_memory", fold_memory),
    ("legalize", legalize),
    _any_target("simplify", simplify),
    _any_target("tidy_flow", tidy_flow),
    _any_target("merge_equal", merge_equal),
    _any_target("thread_known", thread_known),
    _any_target("compute_truths", compute_truths),
    _any_target("store_early", store_early),
    _any_target("simplify", simplify),
    _any_target("drop_dead", drop_dead),
    _any_target("tidy_flow", tidy_flow),
)


#: Passes whose changes give a pass nothing new to do.
_NO_NEWS = {"simplify": frozenset({"drop_dead"})}


def run_passes(function: Function, target: Features, *, check: bool = False) -> Function:
    """Run all passes; with `check`, validate what the builder made and what each pass leaves."""
    if check:
        _check(function, "building")
    #: For each pass that has run, those that have changed the function since.
    since: dict[str, set[str]] = {}
    for name, run in PASSES:
        if name in since and since[name] <= _NO_NEWS.get(name, frozenset()):
            continue
        changed = run(function, target)
        if changed is not function:
            function = changed
            for others in since.values():
                others.add(name)
            if check:
                _check(function, name)
        since[name] = set()
    return function


def _check(function: Function, when: str) -> None:
    from pyebpf.compiler.checker import check_function

    check_function(function, when)
