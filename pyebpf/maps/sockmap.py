"""Maps of sockets in a probe: where a message goes, which socket answers."""

from __future__ import annotations

from errno import ENOENT
from typing import TYPE_CHECKING, Generic, TypeVar

from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Condition as Relation, ValueType
from pyebpf.maps.declared import LoadedMap, bpf_type
from pyebpf.maps.mapping import StoredObjectArray
from pyebpf.specs import MapSpec
from pyebpf.specs.maps import map_size
from pyebpf.types import S64, U32, U64
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.flags import BPF_F_INGRESS
from pyebpf.uapi.helpers import HELPER_IDS

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

K = TypeVar("K")


#: Programs that may call a method, with the helper for a sockmap and the one for a sockhash.
_REDIRECT = {
    ProgramType.SK_MSG: ("msg_redirect_map", "msg_redirect_hash"),
    ProgramType.SK_SKB: ("sk_redirect_map", "sk_redirect_hash"),
}
_ASSIGN = (ProgramType.SK_LOOKUP, ProgramType.SCHED_CLS)


class SocketMap(LoadedMap, StoredObjectArray[K], Generic[K]):
    """`bpf.sockmap(size=N)`, `bpf.sockhash(key=K)`, `bpf.reuseport_sockarray(size=N)`.

    In user space `sockets[k] = socket` puts one in, `del sockets[k]` takes it out; it goes by itself when it is closed.
    """

    def __init__(self, name: str, map_type: MapType, key: object, size: int) -> None:
        self.name = name
        self.map_type = map_type
        self.key = U32 if key is None else bpf_type(key, "key")
        self.max_entries = map_size(size)

    def cookies(self) -> dict[K, int]:
        """The entries: each socket's cookie (SO_COOKIE), by key."""
        return self.snapshot()

    if TYPE_CHECKING:

        def redirect(self, key: K, *, ingress: bool = False) -> int:
            """In sk_msg and sk_skb programs: hand the data to that socket; SK_PASS, or SK_DROP if there is none.

            With `ingress` as if the socket had received it, else as if it had sent it.
            """

        def update(self, key: K, flags: int = 0) -> int:  # type: ignore[override]  # as a probe writes it
            """In sock_ops programs: put the socket of the event into the map; 0 or a negative errno."""

        def select(self, key: K) -> int:
            """In sk_reuseport programs: that socket gets it; 0 or a negative errno, such as that of no such entry."""

        def assign(self, key: K, flags: int = 0) -> int:
            """In sk_lookup and tc programs: that socket gets it; 0 or a negative errno, such as that of no such entry.

            `flags` are BPF_SK_LOOKUP_F_*.
            """

    # -- in probes -----------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, self.map_type, self.key, U64, self.max_entries)

    def describe(self) -> str:
        return f"the map of sockets {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        methods = {"redirect": self._redirect, "update": self._update, "select": self._select, "assign": self._assign}
        return method_of(p, self, name, methods)

    # -- methods -------------------------------------------------------------------------------------------------------

    def _redirect(self, p: ProgramBuilder, key: object, *, ingress: object = False) -> Int:
        """`redirect(k)`: hand what the program looks at to that socket. SK_PASS, or SK_DROP if there is none."""
        helpers = _REDIRECT.get(p.program_type)
        if helpers is None or self.map_type is MapType.REUSEPORT_SOCKARRAY:
            p.fail(f"redirect() is for sk_msg and sk_skb programs, to a sockmap or sockhash: {self.describe()}")
        if not isinstance(ingress, bool):
            p.fail("ingress= is True (as if the socket had received it) or False (as if it sent it)")
        flags = p.b.const(BPF_F_INGRESS if ingress else 0)
        if self.map_type is MapType.SOCKMAP:
            result = self._call(p, helpers[0], p.context, self.handle(p), to_int(p, key).value, flags)
        else:
            with self._key(p, key) as address:
                result = self._call(p, helpers[1], p.context, self.handle(p), address, flags)
        p.b.assume_bounds(result, 0, 1)
        return Int(result, S64)

    def _update(self, p: ProgramBuilder, key: object, flags: object = 0) -> Int:
        """`update(k)`: put the socket of a sock_ops event into the map. 0, or a negative errno."""
        if p.program_type is not ProgramType.SOCK_OPS or self.map_type is MapType.REUSEPORT_SOCKARRAY:
            p.fail(f"update() is for sock_ops programs, of a sockmap or sockhash: {self.describe()}")
        helper = "sock_map_update" if self.map_type is MapType.SOCKMAP else "sock_hash_update"
        with self._key(p, key) as address:
            return Int(self._call(p, helper, p.context, self.handle(p), address, to_int(p, flags).value), S64)

    def _select(self, p: ProgramBuilder, key: object) -> Int:
        """`select(k)`: that socket gets what an sk_reuseport program looks at. 0, or a negative errno."""
        if p.program_type is not ProgramType.SK_REUSEPORT:
            p.fail(f"select() is for sk_reuseport programs: {self.describe()}")
        with self._key(p, key) as address:
            return Int(self._call(p, "sk_select_reuseport", p.context, self.handle(p), address, p.b.const(0)), S64)

    def _assign(self, p: ProgramBuilder, key: object, flags: object = 0) -> Int:
        """`assign(k)`: that socket gets the packet or connection. 0, or a negative errno (ENOENT: no such entry)."""
        if p.program_type not in _ASSIGN or self.map_type is MapType.REUSEPORT_SOCKARRAY:
            p.fail(f"assign() is for sk_lookup and tc programs, from a sockmap or sockhash: {self.describe()}")
        number = to_int(p, flags).value
        with self._key(p, key) as address:
            found = self._call(p, "map_lookup_elem", self.handle(p), address, result=ValueType.POINTER)
        result = p.b.variable(hint="assigned")
        with p.b.if_(Compare(Relation.NE, found, p.b.const(0), null_check=True)):
            p.b.write(result, self._call(p, "sk_assign", p.context, found, number))
            # The look-up took a reference, which the verifier wants back.
            self._call(p, "sk_release", found)
        with p.b.else_():
            p.b.write(result, p.b.const(-ENOENT))
        return Int(p.b.read_final(result), S64)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _call(
        self, p: ProgramBuilder, helper: str, *arguments: ir.Value, result: ValueType = ValueType.SCALAR
    ) -> ir.Value:
        return p.b.call(HELPER_IDS[helper], *arguments, result=result, comment=f"bpf_{helper}")
