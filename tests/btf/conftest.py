"""A BTF with every kind, made by pyebpf's own builder."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyebpf.btf import Btf, BtfBuilder


@dataclass
class Sample:
    """BTF bytes and the ids of what stands in them."""

    data: bytes
    ids: dict[str, int]

    @property
    def btf(self):
        return Btf(self.data)


def build_sample(byteorder="little"):
    b = BtfBuilder(byteorder=byteorder)
    ids = {}
    ids["int"] = b.add_int("int", 4, signed=True)
    ids["char"] = b.add_int("char", 1)
    ids["u8"] = b.add_int("unsigned char", 1)
    ids["u64"] = b.add_int("long unsigned int", 8)
    ids["bool"] = b.add_int("_Bool", 1, boolean=True)
    ids["odd"] = b.add_int("unsigned int", 4, bits=3, bit_offset=2)
    ids["double"] = b.add_float("double", 8)
    ids["u32"] = b.add_int("unsigned int", 4)
    ids["pid_t"] = b.add_typedef("pid_t", ids["int"])
    ids["const pid_t"] = b.add_const(ids["pid_t"])
    ids["volatile"] = b.add_volatile(ids["const pid_t"])
    ids["char[16]"] = b.add_array(ids["char"], ids["u32"], 16)
    ids["u64[3]"] = b.add_array(ids["u64"], ids["u32"], 3)
    ids["u64[2][3]"] = b.add_array(ids["u64[3]"], ids["u32"], 2)
    ids["char[]"] = b.add_array(ids["char"], ids["u32"], 0)
    # struct inner { int x; union { int left; char right; }; };
    ids["union"] = b.add_union("", 4, [("left", ids["int"], 0, 0), ("right", ids["char"], 0, 0)])
    ids["inner"] = b.add_struct("inner", 8, [("x", ids["int"], 0, 0), ("", ids["union"], 32, 0)])
    ids["inner *"] = b.add_ptr(ids["inner"])
    ids["flags"] = b.add_struct("", 4, [("low", ids["u32"], 0, 3), ("", ids["u32"], 3, 2), ("high", ids["u32"], 5, 27)])
    ids["outer"] = b.add_struct(
        "outer",
        112,
        [
            ("pid", ids["const pid_t"], 0, 0),
            ("", ids["flags"], 32, 0),
            ("name", ids["char[16]"], 64, 0),
            ("grid", ids["u64[2][3]"], 192, 0),
            ("in", ids["inner"], 576, 0),
            ("to", ids["inner *"], 640, 0),
            ("old", ids["odd"], 704, 0),
            ("tail", ids["char[]"], 768, 0),
        ],
    )
    ids["outer *"] = b.add_ptr(ids["outer"])
    ids["restrict"] = b.add_restrict(ids["outer *"])
    ids["state"] = b.add_enum("state", 4, [("OFF", 0), ("ON", 1), ("BROKEN", -1)], signed=True)
    ids["limits"] = b.add_enum64("limits", 8, [("MOST", 2**64 - 1), ("LEAST", 0)])
    ids["depths"] = b.add_enum64("depths", 8, [("DEEPEST", -(2**40))], signed=True)
    ids["anonymous enum"] = b.add_enum("", 4, [("BIT_31", 2**31)])
    ids["opaque"] = b.add_fwd("opaque")
    ids["opaque union"] = b.add_fwd("choice", union=True)
    ids["proto"] = b.add_func_proto(ids["int"], [("to", ids["outer *"]), ("count", ids["u64"])])
    ids["variadic"] = b.add_func_proto(0, [("fmt", ids["restrict"]), ("", 0)])
    ids["function *"] = b.add_ptr(ids["proto"])
    ids["work"] = b.add_func("work", ids["proto"], 1)
    ids["log"] = b.add_func("log", ids["variadic"])
    ids["user char"] = b.add_type_tag("user", ids["char"])
    ids["user char *"] = b.add_ptr(ids["user char"])
    ids["counter"] = b.add_var("counter", ids["u64"])
    ids["section"] = b.add_datasec(".data", 8, [(ids["counter"], 0, 8)])
    ids["void *"] = b.add_ptr(0)
    ids["traced"] = b.add_func_proto(
        ids["int"], [("__data", ids["void *"]), ("to", ids["outer *"]), ("in__nullable", ids["inner *"])]
    )
    ids["__traceiter_job"] = b.add_func("__traceiter_job", ids["traced"])
    ids["nameless"] = b.add_func_proto(0, [("", ids["void *"]), ("", ids["outer *"]), ("", ids["inner *"])])
    ids["nameless *"] = b.add_ptr(ids["nameless"])
    ids["btf_trace_job"] = b.add_typedef("btf_trace_job", ids["nameless *"])
    ids["tag"] = b.add_decl_tag("kfunc", ids["work"])
    ids["arg tag"] = b.add_decl_tag("arg:nullable", ids["work"], 0)
    return Sample(b.to_bytes(), ids)


@pytest.fixture(scope="session")
def sample():
    """Little-endian."""
    return build_sample()


@pytest.fixture(scope="session", params=["little", "big"])
def either_sample(request):
    """In both byte orders."""
    return build_sample(request.param)
