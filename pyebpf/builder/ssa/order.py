"""Blocks in the order that IR lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["reverse_post_order"]


def reverse_post_order(successors: Mapping[int, Sequence[int]]) -> list[int]:
    """Numbers of the blocks that block 0 reaches, each before its successors but for loops' back edges."""
    order: list[int] = []
    seen = {0}
    stack: list[tuple[int, list[int]]] = [(0, list(successors[0]))]
    while stack:
        number, rest = stack[-1]
        if not rest:
            order.append(number)
            stack.pop()
            continue
        following = rest.pop()
        if following not in seen:
            seen.add(following)
            stack.append((following, list(successors[following])))
    return order[::-1]
