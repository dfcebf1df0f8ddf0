"""Write a reference of the public API, a page a package, from docstrings, into FOLDER or docs/reference.

It reads the source and imports nothing, so it also sees what is there for type checkers only.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef
COMMENT = re.compile(r"#: ?(.*)")


class Found(NamedTuple):
    """A definition: the module that it is in, its node, and the text about it."""

    module: str
    node: ast.AST
    text: str


class Source(NamedTuple):
    """A module's text and tree, the definitions at its top by name, and where its other names are imported from."""

    lines: list[str]
    tree: ast.Module
    defined: dict[str, ast.stmt]
    imported: dict[str, tuple[str, str]]


def path_of(module: str) -> Path:
    """Return a module's file."""
    stem = ROOT.joinpath(*module.split("."))
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


def flat(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements, those inside `if` in place of it."""
    return [each for node in body for each in (flat(node.body) if isinstance(node, ast.If) else [node])]


def target(node: ast.stmt) -> str:
    """Return the name that a statement defines, or an empty text."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return node.name
    name = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return name.id if isinstance(name, ast.Name) else ""


@functools.cache
def source(module: str) -> Source:
    """Read a module."""
    text = path_of(module).read_text(encoding="utf-8")
    tree = ast.parse(text)
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in flat(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {each.asname or each.name: (node.module, each.name) for each in node.names}
        elif target(node):
            defined[target(node)] = node  # the last of overloads has the docstring
    return Source(text.splitlines(), tree, defined, imported)


def public(module: str) -> list[str]:
    """Return a module's `__all__`."""
    nodes = [node for node in source(module).tree.body if target(node) == "__all__"]
    return sorted(ast.literal_eval(nodes[0].value), key=str.lower)  # type: ignore[attr-defined]  # an assignment


def packages() -> list[str]:
    """Return what has a page: each package with an `__all__`, and the public modules."""
    folders = [f"pyebpf.{path.parent.name}" for path in ROOT.glob("pyebpf/*/__init__.py")]
    found = [name for name in folders if "__all__" in source(name).defined]
    names = ("endpoints", "errors", "filters", "in_flight", "packet", "python_stacks", "tasks", "unwinding")
    modules = [f"pyebpf.{name}" for name in names]
    return sorted(["pyebpf", *modules, *found])


def text_of(module: str, node: ast.stmt, after: ast.stmt | None = None) -> str:
    """Return a docstring; of an assignment, the `#:` comments above or beside it, or the text below."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return ast.get_docstring(node) or ""
    lines = source(module).lines
    comments: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not (match := COMMENT.fullmatch(line.strip())):
            break
        comments.insert(0, match[1])
    if not comments and (match := COMMENT.search(lines[node.lineno - 1])):
        comments = [match[1]]
    if not comments and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        comments = [str(after.value.value)]
    return "\n".join(comments)


def find(module: str, name: str) -> Found | None:
    """Find a name's definition, through whatever imports it."""
    if not path_of(module).exists():
        return None
    there = source(module)
    if node := there.defined.get(name):
        body = flat(there.tree.body)
        after = body[body.index(node) + 1] if node is not body[-1] else None
        return Found(module, node, text_of(module, node, after))
    if name not in there.imported:
        return None
    home, origin = there.imported[name]
    if path_of(f"{home}.{origin}").exists():
        tree = source(f"{home}.{origin}").tree
        return Found(f"{home}.{origin}", tree, ast.get_docstring(tree) or "")
    return find(home, origin)


def lazy_method(module: str, node: ast.stmt) -> Found | None:
    """Return the function behind `name = LazyMethod(lambda: package.name)`."""
    call = getattr(node, "value", None)
    if not (isinstance(call, ast.Call) and len(call.args) == 1 and isinstance(call.args[0], ast.Lambda)):
        return None
    package, _, name = ast.unparse(call.args[0].body).rpartition(".")
    home = source(module).imported.get(package)
    return find(".".join(home), name) if home and name == target(node) else None


def for_builder(node: ast.stmt) -> bool:
    """Whether a method is one that the compiler calls: its first parameter is the program builder, `p`."""
    return isinstance(node, FUNCTIONS) and [each.arg for each in node.args.args[1:2]] == ["p"]


def members(found: Found) -> dict[str, Found]:
    """Return a class's public members that have a text, inherited ones too; a lazy method is its factory."""
    result: dict[str, Found] = {}
    if not isinstance(found.node, ast.ClassDef):
        return result
    for base in found.node.bases:
        name = ast.unparse(base).partition("[")[0]
        if parent := find(found.module, name):
            result |= members(parent)
    body = flat(found.node.body)
    for node, after in zip(body, [*body[1:], None], strict=True):
        name = target(node)
        text = text_of(found.module, node, after) if name else ""
        if made := lazy_method(found.module, node):
            result[name] = made
        elif text and not name.startswith("_") and name != "REMEDIES" and not for_builder(node):
            result[name] = Found(found.module, node, text)
    return result


def heading(name: str, node: ast.AST) -> str:
    """Return how a thing is written: a signature, a class with its bases, or a name with its type."""
    if isinstance(node, FUNCTIONS):
        decorators = {ast.unparse(each) for each in node.decorator_list}
        gives = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        if decorators & {"property", "functools.cached_property", "cached_property"}:
            return f"{name}{gives.replace(' ->', ':')}"
        return f"{name}({re.sub(r'^(self|cls)(, /)?(, )?', '', ast.unparse(node.args))}){gives}"
    if isinstance(node, ast.AnnAssign):
        return f"{name}: {ast.unparse(node.annotation)}"
    return name


def constructor(found: Found) -> str:
    """Return what a class takes: the parameters of `__init__`, the fields of a dataclass, or nothing."""
    assert isinstance(found.node, ast.ClassDef)
    for node in found.node.body:
        if isinstance(node, FUNCTIONS) and node.name == "__init__":
            return heading(found.node.name, node).removesuffix(" -> None")
    if any("dataclass" in ast.unparse(each) for each in found.node.decorator_list):
        fields = [ast.unparse(node) for node in found.node.body if isinstance(node, ast.AnnAssign)]
        return f"{found.node.name}({', '.join(each.partition(' = ')[0] for each in fields)})"
    return found.node.name


def plain_members(found: Found) -> list[str]:
    """Return the public names that a class assigns without a text: fields, mostly."""
    body = flat(found.node.body) if isinstance(found.node, ast.ClassDef) else []
    names = [target(node) for node in body if isinstance(node, ast.Assign | ast.AnnAssign)]
    known = members(found)
    return [name for name in names if name and not name.startswith("_") and name not in known and name != "REMEDIES"]


def page(package: str) -> str:
    """Write a package's page."""
    lines = [f"# {package}", "", ast.get_docstring(source(package).tree) or "", ""]
    constants = []
    for name in public(package):
        found = find(package, name)
        if found is None or not found.text:
            constants.append(name)
            continue
        is_class = isinstance(found.node, ast.ClassDef)
        lines += [f"## {name}", ""]
        lines += ["```", constructor(found) if is_class else heading(name, found.node), "```", ""]
        lines += [found.text, ""]
        if plain := plain_members(found):
            lines += ["Attributes: " + ", ".join(f"`{each}`" for each in plain) + ".", ""]
        for member, inside in sorted(members(found).items()):
            lines += [f"### {name}.{member}", "", "```", heading(member, inside.node), "```", ""]
            lines += [inside.text, ""]
    if constants:
        lines += ["## Constants", "", ", ".join(f"`{each}`" for each in constants), ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Return every page by its file's name, with an index of them."""
    made = {f"{package}.md": page(package) for package in packages()}
    index = ["# Reference", "", "The public API, made from docstrings by `python tools/generate_reference.py`.", ""]
    for package in packages():
        first = (ast.get_docstring(source(package).tree) or "").partition("\n")[0]
        index.append(f"- [{package}]({package}.md): {first}")
    return {"index.md": "\n".join([*index, ""]), **made}


def main() -> int:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "reference")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
