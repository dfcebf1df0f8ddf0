"""Columns that many tools have: both ends of a socket."""

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
