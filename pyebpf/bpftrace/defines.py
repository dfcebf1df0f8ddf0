"""`#define NAME text` in C's definitions: the tokens of the text stand for the name, as C's preprocessor has it.

In probes the value of the text stands for it, which `macros` puts there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.lexer import Tokens, tokenize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace.source import Source

# Names that stand for each other, at most.
_MAX_CHAIN = 50
# Tokens of a definition, at most: a chain of names can double at each link.
_MAX_TOKENS = 20_000


class Defines:
    """The names that the lines so far have given a text."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[str, ast.Define] = {}

    def take(self, node: ast.Definition) -> None:
        """Take note of a line of the preprocessor."""
        if isinstance(node, ast.Define):
            self._known[node.name] = node
        elif isinstance(node, ast.Directive) and node.word == "undef":
            self._known.pop(node.text, None)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def is_attribute(self, name: str) -> bool:
        """Whether a name stands for attributes of a struct."""
        return name in self._known and self._known[name].text.startswith("__attribute")

    def put_into(self, given: Tokens) -> Tokens:
        """The tokens of a definition with texts in place of names; each of a text has the place of the name."""
        if not self._known:
            return given
        found = Tokens([], [], [])
        for index, (word, start, end) in enumerate(zip(*given, strict=True)):
            self._put(found, word, given.texts[index + 1 : index + 2], (start, end), ())
        return found

    def _put(
        self, found: Tokens, word: str, following: Sequence[str], place: tuple[int, int], chain: tuple[str, ...]
    ) -> None:
        """Add a token, or what it stands for. `chain` are the names that this is the text of."""
        define = self._known.get(word)
        if define is not None and define.parameters is not None and following == ["("]:
            raise self._source.error_at(
                f"#define {word}({', '.join(define.parameters)}) is not read: write what {word}(…) stands for", *place
            )
        if define is None or define.parameters is not None or define.text == word:
            if len(found.texts) >= _MAX_TOKENS:
                raise self._source.error_at(f"more than {_MAX_TOKENS} words stand here: #define fewer", *place)
            found.texts.append(word)
            found.starts.append(place[0])
            found.ends.append(place[1])
            return
        name = f"#define {word}"
        check_chain(self._source, name, chain, *place)
        texts = tokenize(define.text, 0, len(define.text)).texts[:-1]
        for index, each in enumerate(texts):
            self._put(found, each, texts[index + 1 : index + 2] or following, place, (*chain, name))


def check_chain(source: Source, name: str, chain: Sequence[str], start: int, end: int) -> None:
    """Refuse a name that stands for itself, and too many that stand for each other."""
    if name in chain:
        raise source.error_at(f"{name} stands for itself: {' > '.join([*chain, name])}", start, end)
    if len(chain) >= _MAX_CHAIN:
        raise source.error_at(f"more than {_MAX_CHAIN} names stand for each other: #define fewer", start, end)


def tokens_of(source: Source, node: ast.Define) -> Tokens:
    """The tokens of a text, each at its place; of a text that comments or joined lines part, at that of the line."""
    found = tokenize(node.text, 0, len(node.text))
    name = source.text.find(node.name, source.text.find("define", node.start) + len("define"), node.end)
    begin = source.text.find(node.text, name + len(node.name), node.end)
    if begin < 0:
        count = len(found.texts)
        return Tokens(found.texts, [node.start] * count, [node.end] * count)
    return Tokens(found.texts, [begin + each for each in found.starts], [begin + each for each in found.ends])
