"""memleak: what a program of the test's own keeps and frees, which it counts itself."""

from __future__ import annotations

import json
import time

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.programs import memleak
from tests.support.command import running
from tests.support.folded import parse_folded
from tests.support.native import build_native
from tests.support.needs import needs
from tests.support.told import told

# Emulated, these take minutes; what is tested here is the same on every kernel, and uprobes have tests of their own.
pytestmark = pytest.mark.any_kernel
#: To each line it allocates by every function, or frees half of that, and writes "done".
PROGRAM = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MANY 14
static void *kept[MANY];
__attribute__((noinline)) void by_malloc(void) { for (int i = 0; i < MANY; i++) kept[i] = malloc(100 + i); }
__attribute__((noinline)) void by_calloc(void) { void *p = calloc(3, 1001); __asm__ volatile("" : : "r"(p)); }
__attribute__((noinline)) void by_realloc(void) {
    void *p = malloc(17);
    for (int i = 0; i < 5; i++) p = realloc(p, 5000 + i);
    __asm__ volatile("" : : "r"(p));
}
__attribute__((noinline)) void by_alignment(void) {
    void *p;
    if (posix_memalign(&p, 64, 211)) exit(1);
    if (!memalign(64, 223) || !aligned_alloc(64, 256) || !valloc(227) || !pvalloc(229)) exit(1);
    if (posix_memalign(&p, 3, 9999) == 0) exit(1);
}
__attribute__((noinline)) void passing(void) {
    for (int i = 0; i < 1009; i++) { void *p = malloc(i); __asm__ volatile("" : : "r"(p)); free(p); }
}
int main(void) {
    char line[16];
    setvbuf(stdout, 0, _IONBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'a') { by_malloc(); by_calloc(); by_realloc(); by_alignment(); passing(); }
        else for (int i = 0; i < MANY; i += 2) free(kept[i]);
        puts("done");
    }
    return 0;
}
"""
#: An allocator with names of its own, of which one allocation is kept and another freed.
OWN = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#define BARRIER __asm__ volatile("")
#define OWN __attribute__((noinline))
OWN void *own_malloc(size_t n) { void *p = malloc(n); BARRIER; return p; }
OWN void *own_calloc(size_t m, size_t n) { void *p = calloc(m, n); BARRIER; return p; }
OWN void *own_realloc(void *p, size_t n) { p = realloc(p, n); BARRIER; return p; }
OWN int own_posix_memalign(void **p, size_t a, size_t n) { int r = posix_memalign(p, a, n); BARRIER; return r; }
OWN void *own_memalign(size_t a, size_t n) { void *p = memalign(a, n); BARRIER; return p; }
OWN void own_free(void *p) { free(p); BARRIER; }
int main(void) {
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        void *p = own_malloc(17), *kept = own_calloc(7, 143), *other;
        own_free(own_realloc(p, 29));
        if (own_posix_memalign(&other, 64, 211)) return 1;
        own_free(other);
        free(malloc(1));
        fprintf(stderr, "%p", kept);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
"""
MANY = 14
SIZES = [100 + number for number in range(MANY)]
#: Bytes and number of what each function keeps.
EXPECTED = {
    "by_malloc": (sum(SIZES), MANY),
    "by_calloc": (3003, 1),
    "by_realloc": (5004, 1),
    "by_alignment": (211 + 223 + 256 + 227 + 229, 5),
}
FREED = (sum(SIZES[1::2]), MANY // 2)


@pytest.fixture
def program(tmp_path):
    needs("attach:uprobe")
    with told(build_native(PROGRAM, tmp_path / "keeps", "-fno-builtin")) as process:
        process.tell("free nothing")  # what the C library allocates for input is there before
        yield process


def by_function(leaks):
    """Bytes and number by the function that called; those of by_alignment() called five."""
    found = {}
    for leak in leaks:
        (name,) = [each for each in leak.stack if each in EXPECTED]
        size, count = found.get(name, (0, 0))
        found[name] = size + leak.bytes, count + leak.allocations
    return found


def test_each_function(program):
    """What is kept, exactly, by its stack; nothing of what was freed, and less after more was."""
    with memleak.open(pid=program.pid, older=0) as snapshot, memleak.open(pid=program.pid, older=60_000) as old:
        program.tell("allocate")
        found = snapshot()
        assert by_function(found) == EXPECTED
        assert [leak.bytes for leak in found] == sorted(leak.bytes for leak in found)
        assert all("main" in leak.stack for leak in found)
        program.tell("free")
        assert by_function(snapshot()) == {**EXPECTED, "by_malloc": FREED}
        assert not old()
        assert not snapshot.dropped


def test_sizes_and_the_largest(program):
    """-z and -Z choose by size, --top the stacks with the most bytes."""
    options = {"pid": program.pid, "older": 0}
    with memleak.open(min_size=113, max_size=3003, **options) as middle, memleak.open(top=2, **options) as largest:
        program.tell("allocate")
        assert by_function(middle()) == {
            "by_malloc": (113, 1),
            "by_calloc": EXPECTED["by_calloc"],
            "by_alignment": EXPECTED["by_alignment"],
        }
        assert list(by_function(largest())) == ["by_calloc", "by_realloc"]


def test_each_allocation_and_the_most(program):
    """-a has each allocation with its age, those of one stack together; --sort count has the most allocations last."""
    options = {"pid": program.pid, "older": 0}
    with memleak.open(show_allocs=True, **options) as each, memleak.open(sort="count", **options) as most:
        began = time.monotonic_ns()
        program.tell("allocate")
        found, largest = each(), most()
        elapsed = time.monotonic_ns() - began
    assert by_function(found) == EXPECTED
    (sizes,) = {tuple(leak.bytes for leak in found if "by_malloc" in leak.stack)}
    assert sizes == tuple(SIZES)
    assert len({leak.address for leak in found}) == sum(count for _, count in EXPECTED.values())
    assert all(0 < leak.age < elapsed for leak in found)
    counts = [leak.allocations for leak in largest]
    assert counts == sorted(counts)
    assert "by_malloc" in largest[-1].stack


def test_the_names_of_another_allocator(tmp_path):
    """-S follows functions whose names begin so, of the program itself, and not the C library's."""
    needs("attach:uprobe")
    with (
        told(build_native(OWN, tmp_path / "own", "-fno-builtin")) as process,
        memleak.open(pid=process.pid, older=0, obj=str(tmp_path / "own"), prefix="own_") as snapshot,
    ):
        process.tell("allocate")
        (leak,) = snapshot()
    assert (leak.bytes, leak.allocations) == (1001, 1)
    assert leak.stack[0] == "main"


def test_a_sample(program):
    """-s takes some of the allocations: with a rate of 7 neither none nor all of 2,100."""
    with memleak.open(pid=program.pid, older=0, sample_rate=7) as snapshot:
        for _ in range(100):
            program.tell("allocate")
        count = sum(leak.allocations for leak in snapshot())
    assert 100 < count < 700  # three hundred are likely


def test_the_command(program):
    """Text with the stack below each line, JSON with the functions; young allocations are left out."""
    ours = ("memleak", "-p", str(program.pid))
    with running(*ours, "--json") as objects, running(*ours) as text, running(*ours, "-o", "100000") as none:
        program.tell("allocate")
        time.sleep(0.6)
        for tool in (objects, text, none):
            tool.stop()
    found = objects.objects()
    sizes = {}
    for each in found:
        (name,) = [frame for frame in each["stack"] if frame in EXPECTED]
        sizes[name] = sizes.get(name, 0) + each["outstanding_bytes"]
    assert sizes == {name: size for name, (size, _) in EXPECTED.items()}
    lines = text.out.strip().splitlines()
    assert lines[0].split() == ["BYTES", "ALLOCS"]
    place = lines.index("\tby_malloc")
    assert lines[place - 1].split() == [str(number) for number in EXPECTED["by_malloc"]]
    assert none.out.strip().split() == ["BYTES", "ALLOCS"]


def test_a_process_must_be_named():
    """Without one, a line says so."""
    with pytest.raises(InvalidValue, match="--pid: name the process"):
        memleak.Options()


def test_the_stacks_of_what_is_left(program, tmp_path):
    """-f prints the bytes of each stack at the end, below the process's name, and a file has as many."""
    file = tmp_path / "out.json"
    ours = ("memleak", "-p", str(program.pid), "-o", "0")
    with running(*ours, "-f") as folded, running(*ours, "--speedscope", str(file)) as written:
        program.tell("allocate")
        for tool in (folded, written):
            tool.stop()
    stacks = parse_folded(folded.out.splitlines())
    sizes = {}
    for stack, size in stacks.items():
        (name,) = [frame for frame in stack if frame in EXPECTED]
        assert stack[0] == "keeps"
        assert stack.index("main") < stack.index(name)
        sizes[name] = sizes.get(name, 0) + size
    assert sizes == {name: size for name, (size, _) in EXPECTED.items()}
    (profile,) = json.loads(file.read_text())["profiles"]
    assert (profile["unit"], profile["endValue"]) == ("bytes", sum(sizes.values()))
