"""Places where a script takes for granted what the kernel no longer has: parameters, functions, members of structs.

A script that names a function's argument by its number, or lays out a struct of the kernel by itself, is right for the
kernels that its author knew. On others it goes on, and reads something else. BTF tells the types of parameters and the
places of members; `changed` has what it does not tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyebpf.attach.kernel_functions import callee, system_call
from pyebpf.bpftrace import ast
from pyebpf.bpftrace.changed import FUNCTIONS, MEMBERS, PARAMETERS, REPLACED, SAME_ADDRESS
from pyebpf.dataclass import dataclass, fields
from pyebpf.errors import CompileError, NotFound, NotSupported
from pyebpf.specs.attach_point import is_pattern

if TYPE_CHECKING:
    from pyebpf.attach.kernel_functions import PassedArgument, TracedFunction
    from pyebpf.bpftrace.translate.structs import Structs
    from pyebpf.target import KernelType, Target

_ARGUMENT = re.compile(r"arg(\d)")
#: Functions of the language whose first argument is an address of text or bytes.
_READERS = ("str", "kstr", "buf")
#: Providers that never see memory of the kernel.
_ELSEWHERE = {"begin", "end", "interval", "uprobe", "uretprobe", "usdt", "self", "test", "bench"}
#: The endings by which scripts call their own part of a kernel's struct.
_PART = re.compile(r"(_partial|___\w+)$")


@dataclass(frozen=True, slots=True)
class _Argument:
    """A function's argument by its number, and where a script keeps it."""

    function: TracedFunction
    position: int

    @property
    def parameter(self) -> PassedArgument | None:
        """Its parameter in BTF; None for a number that begins none."""
        passed = self.function.passed or ()
        return next((each for each in passed if each.slot == self.position), None)


def changes(program: ast.Program, structs: Structs, target: Target) -> list[str]:
    """Lines on what a script takes for granted and this kernel does not have, each once, in the script's order."""
    found = _Script(program, target)
    try:
        if program.definitions:
            _check_structs(found, structs)
        _check_members(found)
        kprobes = [each for each in program.probes if any(point.provider == "kprobe" for point in each.attach_points)]
        for probe in kprobes:
            for function in _functions(found, probe):
                _Probe(found, function, first=True).visit(probe)
        for probe in program.probes:
            _check_functions(found, probe)
            for function in _functions(found, probe) or [None]:
                _Probe(found, function).visit(probe)
    except NotSupported:
        return []  # the kernel has no BTF: nothing is known
    source = program.source
    found.told.sort(key=lambda each: each[0].start)
    return list(dict.fromkeys(source.location(node).marked(text) for node, text in found.told))


class _Script:
    """A script, the kernel that it meets, and the lines that it was told."""

    def __init__(self, program: ast.Program, target: Target) -> None:
        self.program = program
        self.target = target
        self.told: list[tuple[ast.Node, str]] = []
        #: Arguments that maps hold, by the map's name, and pointers that are their keys, by the struct's name.
        self.values: dict[str, list[_Argument]] = {}
        self.keys: dict[str, dict[str, str]] = {}

    def tell(self, node: ast.Node, text: str) -> None:
        self.told.append((node, text))

    def type_named(self, name: str) -> KernelType | None:
        try:
            return self.target.type_named(name)
        except NotFound:
            return None


# -- structs of the script's own ---------------------------------------------------------------------------------------


def _check_structs(found: _Script, structs: Structs) -> None:
    """Compare the members that the script reads with those of the kernel's struct of that name."""
    points = [point for probe in found.program.probes for point in probe.attach_points]
    if all(point.provider.lower() in _ELSEWHERE for point in points):
        return
    used = {each.name for each in ast.nodes(found.program.items) if isinstance(each, ast.FieldAccess)}
    for node in ast.nodes(found.program.definitions):
        if not isinstance(node, ast.Struct) or not node.name:
            continue
        kernel = found.type_named(f"{node.keyword} {_PART.sub('', node.name)}")
        try:
            layout = structs.find(found.target, node.name) if kernel is not None else None
        except CompileError:
            continue  # the compiler says so
        if kernel is None or layout is None:
            continue
        for member in node.members:
            if member.name in used:
                its = layout.members[member.name]
                _check_member(found, kernel, member, its.offset, its.type)


def _check_member(found: _Script, kernel: KernelType, member: ast.Member, offset: int, type_: KernelType) -> None:
    end = "leave the definition out, and the kernel's own is taken"
    try:
        there = found.target.member(kernel, member.name)
    except NotFound as error:
        change = MEMBERS.get((kernel.c_name, member.name))
        found.tell(member, f"{error}" + (f": {change}" if change is not None else "") + f"; {end}")
        return
    if there.offset != offset:
        found.tell(
            member,
            f"{member.name} is at byte {offset} of this struct, and at byte {there.offset} of the kernel's "
            f"{kernel.c_name}: {end}",
        )
    elif there.type.size != type_.size and not there.bit_size:
        found.tell(
            member,
            f"{member.name} has {type_.size} bytes in this struct, and {there.type.size} in the kernel's "
            f"{kernel.c_name}: {end}",
        )


def _check_members(found: _Script) -> None:
    """Say what became of a member that is gone, where the script names its struct."""
    wanted = {name for _, name in MEMBERS}
    reads = [
        each for each in ast.nodes(found.program.items) if isinstance(each, ast.FieldAccess) and each.name in wanted
    ]
    if not reads:
        return
    named = {
        f"{each.keyword} {_PART.sub('', each.name)}"
        for each in ast.nodes((found.program.items, found.program.definitions))
        if isinstance(each, ast.TypeName) and each.keyword
    }
    if any(isinstance(each, ast.Identifier) and each.name == "curtask" for each in ast.nodes(found.program.items)):
        named.add("struct task_struct")
    definitions = ast.nodes(found.program.definitions)
    own = {_PART.sub("", each.name) for each in definitions if isinstance(each, ast.Struct)}
    for struct, name in MEMBERS:
        its = [each for each in reads if each.name == name and not _is_args(each)]
        if not its or struct not in named or struct.partition(" ")[2] in own or found.target.has_field(struct, name):
            continue
        # What the script reads may be another struct's: `((struct socket *)…)->state`.
        if found.type_named(struct) is not None and not any(
            found.target.has_field(each, name) for each in named - {struct}
        ):
            for each in its:
                found.tell(each, f"{struct} has no member {name} on this kernel: {MEMBERS[struct, name]}")


def _is_args(node: ast.FieldAccess) -> bool:
    return isinstance(node.value, ast.Identifier) and node.value.name == "args"


# -- functions ---------------------------------------------------------------------------------------------------------


def _functions(found: _Script, probe: ast.Probe) -> list[TracedFunction | None]:
    """The functions at whose entry a probe has `arg0` and so on, as far as BTF has them."""
    made: list[TracedFunction | None] = []
    for point in probe.attach_points:
        if point.provider == "kprobe" and point.function and not point.offset and not is_pattern(point.function):
            function = callee(found.target, system_call(found.target, point.function))
            if function.passed is not None:
                made.append(function)
    return made


def _check_functions(found: _Script, probe: ast.Probe) -> None:
    """Say what became of a function that is gone; not where a probe names several, of which one may be there."""
    point = probe.attach_points[0]
    name = point.function
    if point.provider not in ("kprobe", "kretprobe") or not name or is_pattern(name):
        return
    name = system_call(found.target, name)
    if _exists(found.target, name):
        replaced = REPLACED.get(name)
        if replaced is not None and found.target.has_function(replaced[0]):
            found.tell(point, f"{name} has few callers left on this kernel: {replaced[1]}")
        return
    if len(probe.attach_points) > 1:
        return
    variants = _matching(found.target, f"{name}.*")
    change = FUNCTIONS.get(name)
    text = f"no function {name} is on this kernel to put a probe on"
    if variants:
        text = f"the compiler made {' and '.join(variants)} of {name}, with parameters that may differ: probe that"
    elif change is not None:
        text += f": {change}"
    else:
        try:
            found.target.function(name)
        except NotFound as error:
            _, sign, like = str(error).partition(" (did you mean ")
            text += f"{sign}{like}; one of a module is there once it is loaded"
        else:
            text += ": the compiler has inlined it wherever it is called"
    found.tell(point, text)


def _exists(target: Target, name: str) -> bool:
    try:
        return bool(target.functions(name))
    except NotSupported:
        return target.has_function(name)


def _matching(target: Target, pattern: str) -> tuple[str, ...]:
    try:
        return target.functions(pattern)
    except NotSupported:
        return ()


# -- arguments by their numbers ----------------------------------------------------------------------------------------


class _Probe:
    """A walk over a probe at one function: where arguments go, and what they are taken for.

    The `first` walk of all only finds out what maps hold.
    """

    def __init__(self, found: _Script, function: TracedFunction | None, *, first: bool = False) -> None:
        self.found = found
        self.function = function
        self.first = first
        self.variables: dict[str, _Argument | None] = {}

    def visit(self, node: object) -> None:
        """Look at a node and at all that is in it, in the order that it runs in."""
        if isinstance(node, tuple):
            for each in node:
                self.visit(each)
            return
        if not isinstance(node, ast.Node) or isinstance(node, ast.AttachPoint):
            return
        if isinstance(node, ast.Assignment):
            self.visit((node.value, node.target))
            self._assign(node)
            return
        for field in fields(node):
            self.visit(getattr(node, field.name))
        check: Any = _CHECKS.get(type(node))
        if check is not None and not self.first:
            check(self, node)

    def tell(self, node: ast.Node, text: str) -> None:
        self.found.tell(node, text)

    def argument(self, node: ast.Node) -> _Argument | None:
        """The argument that an expression is, also by way of a variable or a map; None if it is anything else."""
        match node:
            case ast.Identifier(name=name) if self.function is not None and (number := _ARGUMENT.fullmatch(name)):
                return _Argument(self.function, int(number[1]))
            case ast.Variable(name=name):
                return self.variables.get(name)
            case ast.Cast(value=value):
                return self.argument(value)
            case ast.MapAccess(map=map_) | (ast.Map() as map_):
                held = self.found.values.get(map_.name, [])
                types = {each.parameter.type.c_name if each.parameter else "" for each in held}
                return held[0] if len(types) == 1 else None
        return None

    def _assign(self, node: ast.Assignment) -> None:
        given = self.argument(node.value) if node.operator == "=" else None
        target = node.target
        if isinstance(target, ast.Variable):
            if target.name in self.variables and self.variables[target.name] != given:
                given = None
            self.variables[target.name] = given
        elif self.first and given is not None:
            name = target.map.name if isinstance(target, ast.MapAccess) else target.name
            self.found.values.setdefault(name, []).append(given)

    def identifier(self, node: ast.Identifier) -> None:
        """Find a number that is beyond the parameters."""
        match = _ARGUMENT.fullmatch(node.name)
        function = self.function
        if match is None or function is None:
            return
        if function.call:
            call = function.call
            self.tell(
                node,
                f"{function.name} has the address of the saved registers as its only argument: "
                f"write tracepoint:syscalls:sys_enter_{call}, and args.NAME",
            )
        elif int(match[1]) >= function.slots:
            count = function.slots
            has = "it has none" if not count else f"the last one is arg{count - 1}"
            self.tell(node, f"{function.name} has no {node.name} on this kernel: {has}{_since(function)}")

    def cast(self, node: ast.Cast) -> None:
        """Compare a pointer's struct with the parameter's type."""
        type_ = node.type.target if isinstance(node.type, ast.PointerType) else node.type
        if not isinstance(type_, ast.TypeName) or type_.keyword not in ("struct", "union"):
            return
        given = self.argument(node.value)
        parameter = given.parameter if given is not None else None
        wanted = self.found.type_named(f"{type_.keyword} {_PART.sub('', type_.name)}")
        if given is None or parameter is None or wanted is None or given.function.call:
            return
        if self._may_be(parameter, wanted):
            return
        text = f"arg{given.position} of {given.function.name} is {_is(parameter)}, not a {wanted.c_name} *"
        fitting = [each for each in given.function.passed or () if _points_to(each.type, wanted.name)]
        if len(fitting) == 1:
            text += f": that is arg{fitting[0].slot}"
        self.tell(node, text + _since(given.function))

    def _may_be(self, parameter: PassedArgument, wanted: KernelType) -> bool:
        """Whether a parameter may be the address of a struct: numbers of 64 bits may, if no other parameter is."""
        type_ = parameter.type
        if type_.kind != "pointer" or type_.element is None:
            function = self.function
            others = function.passed if function is not None and function.passed else ()
            return type_.size == 8 and not any(_points_to(each.type, wanted.name) for each in others)
        element = type_.element
        if element.kind == "void" or (element.kind == "int" and not element.character and element.size == 1):
            return True
        if not element.composite:
            return False
        names = {element.name, wanted.name}
        if all(name.startswith("sockaddr") for name in names) or any(names <= pair for pair in SAME_ADDRESS):
            return True
        return self._begins(element, wanted) or self._begins(wanted, element)

    def _begins(self, outer: KernelType, inner: KernelType) -> bool:
        """Whether a struct is another, or has it as its first member, as `tcp_sock` has `sock`."""
        target = self.found.target
        for _ in range(8):
            if (outer.kind, outer.name) == (inner.kind, inner.name):
                return True
            try:
                names = target.members(outer)
                if not names or not names[0]:
                    return False
                outer = target.member(outer, names[0]).type
            except NotFound:
                return False
            if not outer.composite:
                return False
        return False

    def call(self, node: ast.Call) -> None:
        """Find a struct that is taken for text."""
        given = self.argument(node.arguments[0]) if node.name in _READERS and node.arguments else None
        parameter = given.parameter if given is not None else None
        if given is None or parameter is None or given.function.call:
            return
        type_ = parameter.type
        wrong = type_.size < 8 or (type_.element is not None and type_.element.composite)
        if wrong:
            text = f"arg{given.position} of {given.function.name} is {_is(parameter)}, no address of text"
            self.tell(node, text + _since(given.function))

    def key(self, node: ast.MapAccess) -> None:
        """Compare the pointers that are a map's keys."""
        given = self.argument(node.key)
        parameter = given.parameter if given is not None else None
        if given is None or parameter is None or parameter.type.element is None:
            return
        element = parameter.type.element
        if not element.composite:
            return
        text = f"arg{given.position} of {given.function.name}"
        known = self.found.keys.setdefault(node.map.name, {})
        if element.name in known:
            return
        for name, where in known.items():
            if name != element.name and where != text:
                self.tell(
                    node,
                    f"{text} is {_is(parameter)}, and the key of @{node.map.name} at {where} is a struct {name} *"
                    f"{_since(given.function)}",
                )
                known[element.name] = text
                return
        known[element.name] = text


_CHECKS = {
    ast.Identifier: _Probe.identifier,
    ast.Cast: _Probe.cast,
    ast.Call: _Probe.call,
    ast.MapAccess: _Probe.key,
}


def _is(parameter: PassedArgument) -> str:
    """A parameter in words: its type, and its name."""
    type_ = parameter.type.c_name
    return f"{'an' if type_[0] in 'aeiou' and not type_.startswith('union') else 'a'} {type_} ({parameter.name})"


def _points_to(type_: KernelType, struct: str) -> bool:
    return type_.element is not None and type_.element.composite and type_.element.name == struct


def _since(function: TracedFunction) -> str:
    """The change that moved a function's parameters, if it is known."""
    change = PARAMETERS.get(function.name)
    return f"; {change}" if change is not None else ""
