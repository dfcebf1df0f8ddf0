"""Functions of files are looked up before anything is attached, which may be what looks them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.link import uprobes
from pyebpf.script import Script

if TYPE_CHECKING:
    import pytest


def test_nothing_is_traced_while_functions_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two probes at the C library, which Python calls all the time, both are found first; each is looked up once."""
    order: list[str] = []
    locate, link = uprobes.locate, uprobes.Link

    def located(target: uprobes.Uprobe) -> uprobes.ProbeLocations:
        order.append(f"look {target.word} up")
        return locate(target)

    def attached(what: str, *arguments: object, **options: object) -> uprobes.Link:
        order.append(f"attach {what.partition(' ')[0]}")
        return link(what, *arguments, **options)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(uprobes, "locate", located)
    monkeypatch.setattr(uprobes, "Link", attached)
    with Script("uprobe:libc:getpid { @ = count(); } uretprobe:libc:getpid { @r = count(); }") as script:
        assert len(script.attachments) == 2
    kinds = [line.split()[1] for line in order]
    assert order == [*(f"look {kind} up" for kind in kinds[:2]), *(f"attach {kind}" for kind in kinds[:2])]
    assert sorted(kinds[:2]) == ["uprobe", "uretprobe"]
