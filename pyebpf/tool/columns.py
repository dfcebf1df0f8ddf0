"""Columns that many tools have: both ends of a socket, the result of a call, a lifespan."""

from __future__ import annotations

from pyebpf.output.columns import Column


def ends_columns(key: str = "ends", *, wide: bool = False, printed: bool = True) -> tuple[Column, ...]:
    """LADDR, LPORT, RADDR and RPORT of a record's `Endpoints`; `wide` has room for any IPv6 address.

    Without `printed` they are of JSON and CSV alone.
    """
    width = 39 if wide else 15
    return (
        Column("LADDR", width, key=f"{key}.local", cut=False, field="local_address", type="str", printed=printed),
        Column("LPORT", 5, key=f"{key}.local_port", field="local_port", type="int", printed=printed),
        Column("RADDR", width, key=f"{key}.remote", cut=False, field="remote_address", type="str", printed=printed),
        Column("RPORT", 5, key=f"{key}.remote_port", field="remote_port", type="int", printed=printed),
    )


def result_column() -> Column:
    """RESULT of a record that has `error`, the error's name or None: that, or Success."""
    return Column("RESULT", key=lambda call: call.error or "Success", field="error", value="error", type="str | None")


def lifespan_column() -> Column:
    """MS of a record's `lifespan`, nanoseconds."""
    return Column("MS", key="lifespan", scale=1_000_000, decimals=2, field="lifespan_ns", drawn=True)
