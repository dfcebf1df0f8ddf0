"""From syntax tree to builder calls.

One module for statements, one for expressions, one for calls, one for what is refused. `Translator` finds the handler
of each node, so that they need not import each other.
"""

from pyebpf.dsl.translate.bodies import body, end_of_function
from pyebpf.dsl.translate.translator import Translator

__all__ = ["Translator", "body", "end_of_function"]
