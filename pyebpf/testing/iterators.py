"""Passes over a kernel's list: a test says what is in it, and reads the records that the program gives."""

from __future__ import annotations

from contextlib import suppress
from struct import pack_into
from typing import TYPE_CHECKING, Any

from pyebpf.attach.iterators import KernelIterator
from pyebpf.errors import InvalidValue, NotFound, closest
from pyebpf.maps import over
from pyebpf.testing.events import Programs
from pyebpf.types import U32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.target import KernelParameter
    from pyebpf.types import Type

_POINTER = 8
_META = 32


class IteratorEvents(Programs):
    """Programs of `@bpf.iter`."""

    def iterate(self, name: str, *elements: Mapping[str, object]) -> list[Any]:
        """Read the iterator of a probe, by its name: the records that it emits over these elements, in order.

        An element is what the kernel's function bpf_iter_NAME has for it, by the names of its parameters:
        `{"task": {"pid": 5, "comm": "sh"}}`; an object is an address (`object`) or its members as a dictionary, and
        what is not given is None. Where the decorator names the map that is walked, keys and values are as Python has
        them, and without any element the map's own entries are walked. As in the kernel the program runs once more
        behind the last element, with None.
        """
        attach, program = self.program(name)
        if not isinstance(attach, KernelIterator):
            raise InvalidValue(f"{name} runs at {attach}, which is not an iterator: use run() or its own event")
        parameters = self.target.function(f"bpf_iter_{attach.name}").parameters
        names = [each.name for each in parameters if each.name != "meta"]
        walked = next((getattr(each, "_walked", None) for each in self.module.probes if each.__name__ == name), None)
        if not elements and attach.map is not None and walked is not None:
            values = over(self.maps[walked.spec.name])
            entries = values.per_cpu if attach.map.traits.per_cpu else values
            elements = tuple({"key": key, "value": value} for key, value in entries.items())
        out = self.machine.sequence = bytearray()
        for number, element in enumerate((*elements, {})):
            for given in element:
                if given not in names:
                    raise InvalidValue(f"{attach} has no {given}{closest(given, names)}: it has {', '.join(names)}")
            context = bytearray(_POINTER * len(parameters))
            for index, parameter in enumerate(parameters):
                value = self._meta(number) if parameter.name == "meta" else None
                if value is None:
                    value = self._element(attach, parameter, element.get(parameter.name))
                pack_into("<Q", context, _POINTER * index, value & (1 << 64) - 1)
            self.machine.run(program, bytes(context))
        size = attach.record.size
        return [attach.record.decode(bytes(out[at : at + size])) for at in range(0, len(out), size)]

    def _meta(self, number: int) -> int:
        """Address of struct bpf_iter_meta: the sequence file that records go to, and which element this is."""
        data = bytearray(_META)
        for member, value in (("seq", self.memory.kernel(b"\0", "struct seq_file")), ("seq_num", number)):
            with suppress(NotFound):  # facts that were recorded have the members that programs use
                pack_into("<Q", data, self.target.struct_member("struct bpf_iter_meta", member).offset, value)
        return self.memory.kernel(bytes(data), "struct bpf_iter_meta")

    def _element(self, attach: KernelIterator, parameter: KernelParameter, value: Any) -> int:
        element = parameter.type.element
        if value is None and not (parameter.name == "map" and attach.map is not None):
            return 0
        if element is not None and element.composite:
            if value is None:
                return self.memory.kernel(bytes(max(element.size, _POINTER)), element.c_name)
            return value if isinstance(value, int) else self.memory.object(element, value)
        if element is None:
            return int(value)
        if attach.map is None or parameter.name not in ("key", "value"):
            return value if isinstance(value, int) else self.memory.kernel(value)
        type_: Type | None = attach.map.key or U32 if parameter.name == "key" else attach.map.value
        assert type_ is not None
        if parameter.name == "key" or not attach.map.traits.per_cpu:
            return self.memory.kernel(type_.encode(value), parameter.name)
        padded = -(-type_.size // _POINTER) * _POINTER
        return self.memory.kernel(b"".join(type_.encode(each).ljust(padded, b"\0") for each in value), "value")
