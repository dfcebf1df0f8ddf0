"""Helpers: the kernel functions that programs call by number, enum bpf_func_id."""

from __future__ import annotations

from functools import cache

from pyebpf.dataclass import dataclass
from pyebpf.errors import NotFound, closest
from pyebpf.uapi.helper_table import GPL_ONLY, PROTOTYPES


@dataclass(frozen=True, slots=True)
class HelperParameter:
    """One parameter: its C type (`const void *`) and name."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Helper:
    """A helper as linux/bpf.h declares it.

    name         without `bpf_`
    id           its number in enum bpf_func_id, the imm of the call
    returns      C type of the result; `void` if there is none
    parameters   at most five; a variadic helper's further ones are not listed
    gpl_only     refused to programs whose licence is not compatible with the GPL
    variadic     takes up to five arguments in all (`trace_printk`)
    """

    name: str
    id: int
    returns: str
    parameters: tuple[HelperParameter, ...]
    gpl_only: bool
    variadic: bool = False

    def __str__(self) -> str:
        parameters = [f"{_join(p.type, p.name)}" for p in self.parameters] + (["..."] if self.variadic else [])
        return f"{_join(self.returns, 'bpf_' + self.name)}({', '.join(parameters) or 'void'})"


def _join(c_type: str, name: str) -> str:
    return f"{c_type}{name}" if c_type.endswith("*") else f"{c_type} {name}"


def _split(declaration: str) -> tuple[str, str]:
    """C type and name of `const void *key`."""
    end = len(declaration)
    while end and (declaration[end - 1].isalnum() or declaration[end - 1] == "_"):
        end -= 1
    return declaration[:end].rstrip(), declaration[end:]


HELPER_IDS: dict[str, int] = {
    _split(prototype.partition("(")[0])[1]: number for number, prototype in enumerate(PROTOTYPES, 1)
}
"""Number of each helper by its name without `bpf_`."""
_NAMES = dict(zip(HELPER_IDS.values(), HELPER_IDS, strict=True))


@cache
def helper(which: str | int) -> Helper:
    """The helper of this name, with or without `bpf_`, or this number. NotFound names the closest ones."""
    if isinstance(which, str):
        bare = which.removeprefix("bpf_")
        if bare not in HELPER_IDS:
            raise NotFound(f"no helper {which!r} up to Linux 6.18{closest(bare, HELPER_IDS)}")
        number = HELPER_IDS[bare]
    else:
        number = which
        if number not in _NAMES:
            raise NotFound(f"no helper has number {number}: Linux 6.18 knows 1 to {len(PROTOTYPES)}")
    front, _, back = PROTOTYPES[number - 1].partition("(")
    returns, name = _split(front)
    declarations = [] if back == "void)" else back.removesuffix(")").split(", ")
    parameters = tuple(HelperParameter(*_split(d)) for d in declarations if d != "...")
    return Helper(name, number, returns, parameters, name in GPL_ONLY, "..." in declarations)


def helper_name(number: int) -> str | None:
    """`bpf_…` name of a helper's number, None if there is none."""
    name = _NAMES.get(number)
    return f"bpf_{name}" if name else None


#: The first number of each release's helpers. Those before it came with Linux 5.10 or earlier.
_RELEASES = (
    (156, "5.11"),
    (163, "5.12"),
    (164, "5.13"),
    (166, "5.14"),
    (169, "5.15"),
    (176, "5.16"),
    (180, "5.17"),
    (186, "5.18"),
    (194, "5.19"),
    (204, "6.0"),
    (208, "6.1"),
    (210, "6.2"),
)


def helper_release(which: str | int) -> str:
    """The Linux that brought a helper, empty for 5.10 and earlier. Types of programs may have it later."""
    number = helper(which).id
    return next((release for first, release in reversed(_RELEASES) if number >= first), "")
