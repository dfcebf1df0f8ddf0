"""Names that Rust's compiler mangles: "v0" (RFC 2603), and the older form, which looks like C++'s."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.symbols.demangle.reader import FUEL, MAX_DEPTH, STEP, NotMangled

if TYPE_CHECKING:
    from collections.abc import Callable

#: Of the older form a part's length, and the last part, which is a hash.
_LENGTH = re.compile(r"[0-9]{1,5}")
_HASH = re.compile(r"17(h[0-9a-f]{16})E(?=[.@]|\Z)")

_ESCAPE = re.compile(r"\$(?:(C|SP|BP|RF|LT|GT|LP|RP)|u([0-9a-f]{1,6}))\$|(\.\.)")
_ESCAPED = {"C": ",", "SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")"}

_BASIC = {
    "a": "i8",
    "b": "bool",
    "c": "char",
    "d": "f64",
    "e": "str",
    "f": "f32",
    "h": "u8",
    "i": "isize",
    "j": "usize",
    "l": "i32",
    "m": "u32",
    "n": "i128",
    "o": "u128",
    "p": "_",
    "s": "i16",
    "t": "u16",
    "u": "()",
    "v": "...",
    "x": "i64",
    "y": "u64",
    "z": "!",
}
_SIGNED, _UNSIGNED = frozenset("ailnsx"), frozenset("hjmoty")
_BASE_62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MAX_PUNYCODE = 256


def legacy(name: str, *, hashes: bool) -> tuple[str, int] | None:
    """A name of the older form as it is shown, and where it ends; None for what has not its form."""
    parts, i = [], len("_ZN")
    while not (last := _HASH.match(name, i)):
        length = _LENGTH.match(name, i)
        if not name.startswith("_ZN") or not length:
            return None
        i = length.end() + int(length[0])
        part = name[length.end() : i]
        if i >= len(name) or not part:
            return None
        # An underscore precedes what begins with an escape, since a name cannot.
        parts.append(_ESCAPE.sub(_unescaped, part[1:] if part.startswith("_$") else part))
    # A hash has its digits at random.
    if not parts or len(set(last[1])) < 6:  # "h" and five digits
        return None
    if hashes:
        parts.append(last[1])
    return "::".join(parts), last.end()


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return _ESCAPED[found[1]]
    if found[2]:
        code = int(found[2], 16)
        character = chr(code) if code <= 0x10FFFF else ""  # Unicode's last one
        return character if character.isprintable() and character else found[0]
    return "::"


def demangled(mangled: str, *, hashes: bool) -> tuple[str, int]:
    """A name of the form "v0" as it is shown, and where it ends; what is outside the grammar raises one of `ERRORS`.

    `hashes`: crates are shown with their hashes, and constants with their types.
    """
    reader = _Reader(mangled + "\0\0", verbose=hashes)
    shown = reader.path(in_value=True)
    if reader.s[reader.i] in "CMXYNIB":
        reader.path(in_value=False)  # the crate that made an instance of it
    return shown, reader.i


class _Reader:
    def __init__(self, mangled: str, *, verbose: bool) -> None:
        self.s = mangled
        self.i = 2
        self.verbose = verbose
        self.fuel = FUEL
        self.depth = 0
        #: Number of the lifetimes that `for<…>` around here has named.
        self.lifetimes = 0

    def _enter(self) -> None:
        self.depth += 1
        self.fuel -= STEP
        if self.depth > MAX_DEPTH or self.fuel < 0:
            raise NotMangled

    def _leave(self, shown: str) -> str:
        self.depth -= 1
        self.fuel -= len(shown)
        return shown

    def _take(self, wanted: str) -> bool:
        if self.s[self.i] == wanted:
            self.i += 1
            return True
        return False

    def _next(self) -> str:
        c = self.s[self.i]
        self.i += 1
        return c

    def _base_62(self) -> int:
        """A number: `_` is 0, `0_` is 1."""
        if self._take("_"):
            return 0
        value = 0
        while (c := self._next()) != "_":
            value = value * 62 + _BASE_62.index(c)
            if value >> 64:
                raise NotMangled
        return value + 1

    def _optional(self, mark: str) -> int:
        """The number behind this mark, from 1 up; 0 where there is none."""
        return self._base_62() + 1 if self._take(mark) else 0

    def _name(self) -> str:
        """An identifier without its disambiguator."""
        is_punycode = self._take("u")
        start = self.i
        if not self._take("0"):
            while "0" <= self.s[self.i] <= "9":
                self.i += 1
        if not 0 < self.i - start < 6:  # digits
            raise NotMangled
        length = int(self.s[start : self.i])
        self._take("_")
        name = self.s[self.i : self.i + length]
        self.i += length
        if len(name) != length or "\0" in name:
            raise NotMangled
        self.fuel -= length
        return _from_punycode(name) if is_punycode else name

    def _back(self, parse: Callable[[], str]) -> str:
        """Something that was read before, at a place that stands here; behind the B."""
        here = self.i - 1
        place = self._base_62() + 2
        if place >= here:
            raise NotMangled
        end, self.i = self.i, place
        shown = parse()
        self.i = end
        return shown

    def path(self, *, in_value: bool) -> str:
        """A path; `in_value`: its arguments stand behind `::`."""
        self._enter()
        c = self._next()
        if c == "C":
            disambiguator = self._optional("s")
            shown = self._name()
            if self.verbose:
                shown += f"[{disambiguator:x}]"
        elif c == "N":
            space = self._next()
            if not (space.isascii() and space.isalpha()):
                raise NotMangled
            shown = self.path(in_value=in_value)
            disambiguator = self._optional("s")
            name = self._name()
            if space.isupper():
                kind = {"C": "closure", "S": "shim"}.get(space, space)
                shown += f"::{{{kind}{':' if name else ''}{name}#{disambiguator}}}"
            elif name:
                shown += f"::{name}"
        elif c in "MX":
            self._optional("s")
            self.path(in_value=False)  # where the implementation stands
            shown = self._implementation(has_trait=c == "X")
        elif c == "Y":
            shown = self._implementation(has_trait=True)
        elif c == "I":
            of = self.path(in_value=in_value)
            shown = f"{of}{'::' if in_value else ''}<{', '.join(self._arguments())}>"
        elif c == "B":
            shown = self._back(lambda: self.path(in_value=in_value))
        else:
            raise NotMangled
        return self._leave(shown)

    def _implementation(self, *, has_trait: bool) -> str:
        of = self._type()
        return f"<{of} as {self.path(in_value=False)}>" if has_trait else f"<{of}>"

    def _arguments(self) -> list[str]:
        """Generic arguments up to their E."""
        found = []
        while not self._take("E"):
            if self._take("L"):
                found.append(self._lifetime(self._base_62()))
            elif self._take("K"):
                found.append(self._constant(braces=True))
            else:
                found.append(self._type())
        return found

    def _lifetime(self, index: int) -> str:
        if not index:
            return "'_"
        depth = self.lifetimes - index
        if depth < 0:
            raise NotMangled
        return f"'{chr(ord('a') + depth)}" if depth < 26 else f"'_{depth}"  # letters

    def _binder(self) -> tuple[int, str]:
        """The lifetimes that are named here: how many there were, and the text."""
        before = self.lifetimes
        count = self._optional("G")
        if not count:
            return before, ""
        if count > MAX_DEPTH:
            raise NotMangled
        self.lifetimes += count
        names = [self._lifetime(count - each) for each in range(count)]
        return before, f"for<{', '.join(names)}> "

    def _type(self) -> str:
        c = self.s[self.i]
        if c in _BASIC:
            self.i += 1
            return _BASIC[c]
        if c in "CMXYNI":
            return self.path(in_value=False)
        self._enter()
        self.i += 1
        if c in "RQ":
            lifetime = self._base_62() if self._take("L") else 0
            shown = f"&{self._lifetime(lifetime) + ' ' if lifetime else ''}{'mut ' if c == 'Q' else ''}{self._type()}"
        elif c in "PO":
            shown = f"*{'const' if c == 'P' else 'mut'} {self._type()}"
        elif c == "A":
            of = self._type()
            shown = f"[{of}; {self._constant(braces=False)}]"
        elif c == "S":
            shown = f"[{self._type()}]"
        elif c == "T":
            items = []
            while not self._take("E"):
                items.append(self._type())
            shown = f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        elif c == "F":
            shown = self._function()
        elif c == "D":
            shown = self._dynamic()
        elif c == "B":
            shown = self._back(self._type)
        else:
            raise NotMangled
        return self._leave(shown)

    def _function(self) -> str:
        before, shown = self._binder()
        if self._take("U"):
            shown += "unsafe "
        if self._take("K"):
            abi = "C" if self._take("C") else self._name().replace("_", "-")
            shown += f'extern "{abi}" '
        parameters = []
        while not self._take("E"):
            parameters.append(self._type())
        shown += f"fn({', '.join(parameters)})"
        if not self._take("u"):
            shown += f" -> {self._type()}"
        self.lifetimes = before
        return shown

    def _dynamic(self) -> str:
        before, named = self._binder()
        traits = []
        while not self._take("E"):
            trait = self.path(in_value=False)
            bindings = []
            while self._take("p"):
                name = self._name()
                bindings.append(f"{name} = {self._type()}")
            if bindings and trait.endswith(">") and not trait.startswith("<"):
                trait = f"{trait[:-1]}, {', '.join(bindings)}>"
            elif bindings:
                trait = f"{trait}<{', '.join(bindings)}>"
            traits.append(trait)
        self.lifetimes = before
        if not self._take("L"):
            raise NotMangled
        lifetime = self._base_62()
        return f"dyn {named}{' + '.join(traits)}{' + ' + self._lifetime(lifetime) if lifetime else ''}"

    def _constant(self, *, braces: bool) -> str:
        self._enter()
        c = self._next()
        if c == "p":
            return self._leave("_")
        if c == "B":
            return self._leave(self._back(lambda: self._constant(braces=braces)))
        if c in _SIGNED or c in _UNSIGNED:
            sign = "-" if c in _SIGNED and self._take("n") else ""
            shown = sign + _number(self._hexadecimal())
        elif c == "b":
            digits = self._hexadecimal()
            if digits not in {"0", "1"}:
                raise NotMangled
            shown = "true" if digits == "1" else "false"
        elif c == "c":
            shown = f"'{_quoted(_character(self._hexadecimal()), chr(39))}'"
        else:
            shown, in_braces = self._compound(c)
            return self._leave(f"{{{shown}}}" if braces and in_braces else shown)
        return self._leave(f"{shown}: {_BASIC[c]}" if self.verbose else shown)

    def _compound(self, c: str) -> tuple[str, bool]:
        """A constant of several parts, and whether it has braces as an argument."""
        if c == "e":
            return f"*{self._text()}", True
        if c in "RQ":
            if c == "R" and self._take("e"):
                return self._text(), False
            return f"&{'mut ' if c == 'Q' else ''}{self._constant(braces=False)}", True
        if c == "A":
            return f"[{', '.join(self._constants())}]", True
        if c == "T":
            items = self._constants()
            return (f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"), True
        if c == "V":
            return self._structure(), True
        raise NotMangled

    def _constants(self) -> list[str]:
        found = []
        while not self._take("E"):
            found.append(self._constant(braces=False))
        return found

    def _structure(self) -> str:
        name = self.path(in_value=True)
        kind = self._next()
        if kind == "U":
            return name
        if kind == "T":
            return f"{name}({', '.join(self._constants())})"
        if kind != "S":
            raise NotMangled
        fields = []
        while not self._take("E"):
            self._optional("s")
            field = self._name()
            fields.append(f"{field}: {self._constant(braces=False)}")
        return f"{name} {{ {', '.join(fields)} }}"

    def _hexadecimal(self) -> str:
        end = self.s.find("_", self.i)
        digits = self.s[self.i : end]
        if end < 0 or digits.strip("0123456789abcdef"):
            raise NotMangled
        self.i = end + 1
        return digits.lstrip("0") or "0"

    def _text(self) -> str:
        end = self.s.find("_", self.i)
        digits = self.s[self.i : end]
        if end < 0 or len(digits) % 2 or digits.strip("0123456789abcdef"):
            raise NotMangled
        self.i = end + 1
        try:
            return f'"{_quoted(bytes.fromhex(digits).decode(), chr(34))}"'
        except UnicodeDecodeError:
            raise NotMangled from None


def _number(digits: str) -> str:
    return str(int(digits, 16)) if len(digits) <= 16 else f"0x{digits}"  # of 64 bits


def _character(digits: str) -> str:
    if len(digits) > 6 or (code := int(digits, 16)) > 0x10FFFF:  # Unicode's last one
        raise NotMangled
    return chr(code)


def _quoted(what: str, quote: str) -> str:
    """Text between quotes; nothing in it that a terminal obeys."""
    shown = []
    for each in what:
        if each in {"\\", quote}:
            shown.append(f"\\{each}")
        elif each.isprintable():
            shown.append(each)
        else:
            shown.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(each, f"\\u{{{ord(each):x}}}"))
    return "".join(shown)


def _from_punycode(name: str) -> str:
    """An identifier that is not of ASCII; as it is if it cannot be decoded, or would not be printable."""
    ascii_part, _, rest = name.rpartition("_")
    try:
        if len(name) <= _MAX_PUNYCODE and rest:
            found = f"{ascii_part}-{rest}" if ascii_part else rest
            shown = found.encode("ascii").decode("punycode")
            if shown.isprintable():
                return shown
    except (UnicodeError, ValueError, OverflowError):
        pass
    return f"punycode{{{name}}}"


#: What reading raises for text outside the grammar: its own error, digits that are none, an end in its middle, and too
#: deep nesting.
ERRORS = (NotMangled, ValueError, IndexError, RecursionError)
