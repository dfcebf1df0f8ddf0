"""Functions and variables of the kernel that a program names: found in BTF, of vmlinux or a module, or by address."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from struct import pack
from typing import TYPE_CHECKING, Self

from pyebpf.asm import Form, Instruction, find_op
from pyebpf.btf import Func, Var
from pyebpf.dataclass import replace
from pyebpf.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyebpf.btf import Btf
    from pyebpf.kernel.descriptor import Descriptor

_ADDRESSES = "/proc/kallsyms"
#: A helper that no kernel has: libbpf's number for a call of what is missing, known from verifier logs.
_NO_FUNCTION = 195896080


class KernelSymbols:
    """The addresses and ids on this machine of the kernel's names in `instructions`.

    `functions` and `variables` are for `asm.resolve`, `fd_array` for PROG_LOAD. A variable that no BTF has is loaded as
    the address that /proc/kallsyms gives, as libbpf does with `extern const void name __ksym`; `instructions` then
    have it. Of the names in `weak` the kernel may lack some: a variable's address is then 0, and a call one that no
    verifier takes, so that only a program that looks before it calls is loaded. Descriptors of modules' BTF are open
    until the context is left: the loaded program holds what it needs.

    Raises NotFound for a name that the kernel does not have, or whose address it does not show, with the place in the
    `program` that has the name.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        vmlinux: Callable[[], Btf],
        weak: frozenset[str] = frozenset(),
        *,
        program: str = "",
    ) -> None:
        self._program = program
        self.instructions = instructions
        self.functions: dict[str, tuple[int, int]] = {}
        self.variables: dict[str, tuple[int, int]] = {}
        self._load_vmlinux = vmlinux
        self._weak = weak
        self._vmlinux: Btf | None = None
        self._modules: dict[str, Btf] | None = None
        self._places: dict[str, int] = {}
        self._descriptors: list[Descriptor] = []
        self._open = ExitStack()
        try:
            self._find()
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def fd_array(self) -> bytes:
        """Descriptors of modules' BTF from place 1 on; empty if there are none."""
        numbers = [descriptor.fileno() for descriptor in self._descriptors]
        return pack(f"={1 + len(numbers)}i", 0, *numbers) if numbers else b""

    def _find(self) -> None:
        plain, missing = find_op("lddw", Form.LDDW), find_op("call", Form.CALL)
        replaced: dict[tuple[Form, str | None], Instruction] = {}
        for name in self._names(Form.CALL_KFUNC):
            found = self._in_btf(name, Func)
            if found is None and name in self._weak:
                replaced[Form.CALL_KFUNC, name] = Instruction(missing, imm=_NO_FUNCTION)
                continue
            if found is None:
                # vmlinux's own error has the closest names.
                with self._blaming(Form.CALL_KFUNC, name):
                    found = self._kernel().function(name).id, ""
            self.functions[name] = found[0], self._place(found[1])
        for name in self._names(Form.LDDW_KSYM):
            found = self._in_btf(name, Var)
            if found is None:
                with self._blaming(Form.LDDW_KSYM, name):
                    address = _address(name, weak=name in self._weak)
                replaced[Form.LDDW_KSYM, name] = Instruction(plain, imm=address)
            else:
                place = self._place(found[1])
                self.variables[name] = found[0], self._descriptors[place - 1].fileno() if place else 0
        if replaced:
            self.instructions = tuple(
                replace(each, op=other.op, imm=other.imm, src=other.src, symbol=None)
                if (other := replaced.get((each.op.form, each.symbol))) is not None
                else each
                for each in self.instructions
            )

    @contextmanager
    def _blaming(self, form: Form, name: str) -> Iterator[None]:
        """Name the program in an error about a name, and the first place that has it."""
        try:
            yield
        except NotFound as error:
            where = next(each.where for each in self.instructions if each.op.form is form and each.symbol == name)
            if where is not None:
                error.name_probe(self._program, where)
            raise

    def _names(self, form: Form) -> list[str]:
        found = (each.symbol for each in self.instructions if each.op.form is form and each.symbol is not None)
        return list(dict.fromkeys(found))

    def _kernel(self) -> Btf:
        if self._vmlinux is None:
            self._vmlinux = self._load_vmlinux()
        return self._vmlinux

    def _in_btf(self, name: str, kind: type[Func | Var]) -> tuple[int, str] | None:
        """BTF id, and the module that has it (empty: vmlinux)."""
        kernel = self._kernel()
        for number in kernel.find(name):
            if isinstance(kernel.type_by_id(number), kind):
                return number, ""
        for module, btf in self._module_btf().items():
            for number in btf.find(name):
                if isinstance(btf.type_by_id(number), kind):
                    return number, module
        return None

    def _module_btf(self) -> dict[str, Btf]:
        if self._modules is None:
            from pyebpf.btf import Btf
            from pyebpf.kernel.btf_files import btf_modules, read_btf

            kernel = self._kernel()
            self._modules = {}
            for name in btf_modules():
                try:
                    self._modules[name] = Btf(read_btf(name), base=kernel)
                except NotFound:
                    continue  # unloaded since it was listed
        return self._modules

    def _place(self, module: str) -> int:
        """Where a module's BTF stands in `fd_array`; 0 for vmlinux."""
        if not module:
            return 0
        if module not in self._places:
            from pyebpf.kernel.btf_objects import module_btf

            descriptor = module_btf(module)
            self._open.callback(descriptor.close)
            self._descriptors.append(descriptor)
            self._places[module] = len(self._descriptors)
        return self._places[module]


def _address(name: str, *, weak: bool) -> int:
    """A symbol's address; 0 for a weak one that the kernel does not have."""
    line = rb"^([0-9a-f]+) \S " + re.escape(name.encode()) + rb"(?:\t.*)?$"
    with open(_ADDRESSES, "rb") as file:  # noqa: PTH123 - pathlib would be imported for this alone
        found = re.search(line, file.read(), re.MULTILINE)
    if found is None:
        if weak:
            return 0
        raise NotFound(
            f"the kernel has no variable {name}: neither its BTF nor {_ADDRESSES} has the name; a kernel built without "
            "CONFIG_KALLSYMS_ALL lists functions only"
        )
    address = int(found[1], 16)
    if not address:
        raise NotFound(f"{_ADDRESSES} hides the address of {name}: CAP_SYSLOG shows it, or kernel.kptr_restrict=0")
    return address
