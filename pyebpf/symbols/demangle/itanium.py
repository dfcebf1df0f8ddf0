"""Names that C++ compilers mangle by the Itanium C++ ABI."""

from __future__ import annotations

from pyebpf.symbols.demangle.expressions import Expressions
from pyebpf.symbols.demangle.names import Names
from pyebpf.symbols.demangle.reader import NotMangled, Value, text
from pyebpf.symbols.demangle.types import Types, function

#: Special names whose rest is a type.
_OF_TYPE = {
    "TA": "template parameter object for ",
    "TI": "typeinfo for ",
    "TS": "typeinfo name for ",
    "TT": "VTT for ",
    "TV": "vtable for ",
}
#: Special names whose rest is a name.
_OF_NAME = {
    "GV": "guard variable for ",
    "TH": "TLS init function for ",
    "TW": "TLS wrapper function for ",
}


class Demangler(Names, Types, Expressions):
    """Everything after `_Z`."""

    def encoding(self, *, parameters: bool, result: bool = True) -> str:
        self.enter()
        if self.s[self.i] in "GT":
            shown = self._special(parameters=parameters)
            self.encoded = (shown, False, False)
        else:
            shown = self._function_or_variable(parameters=parameters, result=result)
        self.depth -= 1
        self.spend(len(shown))
        return shown

    def _function_or_variable(self, *, parameters: bool, result: bool) -> str:
        name = text(self.name(of_function=True))
        is_template, qualifiers = self.is_template, self.qualifiers
        self.encoded = (name, False, not is_template)
        if not parameters or self.s[self.i] in "E\0.@":
            return name
        region = self.begin_region()
        returned: Value | None = None
        if is_template and not self.without_return:
            returned = self.type()
        declared = function(returned or "", text(self.parameters()), qualifiers)
        self.end_region(region)
        requires = f" requires {text(self.expression())}" if self.take("Q") else ""
        self.encoded = (name, True, not is_template and not qualifiers)
        if returned is None or not result:
            return f"{name}{declared.right}{requires}"
        return f"{declared.left}{name}{declared.right}{requires}"

    def function_in_expression(self) -> str:
        arguments = self.arguments
        shown = self.encoding(parameters=True)
        self.arguments = arguments
        self.expect("E")
        return shown

    def _special(self, *, parameters: bool) -> str:
        """Names of what compilers make for classes, functions and variables."""
        code = self.s[self.i : self.i + 2]
        self.i += 2
        if prefix := _OF_TYPE.get(code):
            return prefix + text(self.type() if code != "TA" else self._template_argument(self.s[self.i]))
        if prefix := _OF_NAME.get(code):
            return prefix + text(self.name())
        match code:
            case "TC":
                derived = text(self.type())
                self._offset()
                return f"construction vtable for {text(self.type())}-in-{derived}"
            case "Th":
                self._offset()
                return f"non-virtual thunk to {self.encoding(parameters=parameters)}"
            case "Tv":
                self._offset()
                self._offset()
                return f"virtual thunk to {self.encoding(parameters=parameters)}"
            case "Tc":
                self._adjustment()
                self._adjustment()
                return f"covariant return thunk to {self.encoding(parameters=parameters)}"
            case "GR":
                name = text(self.name())
                number = 0 if self.s[self.i] in "_\0" else self.sequence_number()
                self.take("_")
                return f"reference temporary #{number} for {name}"
            case "GA":
                return f"hidden alias for {self.encoding(parameters=parameters)}"
            case "GT":
                is_clone = self.take("t")
                if not is_clone:
                    self.expect("n")
                return f"{'' if is_clone else 'non-'}transaction clone for {self.encoding(parameters=parameters)}"
            case "GI":
                module = ""
                while self.take("W"):
                    module += ":" if self.take("P") else "." if module else ""
                    module += self.source_name()
                return f"initializer for module {module}"
            case _:
                raise NotMangled

    def _offset(self) -> None:
        """A number, which may be negative, and what ends it."""
        self.take("n")
        self.number()
        self.expect("_")

    def _adjustment(self) -> None:
        if self.take("v"):
            self._offset()
        else:
            self.expect("h")
        self._offset()


def demangled(mangled: str, *, parameters: bool) -> tuple[str, int]:
    """A mangled name as it is shown, and where it ends. What is outside the grammar raises an error (`ERRORS`)."""
    # NUL, which no name has, ends each look-ahead.
    reader = Demangler(mangled + "\0\0", 2, short_std=not parameters)
    shown = reader.encoding(parameters=parameters)
    return shown, reader.i


#: What reading raises for text outside the grammar: its own error, an end in the middle, and too deep nesting.
ERRORS = (NotMangled, IndexError, RecursionError)
