"""Statements in C for the values of a graph: in place, or in functions of a size that a compiler takes at its ease.

The time of an optimising compiler grows faster than the length of a function. So where there is much to write, it goes into
parts of at most `PART` statements, which hand values to each other through an array `w`.
"""

from __future__ import annotations

from dalembert.engine.graph import Graph

PART = 400  # statements of a function, at most
PLAIN = ("{} + {}", "{} - {}", "{} * {}", "{} / {}", "-{}")  # operations that act on vectors as they do on numbers
SPECIAL = {  # and those that are written in another way, with the functions of wide.c
    "1.0 / {}": "da_wide(1.0) / {}", "fabs({})": "da_abs({})", "({} ? {} : 0.0)": "da_pick(da_true({}), {}, da_wide(0.0))",
    "(double)(!{})": "da_one(~da_true({}))",
    **{f"(double)({{}} {sign} {{}})": f"da_one((I)({{}} {sign} {{}}))" for sign in ("<", "<=", "==", "!=")},
    **{f"(double)({{}} {sign} {{}})": f"da_one(da_true({{}}) {sign[0]} da_true({{}}))" for sign in ("&&", "||")},
}  # fmt: skip


def lane_by_lane(name: str, pattern: str, count: int) -> str:
    """A function that does an operation on each lane of vectors `W`, for those without a form for vectors."""
    body = pattern.format(*(f"a{i}[e]" for i in range(count)))
    arguments = ", ".join(f"W a{i}" for i in range(count))
    return (
        f"static inline W {name}({arguments})\n{{\n    W r_;\n    DA_UNROLL\n"
        f"    for (int e = 0; e < DA_W; e++) r_[e] = {body};\n    return r_;\n}}\n"
    )


class Vectors:
    """Operations on vectors; those without a form for vectors are done lane by lane, in functions of their own."""

    def __init__(self) -> None:
        self._functions: dict[str, str] = {}

    def operation(self, pattern: str, operands: list[str]) -> str:
        """The expression of an operation, from its pattern for numbers."""
        if pattern in PLAIN or pattern in SPECIAL:
            return SPECIAL.get(pattern, pattern).format(*operands)
        name = f"lanes{len(self._functions)}"
        if pattern not in self._functions:
            self._functions[pattern] = lane_by_lane(name, pattern, len(operands))
        name = self._functions[pattern].split("(")[0].split()[-1]
        return f"{name}({', '.join(operands)})"

    def functions(self) -> str:
        """All that operations call."""
        return "\n".join(self._functions.values())


class Writer:
    """Writes values of a graph; a `split` one in parts, functions with the given parameters."""

    def __init__(self, graph: Graph, split: bool, parameters: str, arguments: str, prefix: str) -> None:
        self.graph, self.split = graph, split
        self._parameters, self._arguments, self._prefix = parameters, arguments, prefix
        self._parts: list[list[int] | list[str]] = []
        self._slots: dict[int | str, int] = {}

    def _slot(self, key: int | str) -> str:
        return f"w[{self._slots.setdefault(key, len(self._slots))}]"

    def variable(self, name: str) -> str:
        """What stands for a variable of the loop."""
        return self._slot(name) if self.split else name

    def declare(self, names: list[str]) -> str:
        return "" if self.split or not names else f"double {', '.join(names)};"

    def use(self, value: int) -> str:
        """What stands for a value in the loop."""
        if not self.graph.named(value):
            return self._slot(value) if self.split else f"t{value}"
        return self._named(value)

    def _named(self, value: int) -> str:
        text = self.graph.text(value)
        return self._slot(text) if self.split and text.isidentifier() and text not in ("t", "h", "NAN", "INFINITY") else text

    def block(self, values: list[int], indent: str) -> str:
        """Statements that compute values, or calls of parts that do."""
        if not self.split:
            own = set(values)
            return indent.join(self._statement(v, own) for v in values)
        return indent.join(self._call(values[start : start + PART]) for start in range(0, len(values), PART))

    def lines(self, statements: list[str], indent: str) -> str:
        """Statements that use no names but those of parts, in place or in parts."""
        if not self.split:
            return indent.join(statements)
        return indent.join(self._call(statements[start : start + PART]) for start in range(0, len(statements), PART))

    def _call(self, part: list[int] | list[str]) -> str:
        self._parts.append(part)
        return f"{self._prefix}{len(self._parts) - 1}({self._arguments});"

    def _statement(self, value: int, own: set[int]) -> str:
        texts = []
        for i in self.graph.needs[value]:
            if self.graph.named(i):
                texts.append(self._named(i))
            else:
                texts.append(self._slot(i) if self.split and i not in own else f"t{i}")
        return f"const double t{value} = {self.graph.pattern(value).format(*texts)};"

    def functions(self) -> str:
        """All parts."""
        bodies = [(part, self._body(part)) for part in self._parts]
        out = []
        for k, (part, lines) in enumerate(bodies):
            kept = [f"w[{self._slots[v]}] = t{v};" for v in part if isinstance(v, int) and v in self._slots]
            body = "\n    ".join([*lines, *kept])
            out.append(f"DA_APART void {self._prefix}{k}({self._parameters})\n{{\n    {body}\n}}\n")
        return "\n".join(out)

    def _body(self, part: list[int] | list[str]) -> list[str]:
        own = {v for v in part if isinstance(v, int)}
        return [self._statement(v, own) if isinstance(v, int) else v for v in part]

    @property
    def work(self) -> int:
        """Numbers that the array `w` has room for."""
        return len(self._slots)
