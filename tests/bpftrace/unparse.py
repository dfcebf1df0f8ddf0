"""A tree as a script again, in one spelling: parsed, it gives an equal tree."""

from __future__ import annotations

from pyebpf.bpftrace import ast

#: What needs no parentheses beside an operator.
_CLOSED = (
    *(ast.Integer, ast.String, ast.Boolean, ast.Identifier, ast.PositionalParameter, ast.PositionalParameterCount),
    *(ast.Variable, ast.Map, ast.MapAccess, ast.Tuple, ast.Record, ast.FieldAccess, ast.TupleAccess, ast.Index),
    *(ast.Call, ast.TypeOf, ast.SizeOf, ast.OffsetOf, ast.TypeInfo),
)
_NAMES = (ast.Integer, ast.Identifier, ast.Variable, ast.Map)


def unparse(node: ast.Node) -> str:
    """The text of a node."""
    match node:
        case ast.Program():
            parts = [node.shebang] if node.shebang else []
            parts += [unparse(each) for each in node.definitions]
            parts += [unparse(node.config)] if node.config is not None else []
            return "\n".join([*parts, *[unparse(each) for each in (*node.imports, *node.items)], ""])
        case ast.Expression():
            return _expression(node)
        case ast.Statement():
            return _statement(node)
        case ast.Struct() | ast.Enum():
            return _body(node) + ";"
        case ast.Type():
            return _type(node)
        case ast.Probe():
            points = ", ".join(each.text for each in node.attach_points)
            predicate = "" if node.predicate is None else f" /{unparse(node.predicate)}/"
            return f"{points}{predicate} {unparse(node.body)}"
        case ast.Macro():
            return f"macro {node.name}({_comma(node.parameters)}) {unparse(node.body)}"
        case ast.Function():
            parameters = ", ".join(f"{unparse(each.variable)}: {unparse(each.type)}" for each in node.parameters)
            return f"fn {node.name}({parameters}): {unparse(node.result)} {unparse(node.body)}"
        case ast.MapDeclaration():
            return f"let {unparse(node.map)} = {node.kind}({node.size});"
        case ast.Config():
            settings = [f"{each.name} = {_setting(each.value)};" for each in node.settings]
            return f"config = {{ {' '.join(settings)} }}"
        case _:
            return _definition(node)


def _setting(value: int | bool | str) -> str:
    if isinstance(value, str):
        return _quoted(value.encode(errors="surrogateescape"))
    return str(value).lower()


def _definition(node: ast.Node) -> str:
    match node:
        case ast.Include():
            return f"#include <{node.path}>" if node.angled else f'#include "{node.path}"'
        case ast.Define():
            parameters = "" if node.parameters is None else f"({', '.join(node.parameters)})"
            return f"#define {node.name}{parameters} {node.text}".rstrip()
        case ast.Directive():
            return f"#{node.word} {node.text}".rstrip()
        case _:
            raise AssertionError(node)


def _body(node: ast.Struct | ast.Enum) -> str:
    attributes = _attributes(node)
    if isinstance(node, ast.Enum):
        constants = [
            each.name + ("" if each.value is None else f" = {unparse(each.value)}") for each in node.enumerators
        ]
        return f"enum {node.name} {{ {', '.join(constants)} }}{attributes}"
    members = "".join(f" {_member(each)};" for each in node.members)
    return f"{node.keyword} {node.name} {{{members} }}{attributes}"


def _attributes(node: ast.Struct | ast.Enum | ast.Member) -> str:
    return "".join(f" {_attribute(each)}" for each in node.attributes)


def _attribute(node: ast.Attribute) -> str:
    if isinstance(node.operand, ast.Type):
        return f"_Alignas({unparse(node.operand)})"
    return f"__attribute__(({node.name}{'' if node.operand is None else f'({unparse(node.operand)})'}))"


def _member(node: ast.Member) -> str:
    rest = ("" if node.bits is None else f" : {unparse(node.bits)}") + _attributes(node)
    return _declared(node.type, node.name) + rest


def _declared(type_: ast.Type, name: str) -> str:
    """A member's type around its name, as C has it."""
    match type_:
        case ast.PointerType(target=ast.FunctionType() | ast.ArrayType() as target):
            return _declared(target, f"(*{name})")
        case ast.PointerType():
            return _declared(type_.target, f"*{name}")
        case ast.FunctionType():
            return _declared(type_.result, f"{name}()")
        case ast.ArrayType():
            return _declared(type_.element, f"{name}{_size(type_)}")
        case _:
            return f"{_type(type_)} {name}"


def _size(node: ast.ArrayType) -> str:
    return "[]" if node.size is None else f"[{unparse(node.size)}]"


def _type(node: ast.Type) -> str:
    match node:
        case ast.TypeName():
            return f"{node.keyword} {node.name}".strip()
        case ast.Struct() | ast.Enum():
            return _body(node)
        case ast.PointerType():
            return _type(node.target) + "*"
        case ast.ArrayType():
            sizes, element = _size(node), node.element
            while isinstance(element, ast.ArrayType):
                sizes += _size(element)
                element = element.element
            return _type(element) + sizes
        case _:
            raise AssertionError(node)


def _comma(nodes: tuple[ast.Expression, ...] | tuple[ast.Variable | ast.Map | ast.Identifier, ...]) -> str:
    return ", ".join([unparse(each) for each in nodes])


def _beside(node: ast.Expression) -> str:
    """An expression beside an operator."""
    return unparse(node) if isinstance(node, _CLOSED) else f"({unparse(node)})"


def _asked(node: ast.Type | ast.Expression) -> str:
    """An operand of `sizeof` and the like, where an expression must not look like a type."""
    return unparse(node) if isinstance(node, (ast.Type, *_NAMES)) else f"({unparse(node)})"


def _quoted(value: bytes) -> str:
    def shown(byte: int) -> str:
        return chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}"

    return f'"{"".join([shown(each) for each in value])}"'


def _expression(node: ast.Expression) -> str:
    match node:
        case ast.Integer() | ast.Boolean():
            return str(node.value).lower()
        case ast.String():
            return _quoted(node.value)
        case ast.Identifier():
            return node.name
        case ast.PositionalParameter():
            return f"${node.number}"
        case ast.PositionalParameterCount():
            return "$#"
        case ast.Variable():
            return f"${node.name}"
        case ast.Map():
            return f"@{node.name}"
        case ast.MapAccess():
            many = isinstance(node.key, ast.Tuple) and len(node.key.elements) > 1
            key = _comma(node.key.elements) if many and isinstance(node.key, ast.Tuple) else unparse(node.key)
            return f"{unparse(node.map)}[{key}]"
        case ast.Unary():
            return node.operator + _beside(node.value)
        case ast.AddressOf():
            return f"&{unparse(node.target)}"
        case ast.Increment():
            target = unparse(node.target)
            return node.operator + target if node.prefix else target + node.operator
        case ast.Binary():
            return f"{_beside(node.left)} {node.operator} {_beside(node.right)}"
        case ast.Conditional():
            then = "" if node.then is None else _beside(node.then)
            return f"{_beside(node.test)} {f'? {then} :' if then else '?:'} {_beside(node.otherwise)}"
        case ast.Tuple():
            return f"({_comma(node.elements)},)" if len(node.elements) == 1 else f"({_comma(node.elements)})"
        case ast.Record():
            return f"({', '.join([f'{each.name}={unparse(each.value)}' for each in node.fields])})"
        case ast.FieldAccess():
            return f"{_beside(node.value)}{'->' if node.arrow else '.'}{node.name}"
        case ast.TupleAccess():
            return f"{_beside(node.value)}.{node.index}"
        case ast.Index():
            # What follows a bare map in brackets is its key.
            value = f"({unparse(node.value)})" if isinstance(node.value, ast.Map) else _beside(node.value)
            return f"{value}[{unparse(node.index)}]"
        case ast.Call():
            return f"{node.name}({_comma(node.arguments)})"
        case ast.Cast():
            return f"({unparse(node.type)}){_beside(node.value)}"
        case ast.TypeOf():
            return f"typeof({_asked(node.operand)})"
        case ast.SizeOf():
            return f"sizeof({_asked(node.operand)})"
        case ast.OffsetOf():
            return f"offsetof({_asked(node.operand)}, {'.'.join(node.path)})"
        case ast.TypeInfo():
            return f"typeinfo({_asked(node.operand)})"
        case ast.Comptime():
            return f"comptime {_beside(node.value)}"
        case ast.If():
            otherwise = "" if node.otherwise is None else f" else {unparse(node.otherwise)}"
            return f"if ({unparse(node.test)}) {unparse(node.then)}{otherwise}"
        case ast.Block():
            return _block(node)
        case _:
            raise AssertionError(node)


def _block(node: ast.Block) -> str:
    parts = [unparse(each) for each in node.statements]
    if node.value is not None:
        parts.append(unparse(node.value))
    elif node.statements and not parts[-1].endswith(";"):
        parts[-1] += ";"  # without it the last one would be the block's value
    return f"{{ {' '.join(parts)} }}" if parts else "{}"


def _statement(node: ast.Statement) -> str:
    match node:
        case ast.ExpressionStatement():
            return unparse(node.value) + ("" if isinstance(node.value, ast.If | ast.Block) else ";")
        case ast.Assignment():
            return f"{unparse(node.target)} {node.operator} {unparse(node.value)};"
        case ast.Discard():
            return f"_ = {unparse(node.value)};"
        case ast.Let():
            of_type = "" if node.type is None else f": {unparse(node.type)}"
            value = "" if node.value is None else f" = {unparse(node.value)}"
            return f"let {unparse(node.variable)}{of_type}{value};"
        case ast.For():
            over = node.over
            text = f"{_beside(over.first)}..{_beside(over.stop)}" if isinstance(over, ast.Range) else unparse(over)
            return f"for ({unparse(node.variable)} : {text}) {unparse(node.body)}"
        case ast.While():
            return f"while ({unparse(node.test)}) {unparse(node.body)}"
        case ast.Unroll():
            return f"unroll ({unparse(node.count)}) {unparse(node.body)}"
        case ast.Break():
            return "break;"
        case ast.Continue():
            return "continue;"
        case ast.Return():
            return "return;" if node.value is None else f"return {unparse(node.value)};"
        case ast.Import():
            return f"import {_quoted(node.path.encode(errors='surrogateescape'))};"
        case _:
            raise AssertionError(node)
