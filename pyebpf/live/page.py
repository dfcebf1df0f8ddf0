"""The page and its pictures, with policies that allow their own scripts and styles and no others."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pkgutil import get_data

from pyebpf.live.server import Page

_PARTS = re.compile("<(script|style)>(.*?)</\\1>", re.DOTALL)
_SCRIPT = re.compile(r"<script><!\[CDATA\[(.*?)\]\]></script>", re.DOTALL)


@cache
def page() -> Page:
    """The page of every tool: it learns from the events which one it is of."""
    content = get_data("pyebpf.live", "page.html") or b""
    hashes = {kind: _hash(text) for kind, text in _PARTS.findall(content.decode())}
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
        "frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page("text/html; charset=utf-8", content, policy)


def picture_page(svg: str) -> Page:
    """A picture in the page's frame, with a script of its own."""
    found = _SCRIPT.search(svg)
    script = _hash(found[1]) if found else "'none'"
    policy = (
        f"default-src 'none'; script-src {script}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    )
    return Page("image/svg+xml; charset=utf-8", svg.encode("utf-8", "replace"), policy)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
