"""From syntax tree to builder calls.

One module for statements, one for expressions, one for calls, one for what is refused.
"""

from pyebpf.dsl.translate.frame import Frame
from pyebpf.dsl.translate.statements import body

__all__ = ["Frame", "body"]
