"""Externs of section .kconfig: how the kernel was built, as constants in a map.

`extern bool CONFIG_X __kconfig` and its like are no memory of the kernel. As libbpf does it, each gets a place in a map
of one frozen value, so that the verifier knows the constant and leaves out what it rules out.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.btf import Array, DataSec, Enumeration, Int, Var
from pyebpf.errors import MalformedData
from pyebpf.specs import MapSpec
from pyebpf.types import U8 as BYTE, U32, array_of
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_MMAPABLE, BPF_F_RDONLY_PROG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.btf import Btf, Node
    from pyebpf.elf.relocations import RelocatableFile

KCONFIG = ".kconfig"
_OPTION = re.compile(r"^(CONFIG_\w+)=(.*?)\s*$", re.MULTILINE | re.ASCII)
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|[0-9]+)", re.ASCII)
_TRISTATE, _STATES = "libbpf_tristate", {"n": 0, "y": 1, "m": 2}
_MAX_STRING = 1 << 16
# What libbpf finds out by itself. Since Linux 5.15 and 4.17 the answers are yes, and Linux 6.1 is the oldest here.
_ALWAYS = {"LINUX_HAS_BPF_COOKIE": 1, "LINUX_HAS_SYSCALL_WRAPPER": 1}


class KernelConfig:
    """How a kernel was built. `KernelConfig(*pyebpf.kernel.config.read_config())` is the running one.

    version  its release as LINUX_VERSION_CODE has it: major << 16 | minor << 8 | patch
    text     the configuration, lines `CONFIG_NAME=value`; None if the kernel does not tell
    """

    def __init__(self, version: int, text: str | None) -> None:
        self.version = version
        self.text = text

    @cached_property
    def options(self) -> Mapping[str, str]:
        """Values as written, by name; what is not set is left out."""
        return dict(_OPTION.findall(self.text or ""))


class KernelConstants(NamedTuple):
    """The map that stands for .kconfig, and where in its value each extern is."""

    map: MapSpec
    offsets: Mapping[str, int]


def read_constants(elf: RelocatableFile, btf: Btf | None, config: KernelConfig) -> KernelConstants | None:
    """The object's externs of .kconfig; None if it has none.

    MalformedData for one that the kernel has no value for and that is not weak, or whose type cannot hold the value. A
    weak one is zero then.
    """
    declared = _declared(btf) if btf is not None else {}
    weak = {symbol.name for symbol in elf.symbols if symbol.is_weak and symbol.section is None}
    data, offsets = b"", {}
    for name, type_id in declared.items():
        assert btf is not None
        node = btf.type_by_id(btf.resolve(type_id))
        size = btf.size_of(node.id)
        if not 0 < size <= _MAX_STRING:
            raise MalformedData(f"{name}: an extern of .kconfig has {size} bytes")
        text = _text(name, config)
        if text is None and name not in weak:
            raise MalformedData(_missing(name, config))
        data = data.ljust(-(-len(data) // 8) * 8, b"\0")
        offsets[name] = len(data)
        data += bytes(size) if text is None else _encoded(btf, elf, name, node, text)
    if not offsets:
        return None
    flags = BPF_F_RDONLY_PROG | BPF_F_MMAPABLE
    value, initial = array_of(BYTE, len(data)), ((bytes(4), data),)
    return KernelConstants(MapSpec(KCONFIG, MapType.ARRAY, U32, value, 1, flags, initial=initial, frozen=True), offsets)


def _declared(btf: Btf) -> dict[str, int]:
    """The type of each extern, by name, in the order of the declaration."""
    found = {}
    for type_id in btf.find(KCONFIG):
        section = btf.type_by_id(type_id)
        if isinstance(section, DataSec):
            for variable in section.variables:
                var = btf.type_by_id(variable.type)
                if isinstance(var, Var):
                    found[var.name] = var.type
    return found


def _text(name: str, config: KernelConfig) -> str | None:
    if name == "LINUX_KERNEL_VERSION":
        return str(config.version)
    return str(_ALWAYS[name]) if name in _ALWAYS else config.options.get(name)


def _missing(name: str, config: KernelConfig) -> str:
    if config.text is None:
        hidden = "the kernel does not tell how it was built (/proc/config.gz, or /boot/config- and its release)"
        return f"{name}: {hidden}, and this extern is not __weak"
    return f"{name} is not set in the kernel's configuration, and this extern is not __weak"


def _encoded(btf: Btf, elf: RelocatableFile, name: str, node: Node, text: str) -> bytes:
    """A value in the type of its extern."""
    size = btf.size_of(node.id)
    if isinstance(node, Array):
        element = btf.type_by_id(btf.resolve(node.type))
        if isinstance(element, Int) and element.size == 1 and text[:1] == '"' and len(text) > 1:
            string = re.sub(r"\\(.)", r"\1", text[1:-1]).encode()
            return string[: size - 1].ljust(size, b"\0")
    elif isinstance(node, Enumeration):
        if node.name == _TRISTATE and text in _STATES:
            return _STATES[text].to_bytes(size, elf.byteorder)
    elif isinstance(node, Int):
        number: int | None = None
        if node.bool and text in ("y", "n", "0", "1"):
            number = int(text in ("y", "1"))
        elif size == 1 and not node.bool and text in _STATES:
            number = ord(text)  # as libbpf has it: a char holds the letter
        elif not node.bool and _NUMBER.fullmatch(text):
            number = int(text, 16 if "x" in text.lower() else 10)
        if number is not None:
            try:
                return number.to_bytes(size, elf.byteorder, signed=node.signed)
            except OverflowError:
                pass
    raise MalformedData(f"{name} is {text} in this kernel, which an extern of type {node.name or 'char[]'} cannot hold")
