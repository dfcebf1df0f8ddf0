"""Parameters and members by debugging information, beside what the compiler itself says; and of garbled bytes."""

from __future__ import annotations

import random
import subprocess
import time
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from pyebpf.elf.dwarf.types import DebugTypes
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import PyebpfError
from tests.support.garbled_dwarf import changed, cut_short, debug_sections, moved
from tests.support.needs import needs

SOURCE = """
#include <stdbool.h>
#include <stdint.h>
struct inner { char tag; short n; };
enum color { RED, GREEN = 255, BLUE = -1 };
typedef const struct foo foo_t;
struct foo {
    int a; char text[10]; unsigned char bytes[256]; struct foo *next; struct inner in;
    union { int u; long v; };
    unsigned low:3, high:7;
    enum color color; double d; int (*call)(int); int table[2][3]; bool flag; int rest[];
};
__attribute__((noinline)) long f(int *n, char c, foo_t *foo, double d, unsigned long long big, struct inner in,
                                 enum color color, void *p, const char *s, bool flag, uint8_t small)
{ return *n + c + foo->a + (long)d + big + in.n + color + (long)p + *s + flag + small; }
static inline long g(long first, long unused, short second) { return first * second; }
long (*keep)(long, long, short) = g;
int main(int argc, char **argv) { struct foo foo = {argc};
    return f(&argc, 1, &foo, 2, 3, foo.in, RED, 0, argv[0], 1, 2) + g(argc, 2, 3); }
"""
PARAMETERS = {
    "f": "int * n, char c, foo_t * foo, double d, long long unsigned int big, struct inner in, enum color color, "
    "void * p, char * s, bool flag, uint8_t small",
    "g": "long int first, long int unused, short int second",
    "main": "int argc, char ** argv",
}
MEMBERS = [
    ("a", "int", 0, 0),
    ("text", "char[10]", 32, 0),
    ("bytes", "unsigned char[256]", 112, 0),
    ("next", "struct foo *", 2176, 0),
    ("in", "struct inner", 2240, 0),
    ("", "union (anonymous)", 2304, 0),
    ("low", "unsigned int", 2368, 3),
    ("high", "unsigned int", 2371, 7),
    ("color", "enum color", 2400, 0),
    ("d", "double", 2432, 0),
    ("call", "function *", 2496, 0),
    ("table", "int[2][3]", 2560, 0),
    ("flag", "bool", 2752, 0),
    ("rest", "int[]", 2784, 0),
]
CPP = """
namespace shop {
struct base { int key; static int count; virtual ~base() {} };
struct empty {};
struct item : base, empty { long price; int &owner; item(int &o) : owner(o) {} int sell(int n, const item &other); };
__attribute__((noinline)) int item::sell(int n, const item &other) { return n + other.price; }
enum class size : unsigned char { small, large = 200 };
__attribute__((noinline)) int pack(size s, item copy) { return (int)s + copy.key; }
}
int main(int argc, char **argv) { shop::item i(argc); return i.sell(argc, i) + pack(shop::size::large, i); }
"""


def types_of(folder, *options, compiler="gcc", source=SOURCE):
    """The types of a program, and the addresses of its functions."""
    needs(f"command:{compiler}")
    text = folder / ("program.cc" if "++" in compiler else "program.c")
    text.write_text(source)
    subprocess.run([compiler, "-g", *options, "-o", "program", text.name], cwd=folder, check=True, capture_output=True)
    elf = ElfSymbols.from_bytes((folder / "program").read_bytes(), "program")
    return DebugTypes(elf), {symbol.name: symbol.value for symbol in elf.symbols() if symbol.is_function}


def signature(parameters):
    """Parameters as C declares them."""
    return ", ".join(f"{each.type.c_name} {each.name}" for each in parameters)


def plain(text):
    """Types by one name each: compilers call C's integers differently, and before C23 `bool` is a macro."""
    for one, other in (("long long unsigned int", "unsigned long long"), ("long unsigned int", "unsigned long")):
        text = text.replace(one, other)
    return text.replace("long int", "long").replace("short int", "short").replace("_Bool", "bool")


@pytest.mark.parametrize("options", ["-O0", "-O2", "-O2 -gdwarf-2", "-O1 -gdwarf-3", "-gdwarf-4 -gz", "-O2 -gdwarf64"])
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_parameters_and_members(compiler, options, tmp_path):
    """Types of all kinds, in every version, of an inlined function that stands out of line, too."""
    if compiler != "gcc" and "gdwarf64" in options:
        options += " -gdwarf-5"
    types, functions = types_of(tmp_path, *options.split(), compiler=compiler)
    for name, expected in PARAMETERS.items():
        found = types.signature(functions[name]).parameters
        assert plain(signature(found)) == plain(expected), name
    foo = types.signature(functions["f"]).parameters[2].type.element
    members = [(each.name, plain(each.type.c_name), each.bit_offset, each.bit_size) for each in types.members(foo)]
    assert members == MEMBERS
    color = types.signature(functions["f"]).parameters[6].type
    assert types.enumerators(color) == ((0, "RED"), (255, "GREEN"), (-1, "BLUE"))
    assert (types.named("struct", "inner").size, types.named("", "foo_t").name) == (4, "foo")
    assert types.named("union", "inner") is types.named("struct", "nothing") is None
    assert types.named("struct", "inner", functions["f"]).size == 4
    assert types.named("struct", "inner", 1 << 40) is None
    assert types.signature(functions["f"] + 1) is types.signature(0) is types.signature(1 << 60) is None


@pytest.mark.parametrize("options", ["-gdwarf-2 -gstrict-dwarf", "-gdwarf-2", "-gdwarf-5"])
def test_the_sign_of_an_enum(options, tmp_path):
    """DWARF 2 as it was written has no type below an enum: a constant below 0 says that it is signed."""
    source = (
        "enum below { A = -5, B = 7 }; enum above { C, D = 7 };\n"
        "__attribute__((noinline)) int f(enum below b, enum above a) { return b + a; }\n"
        "int main(int argc, char **argv) { return f(argc, argc); }\n"
    )
    types, functions = types_of(tmp_path, *options.split(), source=source)
    below, above = (each.type for each in types.signature(functions["f"]).parameters)
    assert (below.signed, above.signed) == (True, False)
    assert types.enumerators(below) == ((-5, "A"), (7, "B"))


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_classes(compiler, tmp_path):
    """A base class is a member without a name; static members are none; a reference is a pointer."""
    types, functions = types_of(tmp_path, "-O1", compiler=compiler, source=CPP)
    sell, pack = (next(at for name, at in functions.items() if word in name) for word in ("sell", "pack"))
    found = types.signature(sell).parameters
    assert [(each.name, each.type.kind) for each in found] == [("this", "pointer"), ("n", "int"), ("other", "pointer")]
    item = found[0].type.element
    members = [(each.name or each.type.name, each.bit_offset, each.base) for each in types.members(item)]
    assert members[0] == ("base", 0, True)
    assert members[-2:] == [("price", 128, False), ("owner", 192, False)]
    base = types.members(item)[0].type
    assert [each.name for each in types.members(base)][-1] == "key"
    first, second = types.signature(pack).parameters
    assert types.enumerators(first.type) == ((0, "small"), (200, "large"))
    assert (second.type.size, types.by_reference(second.type)) == (32, True if "clang" in compiler else None)
    assert types.by_reference(types.named("struct", "empty")) is False
    assert types.named("struct", "item") == item


# -- structs by chance -------------------------------------------------------------------------------------------------

_SCALARS = ["char", "short", "int", "long", "unsigned char", "unsigned short", "float", "double", "void *", "_Bool"]


def any_struct(chance, number, before):
    """A struct in C, with the names of its members that are no bit-fields, and of those that are."""
    lines, plain_names, bits = [], [], []
    for position in range(chance.randrange(1, 9)):
        name = f"m{position}"
        kind = chance.randrange(5)
        if kind == 0:
            type_ = chance.choice(["int", "unsigned char", "unsigned long", "short"])
            most = {"int": 32, "unsigned char": 8, "unsigned long": 64, "short": 16}[type_]
            lines.append(f"{type_} {name}:{chance.randrange(1, most + 1)};")
            bits.append(name)
            continue
        inner = chance.choice(before) if before and kind == 1 else chance.choice(_SCALARS)
        length = f"[{chance.randrange(1, 300)}]" if kind == 2 else ""
        lines.append(f"{inner} {name}{length};")
        plain_names.append(name)
    keyword = chance.choice(["struct", "struct", "union"])
    packed = chance.choice(["", "__attribute__((packed))"])
    return f"{keyword} s{number} {{ {' '.join(lines)} }} {packed};", f"{keyword} s{number}", plain_names, bits


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_structs_by_chance(version, tmp_path):
    """Each member lies where the compiler's own code says: offsetof() of 97 structs, all bits of bit-fields."""
    chance = random.Random(version)
    definitions, names, print_all = [], [], []
    asked = {}
    for number in range(97):
        definition, name, plain_names, bits = any_struct(chance, number, names)
        definitions.append(definition)
        names.append(name)
        asked[name] = plain_names, bits
        print_all.append(f'printf("{name} . %zu\\n", sizeof({name}));')
        print_all += [f'printf("{name} {each} %zu\\n", 8 * offsetof({name}, {each}));' for each in plain_names]
        for each in bits:
            print_all.append(
                f'{{ {name} v; memset(&v, 0, sizeof v); v.{each} = -1; printf("{name} {each} %d\\n", '
                "first_bit(&v, sizeof v)); }"
            )
    source = (
        "#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n"
        "static int first_bit(const void *at, int size) { const unsigned char *b = at;\n"
        "  for (int i = 0; i < 8 * size; i++) if (b[i / 8] >> (i % 8) & 1) return i; return -1; }\n"
        + "\n".join(definitions)
        + f"\nint main(void) {{ {' '.join(print_all)} return 0; }}\n"
        + "".join(f"{name} of_{number};\n" for number, name in enumerate(names))
    )
    types, _ = types_of(tmp_path, f"-gdwarf-{version}", "-w", source=source)
    told = {}
    for line in subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout.splitlines():
        name, member, place = line.rsplit(maxsplit=2)
        told[name, member] = int(place)
    for name, (plain_names, bits) in asked.items():
        found = types.named(*name.split())
        assert found.size == told[name, "."]
        members = {each.name: each for each in types.members(found)}
        assert set(members) == {*plain_names, *bits}
        for each in (*plain_names, *bits):
            assert members[each].bit_offset == told[name, each], (name, each)
            assert bool(members[each].bit_size) == (each in bits)


# -- of garbled bytes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Bytes of programs, their debugging sections, and addresses of functions."""
    found = []
    for version in (2, 4, 5):
        folder = tmp_path_factory.mktemp("types")
        _, functions = types_of(folder, "-O2", f"-gdwarf-{version}")
        data = (folder / "program").read_bytes()
        sections = debug_sections(ElfSymbols.from_bytes(data, ""))
        found.append((data, sections, [functions[name] for name in PARAMETERS]))
    return found


def asked(elf, addresses):
    """Ask for all that is there: each question is answered, or refused by an error of ours."""
    try:
        types = DebugTypes(elf)
    except PyebpfError:
        return
    for address in addresses:
        with suppress(PyebpfError):
            types.named("struct", "foo", address)
        with suppress(PyebpfError):
            signature = types.signature(address)
            for each in signature.parameters if signature is not None else ():
                looked_through(each.type, 3)


def garbled(data):
    """A file of such bytes."""
    return ElfSymbols.from_bytes(data, "garbled", seconds=2)


def looked_through(type_, depth):
    """Ask for the members of a type, and theirs."""
    assert isinstance(type_.c_name, str)
    if type_.element is not None:
        looked_through(type_.element, depth - 1)
    if type_.owner is None or not depth:
        return
    question = type_.owner.enumerators if type_.kind == "enum" else type_.owner.members
    try:
        found = question(type_)
    except PyebpfError:
        return
    for each in found if type_.kind != "enum" else ():
        looked_through(each.type, depth - 1)


@given(which=st.integers(0, 2), choices=st.randoms(use_true_random=False), number=st.integers(1, 8))
def test_any_bytes_are_types_or_an_error(files, which, choices, number):
    """Bytes changed anywhere in the debugging information, the rest as it was."""
    data, sections, addresses = files[which]
    with suppress(PyebpfError):
        asked(garbled(changed(data, sections, choices, number)), addresses)


def test_each_section_cut_short(files):
    """A section may end anywhere."""
    for data, sections, addresses in files:
        elf = garbled(data)
        for _ in cut_short(elf, sections):
            asked(elf, addresses)


def test_types_that_consist_of_themselves(files):
    """A type leads to its element, that to its own: in a circle they end, and quickly."""
    for data, sections, addresses in files:
        for each in moved(data, sections):
            start = time.process_time()
            asked(garbled(each), addresses)
            assert time.process_time() - start < 5
