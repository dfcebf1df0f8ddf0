"""Names: scopes, operators, constructors, local and unnamed things, template arguments."""

from __future__ import annotations

from pyebpf.symbols.demangle.operators import OPERATORS
from pyebpf.symbols.demangle.reader import ArgumentPack, NotMangled, Pack, Reader, Value, listed, spread, text


def _joined(scope: Value, part: Value) -> Value:
    if type(scope) is str and type(part) is str:
        return f"{scope}::{part}" if scope else part
    return spread(lambda first, last: f"{text(first)}::{text(last)}" if first else last, scope, part)


def _templated(name: Value, *arguments: Value) -> Value:
    shown, within = text(name), listed(list(arguments))
    space = " " if shown.endswith("<") else ""
    # As c++filt has it, which writes `>>` behind an empty pack.
    if within.endswith(">") and not _ends_empty(arguments[-1]):
        return f"{shown}{space}<{within} >"
    return f"{shown}{space}<{within}>"


def _ends_empty(value: Value) -> bool:
    while isinstance(value, ArgumentPack) and value:
        value = value[-1]
    return not value


class Names(Reader):
    """The part of the grammar about names."""

    def name(self, *, of_function: bool = False) -> Value:
        c = self.s[self.i]
        if c == "N":
            return self._nested_name(of_function=of_function)
        if c == "Z":
            return self._local_name(of_function=of_function)
        self.without_return = self.is_template = False
        self.qualifiers = ""
        name: Value
        if c == "S" and self.s[self.i + 1] != "t":
            name = self.substitution()
            if self.s[self.i] == "W":  # of a module
                name = self.unqualified_name("")
        elif c == "S":
            self.i += 2
            name = f"std::{self.unqualified_name('std')}"
            if self.s[self.i] == "I":
                self.substitutions.append(name)
        else:
            name = self.unqualified_name("")
            if self.s[self.i] == "I":
                self.substitutions.append(name)
        if self.s[self.i] == "I":
            arguments = self.template_arguments()
            name = self.with_arguments(name, arguments)
            if of_function:
                self.arguments = arguments
            self.is_template = True
        return name

    def _nested_name(self, *, of_function: bool) -> Value:
        s = self.s
        self.i += 1
        qualifiers = self.cv_qualifiers()
        c = s[self.i]
        if c == "R":
            self.i += 1
            qualifiers += " &"
        elif c == "O":
            self.i += 1
            qualifiers += " &&"
        elif c == "H":  # an explicit object parameter
            self.i += 1
        scope: Value = ""
        is_template = without_return = False
        while (c := s[self.i]) != "E":
            if c == "I":
                if scope == "":
                    raise NotMangled
                last = self.last_parts.get(scope) if type(scope) is str else None
                arguments = self.template_arguments()
                scope = self.with_arguments(scope, arguments)
                if last and type(scope) is str:
                    self.last_parts[scope] = last
                if of_function:
                    self.arguments = arguments
                is_template = True
            else:
                is_template = False
                if scope != "" and (c in "ST" or (c == "D" and s[self.i + 1] in "tT")):
                    raise NotMangled
                if c == "S":
                    scope = self.substitution()
                    continue
                if c == "T":
                    scope = self.template_parameter()
                elif c == "D" and s[self.i + 1] in "tT":
                    scope = self.decltype()
                elif c == "M":  # the scope of a lambda that initializes a member
                    self.i += 1
                    continue
                else:
                    part = self.unqualified_name(scope)
                    without_return = self.without_return
                    if type(scope) is str:
                        scope = f"{scope}::{part}" if scope else part
                        self.last_parts[scope] = part
                    else:
                        scope = _joined(scope, part)
                self.spend_for(scope)
            if s[self.i] != "E":
                self.substitutions.append(scope)
        self.i += 1
        if scope == "":
            raise NotMangled
        self.is_template, self.without_return, self.qualifiers = is_template, without_return, qualifiers
        return scope

    def _local_name(self, *, of_function: bool) -> Value:
        """Something that is declared inside a function."""
        self.i += 1
        arguments = self.arguments
        scope = self.encoding(parameters=True, result=False)
        self.expect("E")
        if not of_function:
            self.arguments = arguments
        self.without_return = self.is_template = False
        self.qualifiers = ""
        if self.take("s"):
            self._discriminator()
            return f"{scope}::string literal"
        if self.take("d"):
            scope = f"{scope}::{{default arg#{self.ordinal() + 1}}}"
        name = self.name(of_function=of_function)
        self._discriminator()
        name = _joined(scope, name)
        self.spend(len(text(name)))
        return name

    def _discriminator(self) -> None:
        """Numbers that tell equal names of one function apart; they are not shown."""
        if self.s[self.i] == "_":
            self.i += 1
            if self.take("_"):
                self.number()
                self.expect("_")
            elif "0" <= self.s[self.i] <= "9":
                self.i += 1
            else:
                raise NotMangled

    def unqualified_name(self, scope: Value) -> str:
        s = self.s
        c = s[self.i]
        self.without_return = False
        if "0" <= c <= "9":
            found = self.source_name()
            return self._tagged(found) if s[self.i] == "B" else found
        module = ""
        while c == "W":
            self.i += 1
            module += ":" if self.take("P") else "." if module else "@"
            module += self.source_name()
            self.substitutions.append(module)
            c = s[self.i]
        if c == "F":  # a friend that is a member of what it is declared in
            self.i += 1
            c = s[self.i]
        if c == "L":  # of this file only
            self.i += 1
            c = s[self.i]
        if "0" <= c <= "9":
            found = self.source_name()
        elif "a" <= c <= "z":
            found = self.operator_name()
        elif c == "C":
            found = self._constructor(scope)
        elif c == "D":
            found = self._destructor(scope)
        elif c == "U":
            found = self._unnamed()
        else:
            raise NotMangled
        return self._tagged(found) + module

    def _tagged(self, name: str) -> str:
        """A name with its ABI tags."""
        while self.s[self.i] == "B":
            self.i += 1
            name = f"{name}[abi:{self.source_name()}]"
            self.spend(len(name))
        return name

    def _last_part(self, scope: Value) -> str:
        last = self.last_parts.get(scope) if type(scope) is str else None
        if last is None:
            raise NotMangled
        return last.partition("[abi:")[0]

    def _constructor(self, scope: Value) -> str:
        self.i += 1
        inherits = self.take("I")
        if self.s[self.i] not in "12345":
            raise NotMangled
        self.i += 1
        last = self._last_part(scope)
        if inherits:
            base = self.name()  # the class that has it
            of_base = self.last_parts.get(base) if type(base) is str else None
            last = of_base or text(base).partition("<")[0].rpartition("::")[2]
        self.without_return = True
        return last

    def _destructor(self, scope: Value) -> str:
        self.i += 1
        if self.take("C"):  # what a structured binding declares
            names = [self.source_name()]
            while not self.take("E"):
                names.append(self.source_name())
            return f"[{', '.join(names)}]"
        if self.s[self.i] not in "012345":
            raise NotMangled
        self.i += 1
        self.without_return = True
        return f"~{self._last_part(scope)}"

    def _unnamed(self) -> str:
        """A type without a name, or a lambda."""
        self.i += 1
        if self.take("t"):
            return f"{{unnamed type#{self.ordinal() + 1}}}"
        self.expect("l")
        self.enter()
        kept = self.lambda_parameters, self.in_conversion
        self.lambda_parameters, self.in_conversion = [], False
        head = []
        while self._declares_parameter():
            head.append(self._template_parameter_declaration())
        if self.take("Q"):
            self.expression()
        region = self.begin_region()
        parameters = text(self.parameters())
        self.end_region(region)
        if self.take("Q"):
            self.expression()
        self.lambda_parameters, self.in_conversion = kept
        self.expect("E")
        self.depth -= 1
        return f"{{lambda{f'<{listed(list(head))}>' if head else ''}({parameters})#{self.ordinal() + 1}}}"

    def _declares_parameter(self) -> bool:
        return self.s[self.i] == "T" and self.s[self.i + 1] in "yntpk"

    def _template_parameter_declaration(self) -> str:
        """A template parameter that is declared, as a lambda shows it; template arguments may have theirs before."""
        if not self._declares_parameter():
            raise NotMangled
        self.enter()
        kind = self.s[self.i + 1]
        self.i += 2
        if kind == "p":
            shown = self._template_parameter_declaration()
            before, _, name = shown.rpartition(" ")
            shown = f"{before}... {name}"
        elif kind == "n":
            shown = f"{text(self.type())} {self._declared('N')}"
        elif kind == "t":
            outer, self.lambda_parameters = self.lambda_parameters, []
            inner = []
            while not self.take("E"):
                inner.append(self._template_parameter_declaration().rpartition(" ")[0])
            self.lambda_parameters = outer
            shown = f"template<{', '.join(inner)}> class {self._declared('TT')}"
        elif kind == "k":
            shown = f"{text(self.name())} {self._declared('T')}"
        else:
            shown = f"typename {self._declared('T')}"
        self.depth -= 1
        self.spend(len(shown))
        return shown

    def _declared(self, kind: str) -> str:
        """A name for a template parameter of a lambda: `$T0`, `$N1`, `$TT2`."""
        declared = self.lambda_parameters
        if declared is None:
            return f"${kind}"
        name = f"${kind}{len(declared)}"
        declared.append(name)
        return name

    def operator_name(self) -> str:
        code = self.s[self.i : self.i + 2]
        self.i += 2
        if code == "cv":
            return f"operator {text(self._conversion_type())}"
        if code == "li":
            return f'operator"" {self.source_name()}'
        if code[0] == "v" and code[1].isdigit():
            return f"operator {self.source_name()}"
        if code == "on":  # a destructor's or operator's name in an expression
            return self.operator_name()
        found = OPERATORS.get(code)
        if found is None:
            raise NotMangled
        if found[-1].isalpha() or found[:2] in {"ne", "de", "co"}:
            return f"operator {found}"
        return f"operator{found}"

    def _conversion_type(self) -> Value:
        """The type that an operator converts to; if it depends on template arguments, they only follow it."""
        start, known = self.i, len(self.substitutions)
        in_conversion, may_lack_arguments = self.in_conversion, self.may_lack_arguments
        self.in_conversion = self.may_lack_arguments = True
        value = self.type()
        self.in_conversion, self.may_lack_arguments = in_conversion, may_lack_arguments
        end = self.i
        if self.s[end] == "I":
            counted = len(self.substitutions)
            arguments, self.arguments = self.arguments, self.template_arguments()
            later = self.substitutions[counted:]
            del self.substitutions[known:]
            self.i, self.in_conversion = start, True
            value = self.type()
            self.substitutions += later
            self.arguments, self.in_conversion = arguments, in_conversion
            self.i = end
        self.without_return = True
        return value

    def template_arguments(self) -> list[Value]:
        s = self.s
        self.i += 1
        in_conversion, self.in_conversion = self.in_conversion, False
        found: list[Value] = []
        kept = self.is_template, self.without_return, self.qualifiers
        while (c := s[self.i]) != "E":
            if c == "Q" or self._declares_parameter():
                # A constraint or a declaration, which may name parameters that the arguments before it are for.
                arguments, self.arguments = self.arguments, found
                if self.take("Q"):
                    self.expression()
                else:
                    self._template_parameter_declaration()
                self.arguments = arguments
            else:
                found.append(self._template_argument(c))
        self.expect("E")
        self.is_template, self.without_return, self.qualifiers = kept
        self.in_conversion = in_conversion
        return found

    def _template_argument(self, c: str) -> Value:
        if c == "L":
            return self.literal()
        if c == "X":
            self.i += 1
            value = self.expression()
            self.expect("E")
            return value
        if c in "IJ":
            self.enter()
            self.i += 1
            pack = ArgumentPack()
            while (c := self.s[self.i]) != "E":
                pack.append(self._template_argument(c))
            self.i += 1
            self.depth -= 1
            return pack
        return self.type()

    def with_arguments(self, name: Value, arguments: list[Value]) -> Value:
        if type(name) is Pack or any(type(each) is Pack for each in arguments):
            value = spread(_templated, name, *arguments)
        else:
            value = _templated(name, *arguments)
        self.spend_for(value)
        return value
