"""Changes of the source, one at a time: operators, comparisons, conditions, numbers, signs, and statements left out."""

from __future__ import annotations

import ast
import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("src") / "dalembert"


@dataclass
class Mutant:
    """One change: `before` becomes `after` at a place of a file."""

    file: str
    line: int
    column: int
    before: str
    after: str
    note: str = ""
    tests: list[str] = field(default_factory=list)
    result: str = ""  # killed, slow (killed as well), survived, gone (no place for it), broken (the run, not the mutant)
    by: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.before} -> {self.after}"

    def apply(self, text: str) -> str | None:
        """The text with the change; None where it has no place there."""
        if self.line == 0:  # by its text, which must be there just once
            return text.replace(self.before, self.after) if text.count(self.before) == 1 else None
        lines = text.splitlines(keepends=True)
        start = sum(len(line) for line in lines[: self.line - 1]) + self.column
        return text[:start] + self.after + text[start + len(self.before) :] if text[start:].startswith(self.before) else None


ARITHMETIC = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.MatMult: "*",
    ast.Pow: "*",
    ast.FloorDiv: "/",
    ast.Mod: "*",
}
COMPARISONS = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">"), ast.Gt: (">=", "<"), ast.GtE: (">", "<"), ast.Eq: ("!=",), ast.NotEq: ("==",),
    ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip


class _Finder(ast.NodeVisitor):
    """All changes of a file: operators, comparisons, conditions, numbers, signs, and statements left out."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, self.lines, self.found = file, text, text.splitlines(keepends=True), list[Mutant]()

    def add(self, node: ast.expr | ast.stmt, after: str, note: str) -> None:
        lines = self.lines[node.lineno - 1 : node.end_lineno]
        if not all(
            line.isascii() for line in lines
        ):  # columns count bytes: leave out the few lines where these are not characters
            return
        lines[-1] = lines[-1][: node.end_col_offset]
        before = "".join([lines[0][node.col_offset :], *lines[1:]])
        if before != after:
            self.found.append(Mutant(self.file, node.lineno, node.col_offset, before, after, note))

    def part(self, node: ast.expr) -> str:
        return f"({ast.unparse(node)})"

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = isinstance(node.left, ast.Constant | ast.JoinedStr) and isinstance(getattr(node.left, "value", ""), str)
        if not words and type(node.op) in ARITHMETIC:
            self.add(node, f"({self.part(node.left)} {ARITHMETIC[type(node.op)]} {self.part(node.right)})", "operator")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            for other in COMPARISONS[type(node.ops[0])]:
                self.add(node, f"({self.part(node.left)} {other} {self.part(node.comparators[0])})", "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        joint = " or " if isinstance(node.op, ast.And) else " and "
        self.add(node, "(" + joint.join(self.part(v) for v in node.values) + ")", "and, or")
        for k in range(len(node.values)):
            rest = node.values[:k] + node.values[k + 1 :]
            own = " and " if isinstance(node.op, ast.And) else " or "
            self.add(node, "(" + own.join(self.part(v) for v in rest) + ")", "a condition left out")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub | ast.Not):
            self.add(node, self.part(node.operand), "sign")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add(node, str(not value), "truth")
        elif isinstance(value, int):
            self.add(node, str(value + 1), "number")
        elif isinstance(value, float):
            self.add(node, repr(value * 1.25 if value else 1.0), "number")

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.add(node, self.part(node.body), "always")
        self.add(node, self.part(node.orelse), "never")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self.add(node.test, f"(not {self.part(node.test)})", "condition")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name) or not isinstance(node.op, ast.BitOr):
            self.add(node, "pass", "left out")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.add(node, "pass", "left out")
            self.generic_visit(node)

    # texts, types and messages are not changed
    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...
    def visit_Raise(self, node: ast.Raise) -> None: ...
    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in ("__repr__", "__str__", "__hash__", "__reduce__"):
            return
        for child in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None), *node.body):
            self.visit(child)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for child in node.body:
            self.visit(child)


def mutants_of(file: str) -> list[Mutant]:
    """All mutants of a file, each once."""
    text = (ROOT / file).read_text(encoding="utf-8")
    finder = _Finder(file, text)
    finder.visit(ast.parse(text))
    return list({m.key: m for m in finder.found}.values())


def compiles(m: Mutant) -> bool:
    """Whether a file is still Python after the change, and another one."""
    text = (ROOT / m.file).read_text(encoding="utf-8")
    changed = m.apply(text)
    try:
        return changed is not None and compile(changed, m.file, "exec") != compile(text, m.file, "exec")
    except (SyntaxError, ValueError):
        return False


def draw(packages: tuple[str, ...], count: int, seed: int) -> list[Mutant]:
    """A random sample, in proportion to the size of the files, at most one mutant a line."""
    rng, found, lines = random.Random(seed), [], set()
    for package in packages:
        for path in sorted((ROOT / SOURCE / package).rglob("*.py")):
            found += mutants_of(str(path.relative_to(ROOT)))
    rng.shuffle(found)
    out: list[Mutant] = []
    for m in found:
        if len(out) == count:
            break
        if (m.file, m.line) not in lines and compiles(m):
            lines.add((m.file, m.line))
            out.append(m)
    return out


def given() -> list[Mutant]:
    """Those of tools/mutants.toml."""
    data = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text(encoding="utf-8"))["mutant"]
    return [
        Mutant(str(SOURCE / m["file"]) if not m["file"].startswith("benchmarks") else m["file"], 0, 0,
               m["before"], m["after"], m.get("note", ""), m.get("tests", []))
        for m in data
    ]  # fmt: skip


def enclosing(m: Mutant) -> Iterator[int]:
    """First lines of the functions and lambdas around a mutant, the innermost first; then that of the module."""
    text = (ROOT / m.file).read_text(encoding="utf-8")
    inside = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ListComp | ast.DictComp | ast.SetComp | ast.GeneratorExp):
            begin, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
            if begin <= (m.line, m.column) < end:
                first = min([d.lineno for d in getattr(node, "decorator_list", [])], default=node.lineno)
                inside.append((begin, first))
    yield from (first for _, first in sorted(inside, reverse=True))
