"""Scripts that are short and would be long to build: they are refused before, as macros are."""

from __future__ import annotations

import pytest

from pyebpf.compiler import ir
from pyebpf.errors import CompileError
from pyebpf.module import linking
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed


def refused(text: str) -> str:
    """The message about a script, with the place."""
    with pytest.raises(CompileError) as caught:
        Script(text).compile(FakeTarget())
    return str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "unroll(100) { unroll(100) { @++; } }",
        "unroll(100) { unroll(100) { unroll(100) { @++; } } }",
        "unroll(64) { " * 30 + "@++;" + " }" * 30,
        "if (pid) { unroll(100) { unroll(60) { @++; } } } else { unroll(100) { unroll(60) { @++; } } }",
    ],
)
def test_bodies_that_are_unrolled_are_counted(body: str) -> None:
    """Also those within each other, and all of a probe together."""
    message = refused(f"BEGIN {{ {body} }}")
    assert "unroll and calls of functions make this more than 20000 parts long: repeat less, or write a loop" in message


def chain(count: int, result: str) -> str:
    """Functions that call the next one each, and a call of the first."""
    functions = [f"fn f{n}($x : int64) : int64 {{ return {result.replace('f', f'f{n + 1}')}; }}" for n in range(count)]
    return f"{' '.join(functions)} fn f{count}($x : int64) : int64 {{ return $x + 1; }} BEGIN {{ print(f0(1)); }}"


def test_functions_that_double_are_counted() -> None:
    """Each call has the function's body in its place."""
    assert printed(chain(3, "f($x) + f($x)")) == "16\n"
    assert "unroll and calls of functions make this more than 20000 parts long" in refused(chain(20, "f($x) + f($x)"))


def test_functions_are_not_called_without_end() -> None:
    """As many within each other as macros."""
    assert printed(chain(49, "f($x)")) == "2\n"
    assert "functions call each other more than 50 deep: call fewer" in refused(chain(60, "f($x)"))


def test_tuples_of_tuples_are_counted() -> None:
    """By the values in them."""
    doubled = " ".join(f"$a{n + 1} = ($a{n}, $a{n});" for n in range(12))
    message = refused(f"BEGIN {{ $a0 = (1, 2); {doubled} print(1); }}")
    assert "512 values are too many: a tuple has 500 at most" in message
    assert message.endswith("^" * len("($a7, $a7)"))


def test_a_text_is_no_longer_than_one_that_is_read() -> None:
    """Those of formats are no values; a parameter is one."""
    long = "a" * 16384
    assert printed(f'BEGIN {{ print("{long}"); }}') == f"{long}\n"
    assert printed(f'BEGIN {{ printf("{long}{long}"); }}') == long * 2
    assert "this text is too long, of 16385 bytes: give 16384 at most" in refused(f'BEGIN {{ print("{long}b"); }}')
    with pytest.raises(CompileError, match="this text is too long, of 16385 bytes"):
        Script("BEGIN { print($1); }", [f"{long}b"]).compile(FakeTarget())


def test_many_equal_probes_are_linked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is compared with all before it, nor are all names with a number tried again for each."""
    compared = 0
    same = ir.Module.__eq__

    def counted(self: ir.Module, other: object) -> bool:
        nonlocal compared
        compared += 1
        return same(self, other)

    class Taken(set[str]):
        """A set that counts what it is asked."""

        asked = 0

        def __contains__(self, name: object) -> bool:
            Taken.asked += 1
            return super().__contains__(name)

    monkeypatch.setattr(ir.Module, "__eq__", counted)
    monkeypatch.setattr(linking, "set", Taken, raising=False)
    names = [each.name for each in Script("interval:s:5 { }\n" * 200).compile(FakeTarget()).programs]
    assert (names[0], names[1], names[199], len(set(names))) == ("interval_s", "interval_s_2", "interval_s_200", 200)
    assert compared < 1000
    assert 200 <= Taken.asked < 1000
