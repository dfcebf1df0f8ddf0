"""Arguments of programs by name, and their structs, by debugging information, in the running kernel."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pyebpf import BPF, u64
from pyebpf.elf.dwarf.types import DebugTypes
from pyebpf.errors import CompileError, InvalidValue, NotFound
from pyebpf.script import Script
from pyebpf.symbols.files import ElfFile
from tests.support.command import pyebpf, running
from tests.support.debugged import compiled, printed_by
from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path


class Kind(NamedTuple):
    """A type of parameters: in C, its least and greatest value; a value in C where it is no number."""

    name: str
    least: int = 0
    greatest: int = 0
    literal: str = ""


NUMBERS = (
    Kind("signed char", -128, 127),
    Kind("unsigned char", 0, 255),
    Kind("short", -(1 << 15), (1 << 15) - 1),
    Kind("unsigned short", 0, (1 << 16) - 1),
    Kind("int", -(1 << 31) + 1, (1 << 31) - 1),
    Kind("unsigned", 0, (1 << 32) - 1),
    Kind("long", -(1 << 62), (1 << 62)),
    Kind("unsigned long", 0, (1 << 63) - 1),
    Kind("enum color", 0, 1),
    Kind("_Bool", 0, 1),
    Kind("const char *", 0, 1 << 40),
)
HEAD = """
enum color { RED, GREEN };
struct one { int a; }; struct pair { long a, b; }; struct mixed { double a; long b; }; struct floats { float a, b; };
struct doubles { double a, b, c, d; }; struct large { char a[17]; }; struct three { char a[3]; };
struct nested { struct floats a; union { int b; char c[6]; }; };
struct packed { char a; int b; } __attribute__((packed));
struct single { float a[3]; }; struct x87 { long double a; };
struct bits { char a; int b:3, c:17; }; struct wide { _Complex long double a; };
struct cdouble { _Complex double a; }; struct cfloat { _Complex float a; long b; };
"""
OTHERS = (
    Kind("float", literal="1.5f"),
    Kind("double", literal="2.5"),
    Kind("long double", literal="3.5L"),
    Kind("__int128", literal="7"),
    Kind("_Complex double", literal="1.0"),
    Kind("_Complex float", literal="1.0f"),
    Kind("_Complex long double", literal="1.0L"),
    *(Kind(f"struct {name}", literal=f"(struct {name}){{0}}") for name in re.findall(r"struct (\w+) {", HEAD)),
)
#: Types of results, some of which are returned where an argument before the others says.
RESULTS = [("int", "0"), ("void", ""), ("long double", "0"), ("__int128", "0"), ("_Complex long double", "0")]
RESULTS += [(each.name, each.literal) for each in OTHERS if each.name.startswith("struct")]


class Function(NamedTuple):
    """A function in C, the call of it, and what a script prints of its arguments."""

    text: str
    call: str
    script: str
    printed: str


def any_function(chance, number, path):
    """Up to 13 parameters of any types, in any order; those that a script reads have values."""
    declared, values, names, printed = [], [], [], []
    for position in range(chance.randrange(1, 14)):
        kind = chance.choice(NUMBERS if chance.randrange(3) else OTHERS)
        declared.append(f"{kind.name} p{position}")
        if kind.literal:
            values.append(kind.literal)
            continue
        value = chance.choice((kind.least, kind.greatest, chance.randint(kind.least, kind.greatest)))
        values.append(f"({kind.name})({value}l)")
        names.append(f"(int64)args.p{position}")
        printed.append(str(value))
    uses = ", ".join(f'"m"(p{position})' for position in range(len(declared)))
    result, value = chance.choice(RESULTS)
    head = f"__attribute__((noipa)) {result} f{number}({', '.join(declared)})"
    text = f'{head} {{ __asm__ volatile("" :: {uses}); return {value}; }}'
    layout = " ".join(["%ld"] * len(names))
    script = f'uprobe:{path}:f{number} {{ printf("f{number}: {layout}\\n"{"".join(f", {each}" for each in names)}); }}'
    return Function(text, f"f{number}({', '.join(values)});", script, f"f{number}: {' '.join(printed)}")


def symbols_of(path: Path) -> dict[str, int]:
    """The functions of a file with their addresses."""
    return {symbol.name: symbol.value for symbol in ElfFile(str(path)).symbols() if symbol.is_function}


@pytest.mark.parametrize("optimization", ["-O0", "-O2"])
def test_arguments_lie_where_the_compiler_puts_them(optimization: str, tmp_path: Path) -> None:
    """60 functions with parameters by chance: numbers of all sizes, floats, structs by value, on the stack, too."""
    chance = random.Random(optimization)
    path = tmp_path / "program"
    functions = [any_function(chance, number, path) for number in range(60)]
    text = f"{HEAD}{chr(10).join(each.text for each in functions)}\nint main(void) {{ "
    compiled(path, text + " ".join(each.call for each in functions) + " return 0; }", optimization)
    found = printed_by("\n".join(each.script for each in functions), path).splitlines()
    for function, line in zip(functions, found, strict=True):
        assert line == function.printed, function


STRUCTS = """
#include <stdlib.h>
#include <string.h>
enum color { RED, GREEN = 255, BLUE = -1 };
struct inner { char tag; short n; };
typedef struct foo { int a; char text[10]; struct foo *next; struct inner in; union { int u; long v; };
    unsigned low:3, high:7; enum color color; int table[2][3]; _Bool flag; struct inner *inner; } foo_t;
#define APART __attribute__((noipa))
APART int f(int *n, foo_t *foo, void *opaque) { return *n; }
APART int g_one(int n) { return n; }
APART int g_two(long n) { return n; }
APART int h_one(short n) { return n; }
APART int h_two(short n) { return n; }
int main(int argc, char **argv) {
    int n = 13;
    struct inner other = {'z', -7};
    foo_t *foo = calloc(1, sizeof *foo);
    foo->a = 123; strcpy(foo->text, "hello"); foo->next = foo; foo->in.tag = 'a'; foo->in.n = -5; foo->v = -77;
    foo->low = 5; foo->high = 99; foo->color = BLUE; foo->table[1][2] = 6; foo->flag = 1; foo->inner = &other;
    f(&n, foo, foo);
    return g_one(1) + g_two(2) + h_one(3) + h_two(4) > 99;
}
"""
QUESTIONS = {
    "*args.n": "13",
    "args.foo->a": "123",
    "args.foo.a": "123",
    "args->foo->next->next->text": "hello",
    "(args.foo->in.n, args.foo->in.tag)": "(-5, 97)",
    "args.foo->in": "{ .tag = 97, .n = -5 }",
    "(args.foo->v, args.foo->u)": "(-77, -77)",
    "(args.foo->low, args.foo->high)": "(5, 99)",
    "args.foo->color": "BLUE",
    "args.foo->table[1][2]": "6",
    "args.foo->flag": "true",
    "args.foo->inner->n": "-7",
    "((struct foo *)args.opaque)->a": "123",
    "((foo_t *)arg2)->next->in.n": "-5",
    "sizeof(foo_t)": "88",
    "sizeof(struct inner)": "4",
    "offsetof(struct foo, in.n)": "26",
    "args.foo == args.opaque": "true",
    "args.foo->color == BLUE": "true",
    "(enum color)255": "GREEN",
    "sizeof(inner)": "4",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose function takes pointers to structs."""
    return compiled(tmp_path_factory.mktemp("structs") / "program", STRUCTS, "-O1")


def test_structs_of_the_program_are_known(program: Path) -> None:
    """Members of all kinds, by the argument's name and by a cast to the struct."""
    script = " ".join(f"print({question});" for question in QUESTIONS)
    found = printed_by(f"uprobe:{program}:f {{ {script} }}", program).splitlines()
    assert dict(zip(QUESTIONS, found, strict=True)) == QUESTIONS


def test_types_of_a_program_linked_as_a_whole(tmp_path: Path) -> None:
    """By -flto the code is in another unit than its types: those of the kernel by one name are not taken."""
    path = compiled(tmp_path / "program", STRUCTS.replace("struct inner", "struct file"), "-O2", "-flto")
    assert printed_by(f"uprobe:{path}:f {{ print((sizeof(struct file), args.foo->in.n)); }}", path) == "(4, -5)"


CPP = """
struct C { int x; int f(int); }; struct big { long a[5]; };
struct owner { long a; owner(long a) : a(a) {} ~owner() {} };
#define APART __attribute__((noipa))
APART int members(int (C::*m)(int), int q, int C::*d, int r) { return q + r + (m != 0) + (d != 0); }
APART int null(decltype(nullptr) n, int q) { return q; }
APART big result(int a, const char *s) { return {{a + s[0]}}; }
APART owner classes(int a) { return owner(a); }
struct T { int y; APART big method(int a); };
big T::method(int a) { return {{a + y}}; }
int C::f(int a) { return a + x; }
int main() { T t = {5}; char text[] = "hello"; // in memory that was touched
    return members(&C::f, 51, &C::x, 52) + null(nullptr, 61) + result(42, text).a[0] > 0
    && classes(71).a + t.method(81).a[0] > 999; }
"""


@pytest.mark.any_kernel
@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_arguments_of_cpp(compiler: str, tmp_path: Path) -> None:
    """Pointers to members, nullptr, and results in memory, which take registers of their own; classes are refused."""
    needs(f"command:{compiler}")
    path = tmp_path / "program"
    path.with_suffix(".cc").write_text(CPP)
    noipa = "-Dnoipa=noinline,optnone" if "clang" in compiler else "-Dnoipa=noipa"
    subprocess.run([compiler, "-g", "-O1", "-w", noipa, "-o", path, path.with_suffix(".cc")], check=True)
    names = {
        word: name
        for name in symbols_of(path)
        for word in ("members", "null", "result", "classes", "method")
        if word in name
    }
    script = f"""
        uprobe:{path}:{names["members"]} {{ print((args.q, args.r)); }}
        uprobe:{path}:{names["null"]} {{ print(args.q); }}
        uprobe:{path}:{names["result"]} {{ print((args.a, str(args.s))); }}
        uprobe:{path}:{names["method"]} {{ print((args.a, args.this->y)); }}
    """
    assert sorted(printed_by(script, path).splitlines()) == ["(42, hello)", "(51, 52)", "(81, 5)", "61"]
    script = f"uprobe:{path}:{names['classes']} {{ print(args.a); }}"
    if "clang" in compiler:
        assert printed_by(script, path) == "71"
    else:
        with pytest.raises(CompileError, match="where a is passed is not known"):
            printed_by(script, path)


def test_values_of_its_types_are_kept(program: Path) -> None:
    """In variables, with and without a type of their own, and in maps that another probe reads."""
    script = (
        f"uprobe:{program}:f {{ $a = args.foo; let $b : struct foo * = args.foo->next; @foo = $a; "
        'printf("%d %s\\n", $b->a, $a->text); } '
        f"uretprobe:{program}:f {{ print(@foo->in.n); delete(@foo); }}"
    )
    assert printed_by(script, program) == "123 hello\n-5"


def test_all_arguments_are_a_record(program: Path) -> None:
    """`print(args)`, as for functions of the kernel."""
    assert printed_by(f"uprobe:{program}:main {{ print(args); }}", program).startswith("{ .argc = 1, .argv = 0x")
    assert printed_by(f"uprobe:{program}:h_* {{ print(args); }}", program) == "{ .n = 3 }\n{ .n = 4 }"


REFUSED = {
    "uprobe:{}:f {{ print(args.fo); }}": "{}:f has no argument fo (did you mean foo?)",
    "uprobe:{}:f {{ print(args.foo->b); }}": "struct foo has no member b",
    "uretprobe:{}:f {{ print(args.foo); }}": "args are gone when a function returns: keep them in a map at its entry",
    "uprobe:{}:f,uprobe:{}:main {{ print(args.n); }}": "{}:main has no argument n",
    "uprobe:{}:g_* {{ print(args.n); }}": "g_one and g_two of {} have different parameters: probe them apart",
}


@pytest.mark.parametrize("script", REFUSED)
def test_what_is_not_known_is_refused(script: str, program: Path) -> None:
    """With the place, and what is known."""
    with pytest.raises(CompileError) as error:
        printed_by(script.format(program, program), program)
    assert REFUSED[script].format(program) in str(error.value)


def test_a_file_without_debugging_information_is_told(tmp_path: Path) -> None:
    """What to do about it; casts to the kernel's types go on as before."""
    path = compiled(tmp_path / "program", STRUCTS, "-O1", "-g0")
    with pytest.raises(CompileError, match=r"has no debugging information, which names parameters: compile it with -g"):
        printed_by(f"uprobe:{path}:f {{ print(args.n); }}", path)
    assert printed_by(f"uprobe:{path}:f {{ print(sizeof(struct pt_regs) > 0); }}", path) == "true"


def test_debug_files_have_it(tmp_path: Path) -> None:
    """A stripped program, whose debugging information lies in a file beside it."""
    path = compiled(tmp_path / "program", STRUCTS, "-O1")
    for command in ("objcopy --only-keep-debug program program.debug", "strip -K f program"):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    subprocess.run(["objcopy", "--add-gnu-debuglink=program.debug", "program"], cwd=tmp_path, check=True)
    assert printed_by(f"uprobe:{path}:f {{ print(args.foo->a); }}", path) == "123"


LINES = """
#define APART __attribute__((noipa))
APART int one(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += i * n;
    return sum;
}

APART int two(int n) { return one(n) + one(n + 1); }
int main(int argc, char **argv) { return two(3) + two(4) + one(argc) > 999; }
"""
#: How often each line's code begins, by the first instruction of it; the calls of one(): n of 3, 4, 4, 5 and 1.
CALLS = {"program.c:4": 5, "program.c:8": 5, "program.c:11": 2, "program.c:12": 1}


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a function of several lines."""
    return compiled(tmp_path_factory.mktemp("lines") / "program", LINES, "-O0")


@pytest.mark.parametrize("place", CALLS)
def test_probes_at_lines(place: str, lines: Path) -> None:
    """In Python and in a script; the end of a path tells files of one name apart."""
    bpf = BPF()
    counts = bpf.array(value=u64)

    @bpf.uprobe(str(lines), place)
    def count() -> None:
        counts[0] += 1

    with bpf:
        subprocess.run([lines], check=True)
        assert counts[0] == CALLS[place]
    script = f"uprobe:{lines}@{lines.parent.name}/{place} {{ @ = count(); }}"
    assert printed_by(script, lines) == f"@: {CALLS[place]}"


def test_probes_at_addresses(lines: Path) -> None:
    """That of a function, as the file's symbols have it, and one in it."""
    script = f"uprobe:{lines}:{symbols_of(lines)['two']:#x} {{ @[func] = count(); }}"
    assert printed_by(script, lines).endswith("]: 2")
    with pytest.raises(InvalidValue, match=r"address 0xffffffff of .*program is not in the file"):
        printed_by(f"uprobe:{lines}:0xffffffff {{ @ = count(); }}", lines)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("program.c:1", "line 1 of program.c has no code in {}: the next line that has some is 4"),
        ("program.c:99", "line 99 of program.c has no code in {}"),
        ("progam.c:4", "{} has no source file progam.c (did you mean program.c?)"),
        ("other/program.c:4", "{} has no source file other/program.c (did you mean program.c?)"),
    ],
)
def test_lines_without_code(place: str, message: str, lines: Path) -> None:
    """What the file has instead."""
    with pytest.raises(NotFound) as error:
        printed_by(f"uprobe:{lines}@{place} {{ @ = count(); }}", lines)
    assert str(error.value) == message.format(lines)


def test_missing_functions_may_be_left_out(lines: Path) -> None:
    """`missing_probes` is for functions of files, too."""
    config = 'config = {{ missing_probes = "{}" }} '
    script = f"uprobe:{lines}:two, uprobe:{lines}:three {{ @ = count(); }}"
    assert printed_by(config.format("ignore") + script, lines) == "@: 2"
    warned = Script(config.format("warn") + script)
    with warned:
        assert f"No matches for uprobe {lines}:three. Skipping." in warned.remarks[0]
    with pytest.raises(NotFound, match="has no function three"):
        printed_by(script, lines)


def test_files_of_a_process_are_listed() -> None:
    """With -p: its program, and the libraries that it has mapped."""
    rows = pyebpf("-l", "uprobe:*libc.so*:getp*id", "-p", str(os.getpid())).stdout.splitlines()
    assert {row.rpartition(":")[2] for row in rows} >= {"getpid", "getppid", "getpgid"}
    whole = {row.split(":")[1] for row in pyebpf("-l", "uprobe:*", "-p", str(os.getpid())).stdout.splitlines()}
    assert {os.path.realpath("/proc/self/exe"), *[row.split(":")[1] for row in rows]} <= whole


# -- files that others made --------------------------------------------------------------------------------------------

HOSTILE = """
struct TYPE_NAME { int MEMBER_NAME; } ;
enum ENUM_NAME { CONSTANT_NAME };
struct inner { struct { int a; } m; int b; };
struct outer { struct inner m; int b; };
__attribute__((noipa)) int f(struct TYPE_NAME *PARAMETER_NAME, enum ENUM_NAME e, struct TYPE_NAME *x, struct outer *y)
{ return y->b; }
int main(int argc, char **argv) { struct outer y = {}; return f(0, CONSTANT_NAME, (void *)argv, &y); }
"""
ESCAPE = b"\x1b[31m\n\x07"


def test_names_are_printed_harmlessly(tmp_path: Path) -> None:
    """What a terminal would obey is written out, in lists and messages; a member of such a name is none."""
    path = compiled(tmp_path / "program", HOSTILE, "-O1")
    data = path.read_bytes()
    for name in (b"TYPE_NAME", b"MEMBER_NAME", b"ENUM_NAME", b"CONSTANT_NAME", b"PARAMETER_NAME"):
        assert name in data
        data = data.replace(name, ESCAPE + name[len(ESCAPE) :])
    path.write_bytes(data)
    listed = [pyebpf(*words, f"u:{path}:f") for words in (("list", "-v"), ("list", "--json"), ("-lv",))]
    scripts = ("print(args.e)", "print(args.x->a)", "print(args.nothing)", "print(*args.x)", "print(args)")
    ran = [pyebpf("-e", f"uprobe:{path}:f {{ {text}; exit() }}", "-c", str(path)) for text in scripts]
    for each in (*listed, *ran):
        assert "\x1b" not in each.stdout + each.stderr
        assert "\x07" not in each.stdout + each.stderr
        assert not each.stdout.startswith("[31m")
    assert len(listed[0].stdout.splitlines()) == 5
    assert len(listed[2].stdout.splitlines()) == 5
    assert ran[0].stdout.split() == ["0"]


def test_a_struct_that_contains_itself_is_refused(tmp_path: Path) -> None:
    """Its members can be written; it is not kept whole."""
    path = compiled(tmp_path / "program", HOSTILE, "-O1")
    elf = ElfFile(str(path))
    outer = DebugTypes(elf).signature(symbols_of(path)["f"]).parameters[3].type.element
    inner = DebugTypes(elf).members(outer)[0].type
    section = elf.section(".debug_info")
    data = bytearray(path.read_bytes())
    info = data[section.offset : section.offset + section.size]
    old, new = (place.place.to_bytes(4, "little") for place in (inner, outer))
    at = info.index(old, outer.place)  # the first member's type
    info[at : at + 4] = new
    data[section.offset : section.offset + section.size] = info
    path.write_bytes(data)
    assert printed_by(f"uprobe:{path}:f {{ print(args.y->m.m.m.b); }}", path) == "0"
    for text in ("print(args.y->m)", "print(*args.y)"):
        with pytest.raises(CompileError, match="is not kept whole: write the members"):
            printed_by(f"uprobe:{path}:f {{ {text}; }}", path)


def test_bccs_specifications_need_no_signature(program: Path) -> None:
    """Names of parameters alone, with their members; with a signature that has the name, the signature counts."""
    specs = (
        "-C", f"p:{program}:f():int,char*:foo->a,foo->next->text#by name",
        "-C", f"p:{program}:f(void *n, struct foo *other):int:other->in.n#by signature",
        "-C", f"r:{program}:h_one():int:$entry(n)#at the return",
    )  # fmt: skip
    with running("argdist", *specs, "600") as tool:
        subprocess.run([program], check=True)
        tool.stop()
    assert tool.out.splitlines()[1:] == [
        "by name", "[123, hello]: 1", "by signature", "[-5]: 1", "at the return", "[3]: 1"
    ]  # fmt: skip
    done = pyebpf("argdist", "-C", f"p:{program}:f():int:fo")
    assert done.stderr.startswith(f"pyebpf argdist: {program}:f has no argument fo (did you mean foo?)\n")


def test_parameters_are_listed(program: Path) -> None:
    """By `list -v` with their sizes, in JSON, and as bpftrace lists them."""
    rows = [line.split() for line in pyebpf("list", "-v", f"u:{program}:f").stdout.splitlines()]
    assert rows == [
        [f"uprobe:{program}:f"],
        ["int", "*n", "8", "bytes"],
        ["foo_t", "*foo", "8", "bytes"],
        ["void", "*opaque", "8", "bytes"],
    ]
    record = json.loads(pyebpf("list", "--json", f"u:{program}:g_two").stdout)
    assert record["arguments"] == [{"name": "n", "type": "long int", "size": 8}]
    lines = pyebpf("-lv", f"uprobe:{program}:[fm]*").stdout.splitlines()
    assert lines[lines.index(f"uprobe:{program}:main") + 1 :] == ["    int argc", "    char** argv"]


CHARACTERS = """
struct letters { char plain[6]; unsigned char natural[6]; char four[4]; char full[6]; double real; };
__attribute__((noinline)) int take(struct letters *x) { return x->plain[0]; }
struct letters letters = {{'a', 0, 'b', -1, 0, 'c'}, {'a', 0, 'b', 255, 0, 'c'}, {'7', 0, 0, 1}, "abcdef"};
int main(void) { return take(&letters) == 0; }
"""
BYTES = r"a\x00b\xff\x00c"
ANSWERS = {
    "(ntop(args.x->four), macaddr(args.x->plain), args.x->plain[3])": "(55.0.0.1, 61:00:62:FF:00:63, -1)",
    "(buf(args.x->plain, 6), buf(args.x->plain), buf(args.x->plain, $three))": f"({BYTES}, {BYTES}, {BYTES[:6]})",
    r'(memcmp(args.x->plain, args.x->natural, 6), memcmp(args.x->plain, "a\x00c", 3))': "(0, -1)",
    "*args.x": "{ .plain = a, .natural = [97,0,98,255,0,99], .four = 7, .full = abcdef, .real = null }",
    '(args.x->plain == "a", (int8[6])args.x->plain, args.x->plain[$three])': "(true, [97,0,98,-1,0,99], -1)",
    '(args.x->full, sizeof(args.x->full), strcap(args.x->full), args.x->full == "abcdef")': "(abcdef, 6, 6, true)",
}


def test_an_array_of_char_has_all_its_bytes(tmp_path: Path) -> None:
    """Those behind a NUL where bytes are meant, and they are signed; as text it ends there, or where it is full."""
    path = compiled(tmp_path / "program", CHARACTERS, "-O1")
    script = " ".join(f"print({question});" for question in ANSWERS)
    found = printed_by(f"uprobe:{path}:take {{ $three = 3 + (pid & 0); {script} }}", path).splitlines()
    assert dict(zip(ANSWERS, found, strict=True)) == ANSWERS
    with pytest.raises(CompileError, match="index 6 lies outside the array of 6"):
        printed_by(f"uprobe:{path}:take {{ print(args.x->plain[6]); }}", path)
