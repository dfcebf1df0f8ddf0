"""`pyebpf exec --kernel`: the same programs in this kernel."""

from __future__ import annotations

import io
import sys

import pytest

from pyebpf.cli import main

PROGRAMS = [
    ("r0 = -1\nexit", ""),
    ("r0 = 0x123456789abcdef0 ll\nexit", ""),
    ("r0 = *(u32 *)(r1 + 4)\nexit", "0000000001020304"),
    ("r0 = r2\nexit", "0102030405"),
    ("call local f\nr0 += 1\nexit\nf:\nr0 = *(u8 *)(r1 + 2)\nexit", "070809"),
    ("*(u64 *)(r1 + 0) = r2\nr0 = *(u8 *)(r1 + 0)\nexit", "00" * 11),
    ("w0 = -5\nw0 s>>= 1\nexit", ""),
]


def execute(monkeypatch, capfd, arguments, stdin):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    status = main(["exec", *arguments])
    return status, *capfd.readouterr()


@pytest.mark.parametrize(("program", "memory"), PROGRAMS)
def test_the_kernel_prints_what_the_interpreter_does(monkeypatch, capfd, program, memory):
    """All 64 bits of R0."""
    kernel = execute(monkeypatch, capfd, ["--kernel", "-", memory], program)
    assert kernel == execute(monkeypatch, capfd, ["-", memory], program)
    assert kernel[0] == 0


def test_a_refusal_is_the_verifiers(monkeypatch, capfd):
    """Exit status 1, and what the verifier says; the interpreter says the same."""
    program = "r0 = *(u8 *)(r1 + 3)\nexit"
    for arguments in (["--kernel", "-", "010203"], ["-", "010203"]):
        status, out, err = execute(monkeypatch, capfd, arguments, program)
        assert (status, out) == (1, "")
        assert "size=3 off=3 size=1" in err
