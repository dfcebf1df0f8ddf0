"""`PersistentMap`: a dict's content, what is made from it apart from it, and what two of them share or not."""

from __future__ import annotations

import random

import pytest

from pyebpf.builder.ssa.persistent import PersistentMap


@pytest.mark.parametrize("seed", range(23))
def test_it_holds_what_a_dict_would(seed: int) -> None:
    """After any writes and deletions each map has the content of the dict that went the same way."""
    chance = random.Random(seed)
    pairs: list[tuple[PersistentMap[object], dict[int, object]]] = [(PersistentMap(), {})]
    for _ in range(101):
        made, expected = chance.choice(pairs)
        content = dict(expected)
        for _ in range(chance.randrange(5)):
            key = chance.choice([chance.randrange(40), chance.randrange(3_000), chance.randrange(100_000)])
            if chance.random() < 0.3:
                made = made.without(key)
                content.pop(key, None)
            else:
                content[key] = object()
                made = made.with_item(key, content[key])
        pairs.append((made, content))
    for made, content in pairs:
        assert list(made.values()) == [content[key] for key in sorted(content)]
        assert all(made[key] is value and key in made for key, value in content.items())
    for _ in range(53):
        (one, ones), (other, others) = chance.choice(pairs), chance.choice(pairs)
        assert sorted(one.differing(other)) == sorted(
            key for key in {*ones, *others} if ones.get(key) is not others.get(key)
        )
        shared = one.common(other)
        assert list(shared.values()) == [ones[key] for key in sorted(ones) if others.get(key) is ones[key]]
        assert all((key in shared) is (others.get(key) is value) for key, value in ones.items())


def test_what_is_not_there() -> None:
    """A key without a value gives the default or KeyError, however far from the others it is."""
    empty: PersistentMap[str] = PersistentMap()
    made = empty.with_item(7, "seven")
    for key in (-1, 0, 39, 1 << 40):
        assert key not in made
        assert made.get(key) is None
        assert made.get(key, "none") == "none"
        with pytest.raises(KeyError):
            made[key]
    assert not list(made.without(8).without(7).values())
