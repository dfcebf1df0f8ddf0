"""Outputs of two tracers, compared."""

from __future__ import annotations

from tests.peers.scripts.outputs import compare


def test_times_addresses_and_tracers_do_not_count() -> None:
    """Nor do the bars of histograms, spaces, and what a tracer tells."""
    ours = "Tracing 3 probes... Hit Ctrl-C to end\n12:00:01 sh 7 0xffff01\n@[python3]: 5\n[1, 2)   3 |@@@  |\n"
    theirs = "Attached 3 probes\n[1, 2) 3 |@@@@@|\n12:00:02  sh 7 0xffff77\n\n@[bpftrace]: 1\n"
    assert compare(ours, theirs).verdict == "same"


def test_numbers_and_forms() -> None:
    """Other numbers are alike; other words differ, and are told; nothing at all is silence."""
    assert compare("@[sh]: 3\n", "@[sh]: 4\n").verdict == "alike"
    assert compare("[1, 2) 3 |@@|\n", "[4K, 8K) 1 |@|\n").verdict == "alike"
    found = compare("@[sh]: 3\n@[cat]: 1\n", "@[sh]: 3\n@[dog]: 1\n")
    assert found == ("different", ("@[cat]: #",), ("@[dog]: #",))
    assert compare("@[sh]: 3\n", "@[sh]: 3\n@[dog]: 1\n") == ("more", (), ("@[dog]: #",))
    assert compare("Tracing 1 probe...\n", "Attached 1 probe\n\n").verdict == "silent"
