"""bpf(2) by command."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys

import pytest

from pyebpf.asm import build, encode
from pyebpf.asm.build import R0, R1, R2, R6, R10
from pyebpf.errors import NotPermitted, NotSupported
from pyebpf.kernel import bpf, info, map_elements
from pyebpf.kernel.descriptor import Descriptor, open_descriptors
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.errno_table import ENOTSUPP
from tests.support.needs import needs

U32, U64 = struct.Struct("=I"), struct.Struct("=Q")
NOEXIST, EXIST = 1, 2


@pytest.fixture
def table():
    """A hash from u32 to u64 for 23 entries."""
    with bpf.map_create(MapType.HASH, 4, 8, 23, name="table") as descriptor:
        yield descriptor.fileno()


def key(number: int) -> bytes:
    return U32.pack(number)


def value(number: int) -> bytes:
    return U64.pack(number)


def test_an_element_is_stored_found_and_removed(table):
    """Update, look-up, delete."""
    map_elements.map_update_elem(table, key(7), value(1 << 60))
    assert map_elements.map_lookup_elem(table, key(7), 8) == value(1 << 60)
    map_elements.map_delete_elem(table, key(7))
    with pytest.raises(FileNotFoundError):
        map_elements.map_lookup_elem(table, key(7), 8)
    with pytest.raises(FileNotFoundError):
        map_elements.map_delete_elem(table, key(7))


def test_update_flags_say_whether_the_key_may_exist(table):
    """BPF_NOEXIST and BPF_EXIST."""
    with pytest.raises(FileNotFoundError):
        map_elements.map_update_elem(table, key(1), value(1), EXIST)
    map_elements.map_update_elem(table, key(1), value(1), NOEXIST)
    with pytest.raises(FileExistsError):
        map_elements.map_update_elem(table, key(1), value(2), NOEXIST)
    map_elements.map_update_elem(table, key(1), value(3), EXIST)
    assert map_elements.map_lookup_elem(table, key(1), 8) == value(3)


def test_a_full_hash_says_e2big(table):
    """The twenty-fourth of twenty-three."""
    for number in range(23):
        map_elements.map_update_elem(table, key(number), value(number))
    with pytest.raises(OSError, match="Argument list too long") as caught:
        map_elements.map_update_elem(table, key(23), value(23))
    assert caught.value.errno == errno.E2BIG


def test_keys_follow_one_another_to_the_end(table):
    """GET_NEXT_KEY from None meets every key once."""
    wanted = {key(number) for number in range(17)}
    for each in wanted:
        map_elements.map_update_elem(table, each, value(0))
    seen = []
    at = map_elements.map_get_next_key(table, None, 4)
    while at is not None:
        seen.append(at)
        at = map_elements.map_get_next_key(table, at, 4)
    assert len(seen) == 17
    assert set(seen) == wanted


def test_lookup_and_delete_takes_the_element(table):
    """One step, exactly once."""
    needs("kernel:5.14")  # hashes can
    map_elements.map_update_elem(table, key(5), value(55))
    assert map_elements.map_lookup_and_delete_elem(table, key(5), 8) == value(55)
    with pytest.raises(FileNotFoundError):
        map_elements.map_lookup_and_delete_elem(table, key(5), 8)


def test_a_queue_has_no_keys():
    """Push with update, pop with lookup_and_delete, in order."""
    with bpf.map_create(MapType.QUEUE, 0, 8, 4) as queue:
        for number in range(3):
            map_elements.map_update_elem(queue.fileno(), b"", value(number))
        popped = [map_elements.map_lookup_and_delete_elem(queue.fileno(), b"", 8) for _ in range(3)]
    assert popped == [value(0), value(1), value(2)]


def test_batches_write_read_and_remove(table):
    """UPDATE_BATCH, LOOKUP_BATCH, LOOKUP_AND_DELETE_BATCH."""
    keys, values = b"".join(map(key, range(19))), b"".join(map(value, range(19)))
    assert map_elements.map_update_batch(table, keys, values, 19) == (19, 0)
    got_keys, got_values, count, position = map_elements.map_lookup_batch(table, None, 64, 4, 8)
    assert (count, position) == (19, None)
    pairs = zip(U32.iter_unpack(got_keys), U64.iter_unpack(got_values), strict=True)
    assert all(k == v for k, v in pairs)
    assert map_elements.map_lookup_and_delete_batch(table, None, 64, 4, 8)[2] == 19
    assert map_elements.map_get_next_key(table, None, 4) is None


def test_a_batch_larger_than_asked_for_goes_on_where_it_stopped():
    """Positions carry from call to call, and the last one says so."""
    with bpf.map_create(MapType.ARRAY, 4, 8, 101) as array:
        position, counts = None, []
        while True:
            _, _, count, position = map_elements.map_lookup_batch(array.fileno(), position, 40, 4, 8)
            counts.append(count)
            if position is None:
                break
    assert sum(counts) == 101


def test_delete_batch_stops_at_the_first_missing_key(table):
    """How many were done, and why no more."""
    for number in (0, 1, 3):
        map_elements.map_update_elem(table, key(number), value(0))
    keys = b"".join(map(key, range(4)))
    assert map_elements.map_delete_batch(table, keys, 4) == (2, errno.ENOENT)


def test_a_frozen_map_is_closed_to_writes(table):
    """EPERM for user space afterwards."""
    map_elements.map_freeze(table)
    with pytest.raises(PermissionError):
        map_elements.map_update_elem(table, key(1), value(1))


def test_a_refused_program_has_a_log_and_no_descriptor():
    """PROG_LOAD does not raise: the log belongs to the result."""
    before = open_descriptors()
    result = bpf.prog_load(ProgramType.SOCKET_FILTER, encode([build.mov64(R0, 0)]), log_level=1, log_size=4096)
    assert result.descriptor is None
    assert result.errno == errno.EINVAL
    assert "not an exit" in result.log
    assert open_descriptors() == before


def test_a_log_that_does_not_fit_is_enospc():
    """Nothing is said about the program then; Linux 6.4 and later tell the true size."""
    code = encode([build.mov64(R0, 0)] * 100 + [build.exit_()])
    result = bpf.prog_load(ProgramType.SOCKET_FILTER, code, log_level=2, log_size=128)
    assert result.errno == errno.ENOSPC
    assert result.true_size == 0 or result.true_size > 128


def test_a_program_runs_on_test_data():
    """PROG_TEST_RUN: the packet's length back as the result."""
    code = encode([build.ldx(4, R0, R1, 0), build.exit_()])
    result = bpf.prog_load(ProgramType.SOCKET_FILTER, code, name="length")
    assert result.descriptor is not None
    with result.descriptor as program:
        run = bpf.prog_test_run(program.fileno(), data=bytes(71), repeat=3)
        assert run.retval == 71 - 14  # a socket filter does not see the Ethernet header
        about = info.program_info(program.fileno())
        assert (about.type, about.name) == (ProgramType.SOCKET_FILTER, "length")


def test_a_context_is_written_back():
    """A syscall program stores a 64-bit result where the caller reads it."""
    needs("program:syscall")
    code = encode([build.lddw(R2, 0x1122334455667788), build.stx(8, R1, 8, R2), build.mov64(R0, 0), build.exit_()])
    result = bpf.prog_load(ProgramType.SYSCALL, code, flags=16)
    assert result.descriptor is not None
    with result.descriptor as program:
        run = bpf.prog_test_run(program.fileno(), context=bytes(16), in_place=True)
    assert run.context == bytes(8) + U64.pack(0x1122334455667788)


def test_runs_are_counted_while_statistics_are_on():
    """BPF_ENABLE_STATS by descriptor: no global setting is changed."""
    result = bpf.prog_load(ProgramType.RAW_TRACEPOINT, encode([build.mov64(R0, 0), build.exit_()]))
    assert result.descriptor is not None
    with result.descriptor as program:
        with bpf.enable_stats():
            for _ in range(13):
                bpf.prog_test_run(program.fileno())
        counted = info.program_info(program.fileno()).run_count
        bpf.prog_test_run(program.fileno())
        assert info.program_info(program.fileno()).run_count in {counted, counted + 1}
    assert counted in {0, 13}  # Linux 6.1 and some later ones do not count test runs


def test_objects_are_found_by_their_ids(table):
    """A walk over all ids meets the map; its descriptor by id is the same map."""
    about = info.map_info(table)
    assert (about.type, about.key_size, about.value_size, about.max_entries) == (MapType.HASH, 4, 8, 23)
    assert about.name == "table"
    numbers = set()
    number = bpf.map_get_next_id(0)
    while number is not None:
        numbers.add(number)
        number = bpf.map_get_next_id(number)
    assert about.id in numbers
    with bpf.map_get_fd_by_id(about.id) as again:
        map_elements.map_update_elem(again.fileno(), key(3), value(4))
    assert map_elements.map_lookup_elem(table, key(3), 8) == value(4)


def test_a_per_cpu_sum_is_not_lost_between_programs_and_readers():
    """An atomic add in a program, 1,009 runs, read back."""
    with bpf.map_create(MapType.ARRAY, 4, 8, 1) as array:
        code = [
            build.mov64(R6, R1),
            build.st(4, R10, -4, 0),
            build.load_map(R1, array.fileno()),
            build.mov64(R2, R10),
            build.add64(R2, -4),
            build.call(1),
            build.jump_if("jeq", R0, 0, 2),
            build.mov64(R1, 1),
            build.atomic("add", 8, R0, 0, R1),
            build.mov64(R0, 0),
            build.exit_(),
        ]
        result = bpf.prog_load(ProgramType.SOCKET_FILTER, encode(code))
        assert result.descriptor is not None
        with result.descriptor as program:
            bpf.prog_test_run(program.fileno(), data=bytes(64), repeat=1009)
        assert map_elements.map_lookup_elem(array.fileno(), key(0), 8) == value(1009)


def test_a_descriptor_closes_once():
    """Twice is harmless; its number is gone."""
    descriptor = bpf.map_create(MapType.ARRAY, 4, 8, 1)
    number = descriptor.fileno()
    assert open_descriptors()[number].startswith("map")
    descriptor.close()
    descriptor.close()
    assert descriptor.closed
    assert number not in open_descriptors()
    with pytest.raises(ValueError, match="closed"):
        descriptor.fileno()


def test_a_forgotten_descriptor_warns_and_closes():
    """ResourceWarning, as files have it."""
    descriptor = bpf.map_create(MapType.ARRAY, 4, 8, 1, name="forgotten")
    number = descriptor.fileno()
    with pytest.warns(ResourceWarning, match="forgotten"):
        Descriptor.__del__(descriptor)
    assert number not in open_descriptors()


DROPPED = """
import os
from pyebpf.kernel import bpf
from pyebpf.kernel.errors_in_words import kernel_error
os.setuid(65534)
try:
    bpf.map_create(1, 4, 8, 1)
except OSError as error:
    print(kernel_error(error, "creating map counts", needs=("CAP_BPF",)))
"""


def test_an_ordinary_user_is_told_what_is_missing():
    """One line with the capability; the process below has given up root."""
    run = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, check=True)
    assert run.stdout == "creating map counts needs root, or CAP_BPF; missing here: CAP_BPF (EPERM)\n"


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EPERM, NotPermitted), (errno.EACCES, NotPermitted), (ENOTSUPP, NotSupported), (errno.ENOSYS, NotSupported)],
)
def test_an_errno_becomes_the_error_of_its_kind(number, kind):
    """Privileges, missing features, and the kernel's own ENOTSUPP that Python cannot name."""
    error = kernel_error(number, "attaching")
    assert type(error) is kind
    assert error.errno == number
    assert "attaching" in str(error)


def test_a_pinned_map_is_found_again(table, unmounted_bpffs):
    """By its path; the same map."""
    bpf.obj_pin(table, f"{unmounted_bpffs}/counts")
    map_elements.map_update_elem(table, key(8), value(88))
    with bpf.obj_get(f"{unmounted_bpffs}/counts") as again:
        assert map_elements.map_lookup_elem(again.fileno(), key(8), 8) == value(88)
    with pytest.raises(FileExistsError):
        bpf.obj_pin(table, f"{unmounted_bpffs}/counts")
    with pytest.raises(FileNotFoundError):
        bpf.obj_get(f"{unmounted_bpffs}/other")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_have_a_remedy(number):
    """Whatever the call was that they stopped."""
    error = kernel_error(OSError(number, os.strerror(number)), "attaching on_exit")
    assert str(error).startswith(f"attaching on_exit failed: {os.strerror(number)}, raise the limit: ulimit -n")
