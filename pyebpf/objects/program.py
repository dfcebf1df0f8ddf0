"""`Program`: a loaded program made from a spec."""

from __future__ import annotations

import errno
import re
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Self

from pyebpf.asm import encode, resolve, slot_starts
from pyebpf.closing import Closing
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue, KernelError, NotFound, NotLoaded, NotSupported, VerifierError, check_argument
from pyebpf.kernel import bpf
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.objects.debug_info import debug_info
from pyebpf.objects.ksyms import KernelSymbols
from pyebpf.specs import ProgramSpec
from pyebpf.specs.programs import kernel_name
from pyebpf.uapi.bpf import MapType, ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.asm import Instruction
    from pyebpf.btf import Btf
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.kernel.info import ProgramInfo
    from pyebpf.objects.map import KernelMap
    from pyebpf.specs import AttachSpec

# Bytes. Memory that the kernel writes nothing to costs nothing; a million steps need some 50 MiB.
_FIRST_LOG, _MAX_LOG = 1 << 26, 1 << 29


class Program(Closing):
    """One program in the kernel; owns its descriptor.

    `maps` are the maps that its instructions name, `name` what the kernel calls it, if not by its own. Functions and
    variables of the kernel that it names are found in vmlinux's BTF (what `btf` gives, else the kernel's file), in the
    BTF of modules, and in /proc/kallsyms.

    Raises VerifierError (with `location` and `log`) if the verifier refuses it, NotPermitted, NotSupported or
    KernelError if it never came to that.
    """

    def __init__(
        self,
        spec: ProgramSpec,
        maps: Mapping[str, KernelMap],
        *,
        btf: Callable[[], Btf] | None = None,
        name: str = "",
    ) -> None:
        check_argument("spec", spec, ProgramSpec, "a ProgramSpec, as bpf.specs().programs has them")
        self.spec = spec
        #: The maps that it was given, by name: some kinds of attachment put into one what they find out.
        self.maps = maps
        for used in maps.values():
            if used.spec.type is MapType.ARENA:
                used.window()  # the kernel wants its address in user space before a program names it
        starts = slot_starts(spec.code.instructions)
        with KernelSymbols(spec.code.instructions, btf or _vmlinux, spec.code.weak, program=spec.name) as symbols:
            instructions = resolve(
                symbols.instructions,
                {name: used.fileno() for name, used in maps.items()},
                {subprogram.name: starts[subprogram.start] for subprogram in spec.code.subprograms},
                kfuncs=symbols.functions,
                ksyms=symbols.variables,
            )
            self._descriptor = _load(spec, instructions, name or spec.name, symbols.fd_array)

    @classmethod
    def opened(cls, spec: ProgramSpec, maps: Mapping[str, KernelMap], descriptor: Descriptor) -> Self:
        """A program that is loaded already, such as one that was pinned; `descriptor` is its own from here on."""
        program = cls.__new__(cls)
        program.spec, program.maps, program._descriptor = spec, maps, descriptor
        return program

    def __repr__(self) -> str:
        state = "closed" if self._descriptor.closed else f"fd {self._descriptor.fileno()}"
        return f"<Program {self.spec.name}, {self.spec.type.name}, {state}>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def closed(self) -> bool:
        return self._descriptor.closed

    def fileno(self) -> int:
        """The descriptor's number. Raises NotLoaded after `close()`."""
        if self._descriptor.closed:
            raise NotLoaded(f"program {self.spec.name} is closed")
        return self._descriptor.fileno()

    def info(self) -> ProgramInfo:
        """Id, sizes, runs, run time and recursion misses, as the kernel has them now."""
        from pyebpf.kernel.info import program_info

        return program_info(self.fileno())

    @property
    def recursion_misses(self) -> int:
        """Events that found the program running already on their processor, and were left out."""
        return self.info().recursion_misses

    def test_run(self, *, data: bytes = b"", data_out: int = 0, context: bytes = b"", repeat: int = 0) -> bpf.RunResult:
        """Run it by PROG_TEST_RUN. Raises NotSupported for kinds that have none (kprobe, tracepoint, perf event)."""
        try:
            return bpf.prog_test_run(
                self.fileno(),
                data=data,
                data_out=data_out,
                context=context,
                repeat=repeat,
                in_place=self.spec.type in (ProgramType.SYSCALL, ProgramType.RAW_TRACEPOINT),
            )
        except OSError as error:
            raise kernel_error(
                error,
                f"running program {self.spec.name} on test data",
                meanings={errno.ENOSPC: "the output buffer is too small: give a larger data_out"},
            ) from error

    def close(self) -> None:
        """Give up the descriptor; links keep the program alive."""
        self._descriptor.close()


def _vmlinux() -> Btf:
    from pyebpf.btf import Btf
    from pyebpf.kernel.btf_files import read_btf

    return Btf(read_btf())


def _load(spec: ProgramSpec, instructions: Sequence[Instruction], name: str, fd_array: bytes) -> Descriptor:
    debug = debug_info(spec.code)
    with ExitStack() as held:
        attach_fd, attach_btf = _attach_target(spec, held)
        if spec.code.btf is None:
            btf = bpf.btf_load(debug.btf).descriptor
        else:
            from pyebpf.objects.btf import shared_btf

            btf = shared_btf(debug.btf)
            if btf is None:  # kinds of types that this kernel does not know: its functions are then as static ones
                debug = debug_info(replace(spec.code, btf=None))
                btf = bpf.btf_load(debug.btf).descriptor
        # Without BTF (not permitted, or a kernel that has none) the program is loaded all the same.
        described = btf is not None
        if btf is not None:
            held.callback(btf.close)
        attempt = partial(
            bpf.prog_load,
            spec.type,
            encode(instructions),
            license=spec.license,
            name=kernel_name(name),
            expected_attach_type=spec.expected_attach_type,
            flags=spec.flags,
            attach_btf_id=attach_btf,
            attach_fd=attach_fd,
            btf_fd=btf.fileno() if btf is not None else 0,
            func_info=debug.func_info if described else b"",
            line_info=debug.line_info if described else b"",
            fd_array=fd_array,
            ifindex=_interface(spec),
        )
        # A log that does not fit makes a good program fail, and writing one takes time: first without.
        first = attempt()
        result = first if first.descriptor is not None else _with_log(attempt)
        # Accepted the second time: it was refused for a passing reason, memory or a signal.
        if result.descriptor is not None:
            return result.descriptor
        raise _refusal(spec, instructions, result.log, first.errno)


def _with_log(attempt: Callable[..., bpf.LoadResult]) -> bpf.LoadResult:
    """Load once more, with a log that fits, and with the verifier's states if it told none."""
    from pyebpf.verifier.log import has_states

    size = _FIRST_LOG
    while (result := attempt(log_level=1, log_size=size)).errno == errno.ENOSPC and size < _MAX_LOG:
        # Linux 6.1 does not tell the true size.
        size = min(max(2 * size, result.true_size), _MAX_LOG)
    if result.descriptor is None and not has_states(result.log):
        fuller = attempt(log_level=2, log_size=size)
        if fuller.errno != errno.ENOSPC and fuller.log:
            return fuller
    return result


def _attach_target(spec: ProgramSpec, held: ExitStack) -> tuple[int, int]:
    """The descriptor of a module's BTF or of the program to replace, 0 for neither, and the BTF id in it."""
    if spec.type is ProgramType.EXT:
        return _replaced(spec.attach)
    if not spec.attach_module:
        return 0, spec.attach_btf
    from pyebpf.kernel.btf_objects import module_btf

    module = module_btf(spec.attach_module)
    held.callback(module.close)
    return module.fileno(), spec.attach_btf


def _interface(spec: ProgramSpec) -> int:
    """The index of the one interface that a program is loaded for; 0 for any."""
    if spec.attach is None or not spec.attach.device:
        return 0
    from pyebpf.kernel.interfaces import interface_index  # imports socket, which most programs do without

    return interface_index(spec.attach.device)


def _replaced(place: AttachSpec | None) -> tuple[int, int]:
    """Descriptor of the program that a function is replaced of (`Freplace`), and the function's BTF id there."""
    from pyebpf.attach.freplace import Freplace

    if not isinstance(place, Freplace):
        raise InvalidValue("a program of type EXT replaces a function: give its ProgramSpec a Freplace as `attach`")
    program: Program = place.loaded
    code = program.spec.code
    functions = debug_info(code).functions
    if code.btf is not None and place.function in functions:
        return program.fileno(), functions[place.function]
    replaceable = {each.name for each in code.global_functions}
    for name, number in functions.items():
        if name in replaceable and name.rpartition(".")[0] == place.function:
            return program.fileno(), number
    raise NotFound(f"program {program.name} calls no function {place.function} that can be replaced")


#: TRACE_FENTRY, TRACE_FEXIT, MODIFY_RETURN and LSM_MAC of enum bpf_attach_type.
_TRAMPOLINES = frozenset({24, 25, 26, 27})


#: Of kernel/bpf/btf.c, on a function and not on the program: what btf_distill_func_proto() makes no trampoline for.
_UNSUITABLE = re.compile(r"The function (\S+) (?:(has \d+ arguments)|(arg\d+|return) type .+ is unsupported)")


def _unsuitable(log: str) -> str | None:
    """The verifier's refusal of the function that a trampoline is wanted for, in words."""
    found = _UNSUITABLE.search(log)
    if found is None:
        return None
    function, arguments, part = found.groups()
    reason = f"{arguments}, too many" if arguments else f"has an {part} of a type that it does not pass on"
    return f"the kernel makes no trampoline for {function}(), which {reason}: use @bpf.kprobe"


def _without_trampolines() -> bool:
    """Whether that is the kernel's own answer to everybody, not to a process that lacks a privilege."""
    from pyebpf.features import Features, Support

    return Features().ask("attach:fentry") is Support.NO


def _refusal(spec: ProgramSpec, instructions: Sequence[Instruction], log: str, number: int) -> KernelError:
    what = f"loading program {spec.name}"
    from pyebpf.verifier.fault import fault_location
    from pyebpf.verifier.log import explain

    explained = explain(log)
    if spec.expected_attach_type in _TRAMPOLINES and (unsuitable := _unsuitable(log)):
        return NotSupported(f"{what}: {unsuitable}", number)
    if explained is None:
        if number == errno.EPERM and spec.expected_attach_type in _TRAMPOLINES and _without_trampolines():
            return NotSupported(f"{what}: this kernel has no trampolines for programs, or refuses them", number)
        if number == errno.EPERM:
            from pyebpf.kernel.memlock import shortage

            if full := shortage(what):
                return full
        from pyebpf.features.requirements import lacking, lacking_program

        if spec.attach is not None:
            missing = lacking(spec.attach, what, number)
        else:
            missing = lacking_program(spec.type, what, number)
        if missing is not None:
            return missing
        if number == errno.EOPNOTSUPP and spec.attach is not None and spec.attach.device:
            return KernelError(f"{what}: the driver of {spec.attach.device} has no functions for XDP programs", number)
        return kernel_error(
            number,
            what,
            meanings={
                errno.EINVAL: (
                    f"the kernel takes no {spec.type.name} program with attach type {spec.expected_attach_type},"
                    f" BTF id {spec.attach_btf}, flags {spec.flags:#x}"
                ),
                errno.E2BIG: f"too long: {sum(i.slots for i in instructions)} instructions",
            },
        )
    location = fault_location(instructions, spec.code.subprograms, explained)
    return VerifierError(f"{spec.name}: {explained}", number, location=location, log=log)
