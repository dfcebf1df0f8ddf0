"""Perf maps: names that processes give to code that they made, read on as they grow, within limits."""

from __future__ import annotations

import os

import pytest

from pyebpf.elf.budget import Room
from pyebpf.symbols.perf_map import PerfMap
from tests.support.needs import needs

MIB = 1 << 20


def test_a_perf_map_is_read_on_not_again(tmp_path):
    """What has been added since the last look; a touched file costs nothing, and one too large is not read."""
    path = tmp_path / "perf-1.map"
    perf = PerfMap(str(path), os.getuid(), Room(MIB))
    path.write_text("1000 10 one\n2000 1")
    perf.look(1.0)
    assert perf.table().find(0x1004).name == "one"
    first = perf.table()
    path.touch()
    perf.look(1.0)
    assert perf.table() is first
    with path.open("a") as file:
        file.write("0 two\n")
    perf.look(1.0)
    assert [perf.table().find(address).name for address in (0x1000, 0x2008)] == ["one", "two"]
    path.write_text("3000 10 three\n")
    perf.look(1.0)
    assert perf.table().find(0x1004) is None
    assert perf.table().find(0x3000).name == "three"
    with path.open("r+") as file:
        file.truncate(256 * MIB)
    perf.look(1.0)
    assert "more than are read for names" in perf.given_up
    assert perf.table().find(0x3000) is None  # it may be other code's by now


@pytest.mark.parametrize(
    "line", ["1_0000 1000 under", "+1000 10 plus", "-1000 10 minus", "\t1000 10 tab", "1000 1_0 size", "0x 10 none"]
)
def test_a_perf_maps_numbers_are_hexadecimal_digits(tmp_path, line):
    """int() takes more than that: such a line is none."""
    path = tmp_path / "perf-1.map"
    path.write_text(f"{line}\n0x2000 0x10 prefixed\nABC000 10 upper\n")
    perf = PerfMap(str(path), os.getuid(), Room(MIB))
    perf.look(1.0)
    assert len(perf.table()) == 2
    assert [perf.table().find(address).name for address in (0x2000, 0xABC00F)] == ["prefixed", "upper"]


def test_a_hard_link_to_roots_file_is_not_believed(tmp_path):
    """Anybody may make one, called as the map of another process; the process's own user has no reason to."""
    needs("user:root")
    path = tmp_path / "perf-1.map"
    path.write_text("1000 10 one\n")

    def names(owner):
        perf = PerfMap(str(path), owner, Room(MIB))
        perf.look(1.0)
        return len(perf.table())

    assert names(owner=1234) == 1
    os.link(path, tmp_path / "perf-2.map")
    assert (names(owner=1234), names(owner=0)) == (0, 1)


def test_code_that_took_the_place_of_other_code_has_its_own_name(tmp_path):
    """However many names came between: the oldest make room. A file that was read in part has none."""
    path = tmp_path / "perf-1.map"
    between = "".join(f"{i * 16:x} 10 between{i}\n" for i in range(1000, 200_000))
    path.write_text(f"1000 10 old\n2000 10 older\n{between}1000 10 new\n")
    perf = PerfMap(str(path), os.getuid(), Room(MIB))
    perf.look(1e-9)
    assert len(perf.table()) == 0
    perf.look(0.02)
    assert f" of {path.stat().st_size} bytes, so none of its names are known" in perf.given_up
    assert len(perf.table()) == 0
    perf.look(60.0)
    assert perf.table().find(0x1008).name == "new"
    assert perf.table().find(0x2008) is None
    assert perf.table().find(16 * 199_999).name == "between199999"
    assert "more names than there is room for: the last ones are known" in perf.given_up


def test_perf_maps_share_their_room(tmp_path):
    """What does not fit is left out, and said; a map that is forgotten makes room."""
    room = Room(100_000)
    lines = "".join(f"{i * 16:x} 10 name{i}\n" for i in range(1, 2000))
    maps = []
    for number in range(2):
        path = tmp_path / f"perf-{number}.map"
        path.write_text(lines)
        maps.append(PerfMap(str(path), os.getuid(), room))
        maps[-1].look(1.0)
    assert 100 < len(maps[0].table()) < 1000
    assert len(maps[1].table()) == 0
    assert all("more names than there is room for" in perf.given_up for perf in maps)
    maps[0].forget()
    assert room.take(99_000)
