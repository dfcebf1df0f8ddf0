"""Creation of links of networks, sockets and control groups; tables of what a refusal means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.errors import NotFound
from pyebpf.kernel import bpf
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.link.base import Link, attach_error
from pyebpf.uapi.errnos import errno_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from pyebpf.errors import KernelError, PyebpfError
    from pyebpf.objects import Program
    from pyebpf.specs import AttachSpec

    ErrnoMessages: TypeAlias = Mapping[int, "str | SpecificError"]

#: Capabilities that attaching to a network takes.
NEEDS = ("CAP_BPF", "CAP_NET_ADMIN")


class SpecificError(NamedTuple):
    """A message whose error is of a class of its own; the text of NotFound is the whole line."""

    kind: type[NotFound | KernelError]
    text: str


def make_link(
    program: Program,
    target: AttachSpec,
    number: int,
    how: str,
    meanings: ErrnoMessages,
    *,
    attach_type: int | None = None,
    flags: int = 0,
    options: bytes = b"",
    **words: object,
) -> Link:
    """LINK_CREATE of `program` at `number`, the descriptor or the index of `target`; the Link, attached `how`.

    `attach_type` is the target's own, if not given; the rest as in `bpf.link_create` and `link_error`, which it raises.
    """
    kind = target.attach_type if attach_type is None else attach_type
    try:
        link = bpf.link_create(program.fileno(), number, kind, flags=flags, options=options, what=str(target))
    except OSError as error:
        raise link_error(error, program, target, meanings, **words) from error
    return Link(str(target), how, [link], program=program)


def link_error(
    error: OSError, program: Program, target: AttachSpec, meanings: ErrnoMessages, **words: object
) -> PyebpfError:
    """The error for what the kernel said to an attachment.

    `meanings` says what each errno stands for there; in its texts {target} is the place, whose fields may be named
    ({target.interface}), and `words` fill in others.
    """
    from pyebpf.attach.network import OnInterface
    from pyebpf.features.requirements import lacking
    from pyebpf.kernel.interfaces import has_interface

    number = error.errno or 0
    doing = f"attaching {program.name} to {target}"
    if missing := lacking(target, doing, number):
        return missing
    # To XDP's links a missing interface is EINVAL, to others ENODEV.
    if isinstance(target, OnInterface) and target.interface and not has_interface(target.interface):
        return NotFound(f"{doing}: {target.interface} has just disappeared ({errno_name(number)})")
    texts: dict[int, str | KernelError] = {}
    meaning = meanings.get(number)
    if isinstance(meaning, SpecificError):
        text = meaning.text.format(target=target, **words)
        if meaning.kind is NotFound:
            return NotFound(text)
        return meaning.kind(f"{doing}: {text} ({errno_name(number)})", number)
    if meaning is not None:
        texts[number] = meaning.format(target=target, **words)
    return attach_error(error, program.name, str(target), needs=NEEDS, meanings=texts)


def open_place(
    program: Program, target: AttachSpec, path: str, what: str, missing: str, *, flags: int = 0, **words: object
) -> Descriptor:
    """A descriptor, called `what`, of the file or directory that `target` is attached by.

    Raises NotFound where there is none: `missing` is a text as those of `link_error`.
    """
    try:
        return Descriptor(os.open(path, flags | os.O_RDONLY | os.O_CLOEXEC), what)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        raise NotFound(missing.format(target=target, **words)) from None
    except OSError as error:
        raise link_error(error, program, target, {}) from error
