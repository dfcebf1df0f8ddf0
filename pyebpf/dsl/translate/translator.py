"""`Translator`: a frame that finds the handler of each node."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Always
from pyebpf.dsl.translate import calls, closures, expressions, sequences, statements
from pyebpf.dsl.translate.compile_time import python_value
from pyebpf.dsl.translate.frame import Frame
from pyebpf.dsl.translate.known import checked, raised
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.errors import PyebpfError
from pyebpf.types import U64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.dsl.translate.frame import Handlers


class Translator(Frame):
    """A function being translated; the files of this package call each other's handlers by its methods."""

    def expression(self, node: ast.expr) -> object:
        if type(node) is ast.Constant and type(node.value) is int and node.value <= U64.maximum:
            # Nothing about it can be refused here.
            return node.value
        b = self.b
        before, b.where = b.where, self.at(node)
        try:
            handler = EXPRESSIONS.get(type(node)) or python_value
            value = handler(self, node)
            return checked(self, value.holds if isinstance(value, Always) else value)
        except (PyebpfError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raised(self, error)
            raise
        finally:
            b.where = before

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for node in statements:
            b = self.b
            if not b.reachable:
                return
            b.where = self.at(node)
            handler = STATEMENTS.get(type(node))
            if handler is None:
                refuse(self, node)
            try:
                handler(self, node)
            except (PyebpfError, KeyboardInterrupt):
                raise
            except BaseException as error:
                raised(self, error)
                raise


def _loop(f: Frame, node: ast.AST) -> None:
    # Most probes have no loop.
    from pyebpf.dsl.translate import loops

    loops.HANDLERS[type(node)](f, node)


#: Handlers of expressions; Python itself evaluates those that are not here.
EXPRESSIONS: Handlers = {
    **expressions.HANDLERS,
    **sequences.HANDLERS,
    ast.Call: calls.call,
    ast.Lambda: closures.local_function,
}
STATEMENTS: Handlers = {
    **statements.HANDLERS,
    **dict.fromkeys((ast.While, ast.For, ast.Break, ast.Continue), _loop),
}
