"""Files that a script includes: read where the line is, named by errors, left out in a line if they are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyebpf.bpftrace.includes import Files
from pyebpf.bpftrace.parser import parse
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from pyebpf.bpftrace import ast

FILES = {
    "own.h": "/* one\n * two */\n#ifndef OWN_H\n#define OWN_H\n"
    '#include "deep/more.h"\n#define LIMIT 5\n#endif // OWN_H\n',
    "deep/more.h": "struct deep { int x; };\nenum { RED };\n",
    "bad.h": "struct fine { int x; };\n\ntypedef int z;\n",
    "again.h": '#include "again.h"\nstruct again { int x; };\n',
}
#: What own.h defines, by `names`; its guard is two lines and a name.
OWN = ["Directive", "OWN_H", "deep", "Enum", "LIMIT", "Directive"]


def files() -> Files:
    """The files by their paths alone, whichever they are included from."""
    return Files(lambda path, _: (FILES[path], f"folder/{path}") if path in FILES else None)


def names(program: ast.Program) -> list[str]:
    """Definitions in their order."""
    return [getattr(each, "name", "") or type(each).__name__ for each in program.definitions]


def test_definitions_of_a_file_come_where_it_is_included():
    """Those of a file within it first, and its guard; one of `<…>` is left alone."""
    found = parse('#include <linux/fs.h>\n#include "own.h"\nstruct mine { int y; };\nBEGIN { }', files=files())
    assert names(found) == ["Include", *OWN, "mine"]


def test_a_file_is_read_once():
    """Neither a second time nor within itself."""
    found = parse('#include "own.h"\n#include "own.h"\n#include "again.h"\nBEGIN { }', files=files())
    assert names(found) == [*OWN, "again"]


def test_places_are_of_the_file_that_they_are_in():
    """Each node's file, line and text, before, in and behind what is included."""
    text = '#define ONE 1\n#include "own.h"\n\nstruct mine {\n int y; };\nBEGIN { print(1); }'
    found = parse(text, "s.bt", files=files())
    places = [found.source.location(each) for each in found.definitions]
    assert [(each.file, each.line) for each in places] == [
        ("s.bt", 1),
        ("folder/own.h", 3),
        ("folder/own.h", 4),
        ("folder/deep/more.h", 1),
        ("folder/deep/more.h", 2),
        ("folder/own.h", 6),
        ("folder/own.h", 7),
        ("s.bt", 4),
    ]
    assert places[5].text == "#define LIMIT 5"
    (probe,) = found.probes
    place = found.source.location(probe)
    assert (place.file, place.line, place.column, place.text) == ("s.bt", 6, 0, "BEGIN { print(1); }")


def test_an_error_names_the_included_file():
    """What is not in the language there, by its own line."""
    with pytest.raises(CompileError, match=r"typedef") as caught:
        parse('\n\n#include "bad.h"\nBEGIN { }', "s.bt", files=files())
    assert str(caught.value.location) == "folder/bad.h:3"


def test_a_file_that_is_not_there_is_told():
    """The line stays, and one says that it is left out."""
    there = files()
    found = parse('#include "none.h"\nBEGIN { }', "s.bt", files=there)
    assert names(found) == ["Include"]
    (told,) = there.missing
    assert told.splitlines() == [
        "s.bt:1: none.h is left out: there is no such file beside this one",
        '    #include "none.h"',
        "    ^^^^^^^^^^^^^^^^^",
    ]
