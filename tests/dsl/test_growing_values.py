"""Properties that make something larger otherwise than in a local are refused, soon and before they take memory."""

from __future__ import annotations

import re
import resource
import time

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_bounds import KEPT
from tests.dsl.test_meaning import results

GROWING = """
import collections, io, operator

class Attributes:
    # What grows otherwise than in a local: each property doubles something, sixty times.

    shared = "ab"

    class Inner: pass

    class Listed(list): pass

    class Slotted: __slots__ = ("text",)

    def __init__(self):
        self.text, self.pair, self.number, self.items = "ab", (1, 2), 12345, [1]
        self.named, self.raw, self.file = {"a": "xy"}, bytearray(b"ab"), io.StringIO()
        self.inner, self.queue = self.Inner(), collections.deque([1])
        self.listed, self.slotted = self.Listed([1]), self.Slotted()
        self.inner.text = self.slotted.text = "ab"
        self.file.write("ab")

    def double(self): self.text = self.text + self.text

    def recurse(self, n):
        if n == 0: return 1
        self.text = self.text + self.text
        return self.recurse(n - 1)

    @property
    def by_sum(self):
        for i in range(60): self.text = self.text + self.text
        return 1

    @property
    def by_tuple(self):
        for i in range(60): self.pair = self.pair + self.pair
        return 1

    @property
    def in_place(self):
        for i in range(60): self.text += self.text
        return 1

    @property
    def by_setattr(self):
        for i in range(60): setattr(self, "text", self.text + self.text)
        return 1

    @property
    def by_dict(self):
        for i in range(60): self.__dict__["text"] = self.text + self.text
        return 1

    @property
    def by_method(self):
        for i in range(60): self.double()
        return 1

    @property
    def by_extend(self):
        for i in range(60): self.items.extend(self.items)
        return 1

    @property
    def by_list(self):
        for i in range(60): self.items += self.items
        return 1

    @property
    def by_update(self):
        for i in range(60): self.named.update(a=self.named["a"] + self.named["a"])
        return 1

    @property
    def by_item(self):
        for i in range(60): self.named["a"] = self.named["a"] + self.named["a"]
        return 1

    @property
    def by_bytearray(self):
        for i in range(60): self.raw.extend(bytes(self.raw))
        return 1

    @property
    def by_join(self):
        for i in range(60): self.text = "".join((self.text, self.text))
        return 1

    @property
    def by_fstring(self):
        for i in range(60): self.text = f"{self.text}{self.text}"
        return 1

    @property
    def by_replace(self):
        for i in range(60): self.text = self.text.replace("a", "aab")
        return 1

    @property
    def by_operator(self):
        for i in range(60): self.text = operator.concat(self.text, self.text)
        return 1

    @property
    def by_percent(self):
        for i in range(60): self.text = "%s%s" % (self.text, self.text)
        return 1

    @property
    def by_file(self):
        for i in range(60): self.file.write(self.file.getvalue())
        return 1

    @property
    def by_inner(self):
        for i in range(60): self.inner.text = self.inner.text + self.inner.text
        return 1

    @property
    def by_slot(self):
        for i in range(60): self.slotted.text = self.slotted.text + self.slotted.text
        return 1

    @property
    def by_queue(self):
        for i in range(60): self.queue.extend(list(self.queue))
        return 1

    @property
    def by_subclass(self):
        for i in range(60): self.listed.extend(self.listed)
        return 1

    @property
    def by_class(self):
        for i in range(60): Attributes.shared = Attributes.shared + Attributes.shared
        return 1

    @property
    def by_display(self):
        for i in range(60): self.items = [*self.items, *self.items]
        return 1

    @property
    def by_slice(self):
        for i in range(60): self.items[:0] = self.items
        return 1

    @property
    def by_append(self):
        found = ["ab"]
        for i in range(60): found.append(found[-1] + found[-1])
        return 1

    @property
    def by_nested(self):
        found = {"a": [["ab"]]}
        for i in range(60): found["a"][0][0] = found["a"][0][0] + found["a"][0][0]
        return 1

    @property
    def by_comprehension(self): return len([self.double() for i in range(60)])

    @property
    def by_lambda(self):
        f = lambda x, n: x if n == 0 else f(x + x, n - 1)
        return len(f("ab", 60))

    @property
    def by_recursion(self): return self.recurse(60)

    @property
    def by_integer(self):
        for i in range(10**9): self.number = self.number + self.number
        return 1

    @property
    def small(self):
        for i in range(1000): self.number = self.number + 1
        for i in range(5): self.text = self.text + self.text
        return self.number + len(self.text)
"""

#: What the properties of `Attributes` are refused for.
GROWN = dict.fromkeys(re.findall(r"def (by_\w+)", GROWING), KEPT) | {"by_integer": "this number has 8,193 bits"}


@pytest.mark.parametrize(("name", "expected"), GROWN.items(), ids=list(GROWN))
def test_what_grows_otherwise_than_in_a_local_is_refused(name: str, expected: str) -> None:
    """Attributes, elements, globals and what other methods change, soon and within little memory."""
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CompileError) as caught:
        build(f"results[0] = Attributes().{name}", "", GROWING)
    assert expected in message(caught.value)[0]
    assert time.process_time() - started < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_an_attribute_that_stays_small_is_computed() -> None:
    """The same statements, as often as a probe may want them."""
    assert results("results[0] = Attributes().small", outside=GROWING) == [12345 + 1000 + 64]
