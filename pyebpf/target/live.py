"""`LiveTarget`: a kernel's facts, from BTF, formats and answers that are handed in."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal

from pyebpf.btf import Composite, DataSec, Func, FuncProto, Fwd, Kind, Var, raw_tracepoint, raw_tracepoint_names
from pyebpf.errors import BtfError, NotFound, NotSupported
from pyebpf.target.btf_types import convert
from pyebpf.target.facts import (
    KERNEL_ITSELF,
    KernelFunction,
    KernelMember,
    KernelParameter,
    KernelRawTracepoint,
    KernelType,
    KernelVariable,
)
from pyebpf.target.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pyebpf.btf import Btf
    from pyebpf.types.tracepoint import TracepointFormat

_NO_LIST = "no list of the kernel's tracepoints is available (tracefs)"
_PER_CPU = ".data..percpu"
STRUCT_KINDS = (Kind.STRUCT, Kind.UNION)
ENUM_KINDS = (Kind.ENUM, Kind.ENUM64)
BY_KEYWORD: dict[str, tuple[Kind, ...]] = {
    "struct": (Kind.STRUCT,),
    "union": (Kind.UNION,),
    "enum": ENUM_KINDS,
    "": (Kind.TYPEDEF, Kind.INT, Kind.FLOAT, *STRUCT_KINDS, *ENUM_KINDS),
}
# C writes these types in several ways; BTF has the one that the compiler's debugging information uses.
SPELLINGS = {
    "bool": "_Bool",
    "long": "long int",
    "long long": "long long int",
    "short": "short int",
    "unsigned": "unsigned int",
    "unsigned long": "long unsigned int",
    "unsigned long long": "long long unsigned int",
    "unsigned short": "short unsigned int",
}


class LiveTarget(Target):
    """A target whose facts come from callables, each asked when first needed; no file is touched here.

    `btf` gives vmlinux's BTF; `modules` the name and split BTF of each module, searched in order for what vmlinux
    lacks; `formats` the text of a tracepoint's `format` file by category and name; `features` answers `has`,
    `functions` its namesake, `tracepoints` names of a category. What is not given, the target does not have.
    """

    def __init__(
        self,
        *,
        arch: str = "x86_64",
        byteorder: Literal["little", "big"] = "little",
        page_size: int = 4096,
        possible_cpus: int = 1,
        pid_namespace: tuple[int, int] | None = None,
        btf: Callable[[], Btf] | None = None,
        modules: Callable[[], Iterable[tuple[str, Btf]]] | None = None,
        formats: Callable[[str, str], str] | None = None,
        features: Callable[[str], bool] | None = None,
        functions: Callable[[str], tuple[str, ...]] | None = None,
        tracepoints: Callable[[str], tuple[str, ...]] | None = None,
        categories: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        self._arch = arch
        self._byteorder: Literal["little", "big"] = byteorder
        self._page_size = page_size
        self._possible_cpus = possible_cpus
        self._pid_namespace = pid_namespace
        self._make_btf = btf
        self._make_modules = modules
        self._formats = formats
        self._features = features
        self._functions = functions
        self._tracepoints = tracepoints
        self._categories = categories
        self._vmlinux: Btf | None = None
        self._modules: dict[str, Btf] = {}
        self._more_modules: Iterator[tuple[str, Btf]] | None = None
        self._parsed: dict[tuple[str, str], TracepointFormat] = {}

    @property
    def arch(self) -> str:
        """As given."""
        return self._arch

    @property
    def byteorder(self) -> Literal["little", "big"]:
        """As given."""
        return self._byteorder

    @property
    def page_size(self) -> int:
        """As given."""
        return self._page_size

    @property
    def possible_cpus(self) -> int:
        """As given."""
        return self._possible_cpus

    @property
    def pid_namespace(self) -> tuple[int, int] | None:
        """As given."""
        return self._pid_namespace

    def btf(self, module: str = "") -> Btf:
        """Return the BTF of vmlinux or of a module. Raises NotSupported without any, NotFound for another module."""
        if not module:
            if self._vmlinux is None:
                if self._make_btf is None:
                    raise NotSupported("the kernel has no BTF, which kernel types come from (CONFIG_DEBUG_INFO_BTF)")
                self._vmlinux = self._make_btf()
            return self._vmlinux
        for name, split in self._each_module():
            if name == module:
                return split
        raise NotFound(f"the kernel has no BTF of a module {module!r}")

    def _each_module(self) -> Iterator[tuple[str, Btf]]:
        """Modules in order; each is asked for once, and only when the search gets so far."""
        yield from list(self._modules.items())
        if self._more_modules is None:
            self._more_modules = iter(() if self._make_modules is None else self._make_modules())
        for name, split in self._more_modules:
            self._modules[name] = split
            yield name, split

    def _find(self, name: str, kinds: Collection[Kind]) -> tuple[Btf, str, int] | None:
        """The type of that name, its BTF and that BTF's module: vmlinux's if it has one, of the first kind given."""
        btf = self.btf()
        for kind in kinds:
            ids = btf.find(name, (kind,))
            if ids:
                return btf, "", ids[0]
        for module, split in self._each_module():
            for kind in kinds:
                ids = [type_id for type_id in split.find(name, (kind,)) if type_id >= split.start]
                if ids:
                    return split, module, ids[0]
        return None

    def _lookup(self, name: str) -> KernelType | None:
        """The type of that C name, if there is one."""
        stars, keyword, bare = _parse(name)
        type_ = None
        if bare == "void" and not keyword:
            type_ = KernelType("void", 0, "void")
        elif (found := self._find(bare, BY_KEYWORD[keyword])) is not None:
            btf, module, type_id = found
            type_ = convert(btf, type_id, module)
        if type_ is not None:
            for _ in range(stars):
                type_ = KernelType("pointer", 8, element=type_)
        return type_

    def type_named(self, name: str) -> KernelType:
        """Find a type by its C name. Raises NotFound."""
        type_ = self._lookup(name)
        if type_ is None:
            _, keyword, bare = _parse(name)
            raise self.btf().not_found(bare, BY_KEYWORD[keyword], keyword or "type")
        return type_

    def _defined(self, owner: KernelType) -> tuple[Btf, str, int]:
        """The node with a struct's members: for one only declared, the definition of that name."""
        btf = self.btf(owner.module)
        if isinstance(btf.type_by_id(btf.resolve(owner.id)), Fwd):
            found = self._find(owner.name, BY_KEYWORD[owner.kind])
            if found is None:
                raise NotFound(f"the kernel's BTF only declares {owner.c_name}: its members are not known")
            return found
        return btf, owner.module, owner.id

    def member(self, owner: KernelType, name: str) -> KernelMember:
        """Find a member of a struct or union. Raises NotFound with the closest names."""
        if not owner.composite:
            raise NotFound(f"{owner.c_name} has no member {name!r}: it is not a struct or union")
        btf, module, type_id = self._defined(owner)
        access = btf.member(type_id, name)
        return KernelMember(convert(btf, access.type, module), access.bit_offset, access.bit_size)

    def has_field(self, struct: str, path: str) -> bool:
        """Tell whether the kernel has that struct and path."""
        # Asked first, since the closest names to one that is missing would be looked for in vain.
        return self._lookup(struct) is not None and self._has_path(struct, path)

    def enumerator(self, name: str, enum: str = "") -> int:
        """Value of an enumerator. Raises NotFound."""
        enum = enum.removeprefix("enum ").strip()
        if enum:
            found = self._find(enum, ENUM_KINDS)
            btf = self.btf() if found is None else found[0]
            return btf.enumerator(name, enum)
        value = self.btf().find_enumerator(name)
        if value is None:
            values = (split.find_enumerator(name) for _, split in self._each_module())
            value = next((each for each in values if each is not None), None)
        return self.btf().enumerator(name) if value is None else value

    def enum_of(self, name: str) -> str:
        """The enum of an enumerator, of the kernel itself: those of modules are not known."""
        found = self.btf().enumeration(name)
        return "" if found is None else found.name or f":{found.enumerators[0].name}"

    def function(self, name: str) -> KernelFunction:
        """Find a function. Raises NotFound."""
        found = self._find(name, (Kind.FUNC,))
        btf, module, type_id = found if found is not None else (self.btf(), "", self.btf().function(name).id)
        node = btf.type_by_id(type_id)
        proto = btf.type_by_id(node.type) if isinstance(node, Func) else None
        if not isinstance(proto, FuncProto):
            raise BtfError(f"BTF's function {name!r} has no prototype")
        return self._described(btf, module, name, type_id, proto, btf.nullable_parameters(type_id))

    def members(self, owner: KernelType) -> tuple[str, ...]:
        """Names of a struct's members, in order."""
        btf, _, type_id = self._defined(owner)
        node = btf.type_by_id(btf.resolve(type_id))
        if not isinstance(node, Composite):
            raise NotFound(f"{owner.c_name} has no members: it is not a struct or union")
        return tuple(member.name for member in node.members)

    def named_members(self, owner: KernelType) -> tuple[str, ...]:
        """The same with the names of an anonymous member's own members in its place."""
        btf, _, type_id = self._defined(owner)
        return tuple(btf.members(type_id))

    def prototype(self, type_: KernelType) -> KernelFunction:
        """Return the parameters and the result of a function type. Raises NotFound for any other."""
        btf = self.btf(type_.module)
        proto = btf.type_by_id(type_.id)
        if type_.kind != "function" or not isinstance(proto, FuncProto):
            raise NotFound(f"{type_.c_name} is not a function type")
        return self._described(btf, type_.module, "", type_.id, proto)

    @staticmethod
    def _described(
        btf: Btf, module: str, name: str, type_id: int, proto: FuncProto, nullable: Collection[int] = ()
    ) -> KernelFunction:
        params = proto.params[:-1] if proto.variadic else proto.params
        return KernelFunction(
            name,
            type_id,
            tuple(
                KernelParameter(
                    param.name.removesuffix("__nullable"), convert(btf, param.type, module), number in nullable
                )
                for number, param in enumerate(params)
            ),
            convert(btf, proto.type, module),
            proto.variadic,
            module,
        )

    def has_function(self, name: str) -> bool:
        """Tell whether the kernel's BTF has a function, a module's included."""
        try:
            return self._find(name, (Kind.FUNC,)) is not None
        except NotSupported:
            return False

    def variable(self, name: str) -> KernelVariable:
        """Find a variable that BTF has, a module's included. Raises NotFound."""
        try:
            found = self._find(name, (Kind.VAR,))
        except NotSupported as error:
            raise NotFound(str(error)) from None
        if found is None:
            raise NotFound(f"the kernel's BTF has no variable {name}")
        btf, module, number = found
        variable = btf.type_by_id(number)
        assert isinstance(variable, Var)
        sections = (btf.type_by_id(section) for section in btf.find(_PER_CPU, (Kind.DATASEC,)))
        per_cpu = any(
            each.type == number for section in sections if isinstance(section, DataSec) for each in section.variables
        )
        return KernelVariable(convert(btf, variable.type, module), per_cpu)

    def functions(self, pattern: str) -> tuple[str, ...]:
        """Names of functions by a pattern. Raises NotSupported where nothing lists them."""
        if self._functions is None:
            raise NotSupported("no list of the kernel's functions is available (tracefs available_filter_functions)")
        return self._functions(pattern)

    def raw_tracepoint(self, name: str) -> KernelRawTracepoint:
        """Find a raw tracepoint. Raises NotFound."""
        found = self._find(f"btf_trace_{name}", (Kind.TYPEDEF,))
        btf, module, _ = found if found is not None else (self.btf(), "", 0)
        tracepoint = raw_tracepoint(btf, name)
        return KernelRawTracepoint(
            name,
            tracepoint.type,
            tuple(
                KernelParameter(each.name, convert(btf, each.type, module), each.nullable)
                for each in tracepoint.arguments
            ),
            module,
        )

    def raw_tracepoints(self, pattern: str) -> tuple[str, ...]:
        """Names of raw tracepoints by a pattern; of all modules that have BTF unless it names one."""
        from fnmatch import fnmatchcase

        place, _, name = pattern.rpartition(":")
        homes = chain([(KERNEL_ITSELF, self.btf())], self._each_module())
        lists = (raw_tracepoint_names(btf, own=True) for home, btf in homes if fnmatchcase(home, place or "*"))
        return tuple(sorted({each for names in lists for each in names if fnmatchcase(each, name)}))

    def tracepoint_format(self, category: str, name: str) -> TracepointFormat:
        """Find a tracepoint's fields. Raises NotFound, FormatError."""
        if self._formats is None:
            raise NotSupported("the target has no tracepoint formats: tracefs is not available")
        if (category, name) not in self._parsed:
            from pyebpf.types.tracepoint import parse_format

            self._parsed[category, name] = parse_format(self._formats(category, name))
        return self._parsed[category, name]

    def tracepoints(self, category: str, pattern: str) -> tuple[str, ...]:
        """Names of a category's tracepoints by a pattern. Raises NotFound for a category that there is not."""
        from fnmatch import fnmatchcase

        if self._tracepoints is None:
            raise NotSupported(_NO_LIST)
        return tuple(name for name in self._tracepoints(category) if fnmatchcase(name, pattern))

    def tracepoint_categories(self, pattern: str) -> tuple[str, ...]:
        """Categories of tracepoints by a pattern."""
        from fnmatch import fnmatchcase

        if self._categories is None:
            raise NotSupported(_NO_LIST)
        return tuple(each for each in self._categories() if fnmatchcase(each, pattern))

    def has(self, feature: str) -> bool:
        """As the given oracle says; False without one."""
        return self._features is not None and self._features(feature)


def _parse(name: str) -> tuple[int, str, str]:
    """Stars, keyword ("struct", "union", "enum" or "") and bare name, as BTF spells it, of a C type's name."""
    base = name.rstrip("* \t")
    words = [word for word in base.split() if word not in {"const", "volatile"}]
    keyword = words.pop(0) if words and words[0] in {"struct", "union", "enum"} else ""
    bare = " ".join(words)
    return name[len(base) :].count("*"), keyword, bare if keyword else SPELLINGS.get(bare, bare)
