"""Drops of packets as skb:kfree_skb tells them: their reasons, by number and name, and `--reason`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import NotFound, NotSupported, enum
from pyebpf.tool import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf import BPF

#: The tracepoint's record, whose fields are its arguments' names.
EVENT = "struct trace_event_raw_kfree_skb"
PREFIX = "SKB_DROP_REASON_"
NO_REASONS = (
    "--reason: this kernel does not tell why it drops a packet, as Linux 5.17 and later do: leave --reason out, and "
    "look at the stacks"
)


def reasons_option() -> Any:
    """`-r REASON[,REASON]`, none by default."""
    return option("-r", "--reason", default=(), metavar="REASON[,REASON]", help="only these reasons, such as NO_SOCKET")


def full_name(reason: str) -> str:
    """The enumerator of a reason, which is given with or without its prefix, in capitals or not."""
    return PREFIX + reason.upper().removeprefix(PREFIX)


def _closest(error: NotFound) -> str:
    """The end of the message, with those of the enumerators that it names which are reasons, as they are given."""
    names = str(error).partition(" (did you mean ")[2].removesuffix("?)").split(" or ")
    reasons = [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]
    return f" (did you mean {' or '.join(reasons)}?)" if reasons else ""


def check_reasons(reasons: tuple[str, ...]) -> Callable[[Any], None]:
    """For `before_compiling`, of probes that look at these reasons.

    Raises NotSupported where reasons are asked for and the kernel tells none, NotFound for one it does not have.
    """

    def check(target: Any) -> None:
        if reasons and not target.has_field(EVENT, "reason"):
            raise NotSupported(NO_REASONS)
        for reason in reasons:
            try:
                target.enumerator(full_name(reason))
            except NotFound as error:
                raise NotFound(f"--reason: {reason!r} is none of this kernel's reasons{_closest(error)}") from None

    return check


class ReasonFilter:
    """The reasons that are asked for, with or without the prefix of their names; with none, all."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        self.names = tuple(map(full_name, reasons))

    def wanted(self, ctx: Any) -> bool:
        """In a probe of kfree_skb: whether the packet's is one of them."""
        for name in self.names:
            if ctx.reason == enum(name):
                return True
        return not self.names


def reason_names(bpf: BPF) -> Callable[[int], str]:
    """The function that names a reason, without the prefix: "-" before Linux 5.17, which tells none."""
    try:
        names = bpf.enumerators("skb_drop_reason")
    except NotFound:
        return lambda _: "-"
    return lambda number: names.get(number, str(number)).removeprefix(PREFIX)
