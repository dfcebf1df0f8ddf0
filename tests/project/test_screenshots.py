"""Screenshots in the docs: each is shown, and made by a tool."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from tools.generate_screenshots import PICTURES, SHOTS

ROOT = Path(__file__).resolve().parents[2]


def test_each_is_shown_with_words_and_made_by_the_tool() -> None:
    """Pages show those that are there, with a text for who cannot see them; none is left over."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = [
        ((page.parent / path).resolve(), text)
        for page in pages
        for text, path in re.findall(r"!\[([^\]]*)\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8"))
    ]
    assert {path for path, _ in shown} == {*PICTURES.glob("*.png")}
    assert {path.stem for path, _ in shown} == {shot.name for shot in SHOTS}
    assert all(len(text.split()) > 5 for _, text in shown)


def test_they_are_pictures_of_a_window() -> None:
    """PNG, of a size that a page can show, and small enough for a repository."""
    for path in PICTURES.glob("*.png"):
        data = path.read_bytes()
        width, height = struct.unpack_from(">II", data, 16)
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert 600 <= width <= 1200
        assert 200 <= height <= 900
        assert len(data) < 400_000
