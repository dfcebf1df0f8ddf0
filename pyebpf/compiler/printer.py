"""IR as text: for people, golden files and error messages.

function main(%0.ctx: pointer)
  slot key 4 align 4
block 0:
  %1: scalar = load %0.ctx size 8 imm 16  ; sk
  jump 1(%1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import OPS, Branch, Jump, MayGoto, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.compiler import ir


def module_text(module: ir.Module) -> str:
    """All functions of a module, an empty line between them."""
    return "\n\n".join(function_text(function) for function in module.functions)


def function_text(function: ir.Function) -> str:
    """One function, without a newline at the end."""
    return "\n".join(_lines(function))


def _lines(function: ir.Function) -> Iterator[str]:
    yield f"function {function.name}({_declarations(function.parameters)})"
    for slot in function.slots:
        yield f"  slot {slot.name} {slot.size} align {slot.align}"
    for block in function.blocks:
        parameters = f"({_declarations(block.parameters)})" if block.parameters else ""
        yield f"block {block.number}{parameters}:"
        for instruction in block.instructions:
            yield f"  {instruction_text(instruction)}"
        yield f"  {terminator_text(block.terminator)}"


def _declarations(values: tuple[ir.Value, ...]) -> str:
    return ", ".join(f"{value}: {value.type}" for value in values)


def instruction_text(instruction: ir.Instruction) -> str:
    """One instruction: result, op, operands, the attributes that its op uses, comment."""
    words = [str(instruction.op)]
    if instruction.operands:
        words.append(", ".join(map(str, instruction.operands)))
    for name in OPS[instruction.op].attributes:
        attribute = getattr(instruction, name)
        if name == "signed":
            words += ["signed"] if attribute else []
        elif name == "condition" or (name == "imm" and instruction.op is Op.CONST):
            words.append(str(attribute))
        elif name == "symbol":
            words += [attribute] if attribute else []
        elif name == "size" or attribute:
            words.append(f"{name} {attribute}")
    text = " ".join(words)
    if instruction.result is not None:
        text = f"{instruction.result}: {instruction.result.type} = {text}"
    return f"{text}  ; {instruction.comment}" if instruction.comment else text


def terminator_text(terminator: ir.Terminator) -> str:
    """The end of a block."""
    if isinstance(terminator, Jump):
        arguments = f"({', '.join(map(str, terminator.arguments))})" if terminator.arguments else ""
        return f"jump {terminator.target}{arguments}"
    if isinstance(terminator, Branch):
        test = f"{terminator.left} {terminator.condition} {terminator.right}"
        return f"branch {test} then {terminator.then} else {terminator.otherwise}"
    if isinstance(terminator, MayGoto):
        return f"may goto {terminator.then} else {terminator.otherwise}"
    return f"return {terminator.value}"
