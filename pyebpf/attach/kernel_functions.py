"""Functions of the kernel: names and patterns, parameters and results by BTF's names; for kprobes and trampolines."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, TypeVar

from pyebpf.attach import registers
from pyebpf.attach.call_arguments import call_argument_type
from pyebpf.builder.context import ProgramContext, annotated
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_objects import plain_name
from pyebpf.builder.values.memory import Space
from pyebpf.builder.values.pointers import Pointer
from pyebpf.compiler.ir import Op
from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, NotFound, NotSupported, closest
from pyebpf.specs.attach_point import AttachSpec, is_pattern
from pyebpf.types import S64, U64, CharFactory

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelFunction, KernelType, Target
    from pyebpf.types.tracepoint import TracepointField

S = TypeVar("S", bound=AttachSpec)

#: Functions that a pattern may match at most, unless its author says otherwise.
MAX_PROBES = 1000
#: In the record of a tracepoint of a system call: where its first argument stands, and the bytes of each.
_FIRST_ARGUMENT, _ARGUMENT_SIZE = 16, 8
RETVAL = "retval"  # the name of the value that a function returns
#: Names of 64 bits whatever the types: an argument by its position, of functions without a parameter of that name, and
#: the result.
_BY_POSITION = re.compile(r"arg([0-5])", re.ASCII)
RAW_RETVAL = "raw_retval"
#: The syntax of a function's name or a pattern; a module may stand before, an offset behind.
_NAME = re.compile(r"(?:[\w*?\[\]!-]+:)?[\w.$*?\[\]!-]+(?P<offset>\+(?:0x[0-9a-fA-F]+|\d+))?", re.ASCII)

_ADDRESS = re.compile(r"0x[0-9a-f]+")


def split(function: str) -> tuple[str, str, str]:
    """Module, name and offset of "module:name+offset"; empty where not given."""
    module, _, name = function.rpartition(":")
    name, _, offset = name.partition("+")
    return module, name, offset


def address_of_code(function: str) -> int | None:
    """The address that stands in place of a function's name, "0xffffffff81234567"; None for a name."""
    return int(function, 16) if _ADDRESS.fullmatch(function) else None


def not_loaded(function: str) -> NotFound:
    """The error for a function of a module that is not loaded."""
    module, _, _ = split(function)
    return NotFound(f"no function {function}: module {module} is not loaded (modprobe {module})")


def in_words(functions: tuple[str, ...]) -> str:
    """Return the functions for a message, the first of many."""
    if len(functions) <= 2:
        return " and ".join(functions)
    return f"{functions[0]} and {len(functions) - 1} more"


def check_names(decorator: str, functions: tuple[str, ...], *, offsets: bool = False) -> None:
    """Refuse what is not a name of a function, and offsets unless the decorator takes them. Raises InvalidValue."""
    for function in functions:
        found = _NAME.fullmatch(function)
        if found is None:
            raise InvalidValue(f'@bpf.{decorator}({function!r}): write a function\'s name, such as "tcp_sendmsg"')
        if found["offset"] and not offsets:
            raise InvalidValue(f"@bpf.{decorator}({function!r}): only @bpf.kprobe takes an offset within a function")
        if found["offset"] and is_pattern(function):
            raise InvalidValue(f"@bpf.{decorator}({function!r}): a pattern has no offset")


# Functions that run between an event and its program, or while one is detached. The verifier refuses some of them on
# newer kernels (btf_id_deny of kernel/bpf/verifier.c). Linux 6.1 stops for good when a trampoline is put on
# __rcu_read_lock.
_DENIED = r"""
      _*rcu_(read_(un)?lock|nmi|irq|note_context|eqs|dynticks|user|idle|is_watching|preempt|momentary)\w*
    | _*(migrate_(dis|en)able|preempt_count_(add|sub)|preempt_schedule(_notrace)?)
    | _*bpf_(prog_(enter|exit)|tramp|trampoline|dispatcher|kprobe|get_func_ip|get_attach_cookie)\w*
    | (kprobe|kretprobe|rethook|fprobe|ftrace|trace_call_bpf|perf_trace_run_bpf)\w*
    | __ftrace_invalid_address___\d+
    | __(pfx|cfi)_\w+
"""


@functools.cache
def _matcher() -> re.Pattern[str]:
    return re.compile(_DENIED, re.VERBOSE | re.ASCII)


def is_denied(function: str) -> bool:
    """Whether probes keep away from a function: a pattern leaves it out, and no trampoline is put on it by name."""
    return _matcher().fullmatch(function) is not None


@dataclass(frozen=True, slots=True)
class PassedArgument:
    """A parameter of a function: its first register or slot of 8 bytes, and its type."""

    name: str
    slot: int
    type: KernelType
    nullable: bool


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A function of the kernel, as far as it is known.

    `call` is the system call whose function it is: its only argument is the address of the saved registers.
    `passed` is None where BTF lacks the function.
    """

    name: str
    call: str
    passed: tuple[PassedArgument, ...] | None
    returns: KernelType | None
    slots: int


def btf_function(target: Target, function: str) -> KernelFunction | None:
    """Return the function's types in BTF; None if it has none, or if there is no BTF."""
    module, name, _ = split(function)
    if not target.has_function(name):
        return None
    found = target.function(name)
    return found if module in {"", found.module} else None


def system_call(target: Target, name: str) -> str:
    """The name of the function that a system call's `sys_NAME` stands for: `__x64_sys_NAME` has its arguments."""
    from pyebpf.arch import architecture

    arch = architecture(target.arch)
    call = name.removeprefix("sys_")
    if call == name or not arch.call_prefix:
        return name
    wrapper = arch.call_prefix + call
    return wrapper if call in arch.system_calls or btf_function(target, wrapper) is not None else name


def callee(target: Target, function: str) -> TracedFunction:
    """Ask for a function's parameters and result."""
    from pyebpf.arch import architecture

    _, name, offset = split(function)
    prefix = architecture(target.arch).call_prefix
    call = name.removeprefix(prefix) if prefix and name.startswith(prefix) else ""
    found = None if offset or address_of_code(function) else btf_function(target, function)
    if found is None:
        return TracedFunction(name, call, None, None, 0)
    passed, slot = [], 0
    for parameter in found.parameters:
        passed.append(PassedArgument(parameter.name, slot, parameter.type, parameter.nullable))
        slot += max(-(-parameter.type.size // 8), 1)
    return TracedFunction(name, call, tuple(passed), found.returns, slot)


def expanded(target: Target, function: str, max_probes: int) -> Iterator[str]:
    """The functions that a name or a pattern stands for. Raises NotFound, InvalidValue for more than `max_probes`."""
    module, name, offset = split(function)
    if not is_pattern(function):
        before = f"{module}:" if module else ""
        yield before + system_call(target, name) + (f"+{offset}" if offset else "")
        return
    found = [each for each in dict.fromkeys(target.functions(function)) if not is_denied(each.rpartition(":")[2])]
    if not found:
        if module and not target.functions(f"{module}:*"):
            raise not_loaded(function)
        raise NotFound(f"no function of the kernel that can be probed matches {function!r}")
    if len(found) > max_probes:
        raise InvalidValue(
            f"{function!r} matches {len(found)} functions, more than {max_probes}: narrow it, or allow more with "
            f"max_probes={len(found)} (--max-probes)"
        )
    yield from found


class FunctionProgramContext(ProgramContext[S]):
    """The part that kprobes and trampolines share."""

    _callee: TracedFunction | None = None
    #: Which of the two a program may take: the function's parameters, what it returns.
    enters = returns = False
    #: The reason against it, said of a parameter.
    no_parameters = no_result = ""

    @property
    def function(self) -> str:
        """The one function, once patterns are expanded."""
        return self.attach.target

    def callee(self, target: Target) -> TracedFunction:
        """Return the facts of the function, asked once."""
        if self._callee is None:
            self._callee = callee(target, self.function)
        return self._callee

    def exists(self, target: Target) -> bool:
        return all(self._exists(target, function) for function in self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The functions, as the author wrote them."""
        return (self.function,)

    def _exists(self, target: Target, function: str) -> bool:
        module, name, _ = split(function)
        name = system_call(target, name)
        if btf_function(target, function) is not None or btf_function(target, name) is not None:
            return True
        try:
            return bool(target.functions(f"{module}:{name}" if module else name))
        except (NotFound, NotSupported):
            return False

    def signature(self, target: Target, parameters: Sequence[str]) -> Hashable | None:
        if not parameters:
            return type(self), bool(split(self.function)[2])  # of an offset function_ip() is 0
        known = self.callee(target)
        if known.passed is None or known.call:
            return (type(self), *parameters) if known.passed is None and not known.call else None
        types: dict[str, Hashable] = {each.name: (each.slot, each.type) for each in known.passed}
        types[RETVAL] = (known.slots, known.returns)
        for name in parameters:
            types.setdefault(name, self.raw_place(known, name))
        return (type(self), tuple(types.get(plain_name(name)) for name in parameters))

    # -- the program's side --------------------------------------------------------------------------------------------

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        known = self.callee(p.target)
        if known.passed is None and not known.call:
            self._look_for(p.target, known)
        plain = plain_name(name)
        if plain == RETVAL and not self._is_parameter(known, plain):
            return self._result(p, known, annotation)
        if plain == RAW_RETVAL and self.returns:
            return annotated(p, Int(self.result(p, known), U64), annotation)
        if not self.enters:
            p.fail(f"{name}: {self.no_parameters}")
        if known.call:
            return annotated(p, self._call_argument(p, known, plain, annotation, position), annotation, Space.USER)
        if known.passed is None:
            return registers.typed(p, self.argument(p, position), annotation, name, Space.KERNEL)
        for each in known.passed:
            if each.name == plain:
                return annotated(p, self._passed(p, known, each), annotation)
        numbered = _BY_POSITION.fullmatch(plain)
        if numbered is not None:
            return annotated(p, Int(self.raw_argument(p, known, int(numbered[1])), U64), annotation)
        names = [each.name for each in known.passed]
        has = f"it has {', '.join(names)}" if names else "it has none"
        p.fail(f"{known.name}() has no parameter {plain}{closest(plain, names)}: {has}")

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        """`ctx.name` is what the parameter `name` would be; what is none, is the kind's own affair."""
        known, plain = self.callee(p.target), plain_name(name)
        names = [each.name for each in known.passed or ()] if not known.call else call_arguments(p.target, known)
        if plain not in (names or ()) and (plain != RETVAL or not self.returns):
            return self.other_attribute(p, name)
        p.reads_target = True
        return self.parameter(p, name, None, 0)

    def other_attribute(self, p: ProgramBuilder, name: str) -> object:
        """`ctx.name` of a name that is not a parameter's."""
        raise NotImplementedError

    def _look_for(self, target: Target, known: TracedFunction) -> None:
        """Raise NotFound, with the closest names, for a function that neither BTF nor the kernel's symbols have."""
        module, name, _ = split(self.function)
        try:
            found = target.functions(f"{module}:{name}" if module else name)
        except (NotFound, NotSupported):
            return
        if not found:
            target.function(known.name)
            raise NotFound(f"the kernel has no function {self.function}")

    def _is_parameter(self, known: TracedFunction, name: str) -> bool:
        return known.passed is not None and any(each.name == name for each in known.passed) and not self.returns

    def _passed(self, p: ProgramBuilder, known: TracedFunction, parameter: PassedArgument) -> object:
        if parameter.type.composite:
            p.fail(f"{parameter.name} of {known.name}() is a {parameter.type.c_name}, passed by value: not supported")
        return self.value(p, parameter.slot, parameter.type, nullable=parameter.nullable)

    def _result(self, p: ProgramBuilder, known: TracedFunction, annotation: object) -> object:
        if not self.returns:
            p.fail(f"{RETVAL}: {self.no_result}")
        if known.returns is None:
            return registers.typed(p, self.result(p, known), annotation, RETVAL, Space.KERNEL)
        if known.returns.kind == "void":
            p.fail(f"{known.name}() returns nothing")
        if known.returns.composite:
            p.fail(f"{known.name}() returns a {known.returns.c_name} by value: not supported")
        return annotated(p, self.value(p, known.slots, known.returns, nullable=False, result=True), annotation)

    def _call_argument(
        self, p: ProgramBuilder, known: TracedFunction, name: str, annotation: object, position: int
    ) -> object:
        """An argument of a system call, by the name that its tracepoint gives it, from the registers it saved."""
        arguments = call_arguments(p.target, known)
        if arguments is None:
            return registers.typed(p, self.saved(p, position), annotation, name, Space.USER)
        field = arguments.get(name)
        numbered = _BY_POSITION.fullmatch(name)
        if field is None and numbered is not None:
            return Int(self.saved(p, int(numbered[1])), U64)
        if field is None:
            p.fail(
                f"the system call {known.call} has no argument {name}{closest(name, arguments)}: it has "
                f"{', '.join(arguments) or 'none'}"
            )
        value = self.saved(p, (field.offset - _FIRST_ARGUMENT) // _ARGUMENT_SIZE)
        if field.pointer:
            text = field.type.replace("const", "").split() == ["char", "*"]
            return Pointer(value, CharFactory() if text else None, Space.USER)
        narrow = call_argument_type(p.target, field)
        if narrow.size == U64.size:
            return Int(value, narrow)
        low = p.b.emit(Op.SEXT if narrow.signed else Op.ZEXT, value, size=narrow.size)
        p.b.assume_bounds(low, narrow.minimum, narrow.maximum)
        return Int(low, S64, narrow)

    # -- where values come from ----------------------------------------------------------------------------------------

    def raw_place(self, known: TracedFunction, name: str) -> Hashable:
        """Whatever makes code for a function differ that reads `arg0` or `raw_retval`: of registers nothing does."""
        return None

    def raw_argument(self, p: ProgramBuilder, known: TracedFunction, position: int) -> ir.Value:
        """64 bits of an argument that the function may not have."""
        return self.argument(p, position)

    def argument(self, p: ProgramBuilder, slot: int) -> ir.Value:
        """64 bits of an argument."""
        raise NotImplementedError

    def result(self, p: ProgramBuilder, known: TracedFunction) -> ir.Value:
        """64 bits of what the function returns."""
        raise NotImplementedError

    def value(self, p: ProgramBuilder, slot: int, type_: KernelType, *, nullable: bool, result: bool = False) -> object:
        """An argument, or the result, of a type that BTF gives."""
        raise NotImplementedError

    def saved(self, p: ProgramBuilder, position: int) -> ir.Value:
        """An argument of the system call whose registers the function was given."""
        return registers.saved_call_argument(p, self.argument(p, 0), position)


def call_arguments(target: Target, known: TracedFunction) -> dict[str, TracepointField] | None:
    """The arguments of a system call by the names that its tracepoint gives them; None where that is not to be had."""
    try:
        fields = target.tracepoint_format("syscalls", f"sys_enter_{known.call}").fields
    except (NotFound, NotSupported):
        return None
    return {each.name: each for each in fields if each.offset >= _FIRST_ARGUMENT}
