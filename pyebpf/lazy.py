"""Names of a package that are imported when somebody first asks for them.

What a start does not need, it should not wait for: a module costs a quarter of a millisecond, and there are hundreds.
"""

from __future__ import annotations

import sys

# Type checkers know this by its name. `typing` and the dozen modules that it needs are imported after `pyebpf.__main__`
# has set what SIGINT does: until then Ctrl-C prints a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def lazy_names(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """Make a package's `__getattr__`: `modules` tells which of its modules has which names.

    Type checkers do not see through it: the package imports the same names under TYPE_CHECKING.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)  # the next one finds it there
        return value

    return find
