"""`#if` and its like in scripts: the lines that hold are read, and no others."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.support.scripts import printed


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("#define FOO\n#ifdef FOO\n#define A 1\n#else\n#define A 2\n#endif", "1\n"),
        ("#ifndef FOO\n#define A 1\n#endif", "1\n"),
        ("#ifndef BPFTRACE_HAVE_BTF\n#define A 1\n#else\n#define A 2\n#endif", "2\n"),
        ("#define FOO\n#undef FOO\n#ifdef FOO\n#define A 1\n#else\n#define A 2\n#endif", "2\n"),
        (
            "#define V 5\n#if V > 4 && UNKNOWN\n#define A 1\n#elif V == 5\n#define A 2\n#elif 1\n#define A 3\n#endif",
            "2\n",
        ),
        ("#if 0\n#define A 1\n#elif 0\n#define A 2\n#else\n#define A 3\n#endif", "3\n"),
        ("#if 1\n# if 0\n#  define A 1\n# else\n#  define A 2\n# endif\n#else\n#define A 3\n#endif", "2\n"),
        ("#if 0\n#if 1\n#define A 1\n#else\n#endif\n#else // the outer one\n#define A 4\n#endif", "4\n"),
        ('#if 0\n/*\n#else\n*/\n// #else\nstruct a { char *s; }; "\\"\n#else\n#define A 5\n#endif', "5\n"),
        ("#if !defined(B) && (defined C || 010 == 8) \\\n && 1UL\n#define A 6\n#endif", "6\n"),
        ("#define ONE 1\n#define TWO (ONE + 1)\n#if TWO * 3 == 6\n#define A 7\n#endif", "7\n"),
        ("#if 'a' == 97 && '\"' == 34\n#define A 9\n#endif", "9\n"),
        ("#if 0\nno C { at all\n#endif\n#define A 8", "8\n"),
        ("#if 1\nstruct a { int x; };\n#else\nstruct a { char x; };\n#endif\n#define A sizeof(struct a)", "4\n"),
    ],
)
def test_the_lines_that_hold_are_read(lines: str, text: str) -> None:
    """With `#elif` and `#else`, one within another; names that nothing defines are 0."""
    assert printed(f"{lines}\nBEGIN {{ print(A); }}") == text


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ("#ifdef X", 1, "`#ifdef` has no `#endif`"),
        ("#if 1\n#if 0\n#else\n#endif", 1, "`#if` has no `#endif`"),
        ("#else", 1, "`#else` stands behind no `#if`"),
        ("#endif", 1, "`#endif` stands behind no `#if`"),
        ("#if 1\n#else\n#elif 1\n#endif", 3, "`#elif` stands behind the `#else` of its `#if`"),
        ("#if\n#endif", 1, "`#if` takes a condition: `#if NAME > 1`"),
        ("#if 1 +\n#endif", 1, "`#if` takes a condition: a value is expected here, not the end"),
        ("#if 0\n#elif 1 / 0\n#endif", 2, "`#elif` takes a condition: division by zero"),
        ('#if "a"\n#endif', 1, "`#if` takes a condition: it is to be a number"),
        ("#ifdef 5\n#endif", 1, "`#ifdef` takes a name: `#ifdef NAME`"),
        ("#if LINUX_VERSION_CODE > KERNEL_VERSION(4,0,0)\n#endif", 1, "`#if` knows no KERNEL_VERSION()"),
        ("#ifdef __x86_64__\n#endif", 1, "whether a compiler defines __x86_64__ is not known here"),
        ("#if 1\n#define A 1\n#elsif 0\n#endif", 3, "C's preprocessor has no `#elsif` (did you mean elif"),
        ("#defin A 1", 1, "C's preprocessor has no `#defin` (did you mean define"),
        ("#if 0\n#error not this\n#elif 1\n#error  unknown mode\n#endif", 4, "#error unknown mode"),
        ("#define LOOP LOOP1\n#define LOOP1 LOOP\n#if LOOP\n#endif", 3, "#define LOOP stands for itself"),
    ],
)
def test_a_wrong_condition_is_told_at_its_line(lines: str, line: int, message: str) -> None:
    """Also one that is not C's, and one that nobody can answer."""
    with pytest.raises(CompileError) as caught:
        Script(f"{lines}\nBEGIN {{ print(1); }}")
    assert message in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.line == line
