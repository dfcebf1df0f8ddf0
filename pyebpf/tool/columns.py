"""Columns that many tools have: both ends of a socket, the result of a call, times."""

from __future__ import annotations

from typing import Any

from pyebpf.dataclass import dataclass
from pyebpf.output.columns import Column


def ends_columns(
    key: str = "ends", *, wide: bool = False, printed: bool = True, remote_first: bool = False
) -> tuple[Column, ...]:
    """LADDR, LPORT, RADDR and RPORT of a record's `Endpoints`; `wide` has room for any IPv6 address.

    Without `printed` they are of JSON and CSV alone. `remote_first` begins with RADDR and RPORT.
    """
    width = 39 if wide else 15
    local = (
        Column("LADDR", width, key=f"{key}.local", cut=False, field="local_address", type="str", printed=printed),
        Column("LPORT", 5, key=f"{key}.local_port", field="local_port", type="int", printed=printed),
    )
    remote = (
        Column("RADDR", width, key=f"{key}.remote", cut=False, field="remote_address", type="str", printed=printed),
        Column("RPORT", 5, key=f"{key}.remote_port", field="remote_port", type="int", printed=printed),
    )
    return remote + local if remote_first else local + remote


def result_column() -> Column:
    """RESULT of a record that has `error`, the error's name or None: that, or Success."""
    return Column("RESULT", key=lambda call: call.error or "Success", field="error", value="error", type="str | None")


def lifespan_column() -> Column:
    """MS of a record's `lifespan`, nanoseconds."""
    return Column("MS", key="lifespan", scale=1_000_000, decimals=2, field="lifespan_ns", drawn=True)


@dataclass(frozen=True, slots=True)
class _Elapsed(Column):
    """A column that remembers the first event of a run."""

    since: str = ""

    def with_options(self, options: object) -> Column:
        printed = self.printed if isinstance(self.printed, bool) else bool(getattr(options, self.printed))
        return elapsed_column(self.since, printed=printed)


def elapsed_column(key: str, *, printed: bool | str = True) -> Column:
    """TIME(s), the seconds since the first event of a run; `key` is the attribute with an event's time.

    `printed` is as for `Column`.
    """
    first: int | None = None

    def elapsed(record: object) -> int:
        nonlocal first
        time: int = getattr(record, key)
        if first is None:
            first = time
        return time - first

    shown: dict[str, Any] = {"decimals": 6, "field": "elapsed_ns", "type": "int", "printed": printed}
    return _Elapsed("TIME(s)", 9, key=elapsed, scale=10**9, since=key, **shown)
