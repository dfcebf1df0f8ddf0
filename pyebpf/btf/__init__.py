"""BTF, the kernel's type information: decoded on demand, searched, encoded, printed. Bytes in, bytes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.btf.index import Index, digest
from pyebpf.btf.members import MemberAccess, path_steps
from pyebpf.btf.nodes import (
    Array,
    Composite,
    Const,
    DataSec,
    DeclTag,
    Enum,
    Enum64,
    Enumeration,
    Enumerator,
    Float,
    Func,
    FuncProto,
    Fwd,
    Int,
    Kind,
    Member,
    Node,
    Param,
    Ptr,
    Reference,
    Restrict,
    SectionVariable,
    Struct,
    Typedef,
    TypeTag,
    Union,
    Var,
    Void,
    Volatile,
)
from pyebpf.btf.reader import Btf
from pyebpf.lazy import lazy_names

if TYPE_CHECKING:
    from pyebpf.btf.builder import BtfBuilder, sanitise_name
    from pyebpf.btf.printer import c_declaration, c_definition
    from pyebpf.btf.records import FuncInfo, LineInfo, encode_func_info, encode_line_info
    from pyebpf.btf.tracepoints import RawTracepoint, TracepointArgument, raw_tracepoint, raw_tracepoint_names

__all__ = [
    "Array",
    "Btf",
    "BtfBuilder",
    "Composite",
    "Const",
    "DataSec",
    "DeclTag",
    "Enum",
    "Enum64",
    "Enumeration",
    "Enumerator",
    "Float",
    "Func",
    "FuncInfo",
    "FuncProto",
    "Fwd",
    "Index",
    "Int",
    "Kind",
    "LineInfo",
    "Member",
    "MemberAccess",
    "Node",
    "Param",
    "Ptr",
    "RawTracepoint",
    "Reference",
    "Restrict",
    "SectionVariable",
    "Struct",
    "TracepointArgument",
    "TypeTag",
    "Typedef",
    "Union",
    "Var",
    "Void",
    "Volatile",
    "c_declaration",
    "c_definition",
    "digest",
    "encode_func_info",
    "encode_line_info",
    "path_steps",
    "raw_tracepoint",
    "raw_tracepoint_names",
    "sanitise_name",
]

__getattr__ = lazy_names(
    __name__,
    {
        "builder": ("BtfBuilder", "sanitise_name"),
        "printer": ("c_declaration", "c_definition"),
        "records": ("FuncInfo", "LineInfo", "encode_func_info", "encode_line_info"),
        "tracepoints": ("RawTracepoint", "TracepointArgument", "raw_tracepoint", "raw_tracepoint_names"),
    },
)
