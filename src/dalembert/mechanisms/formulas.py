"""Functions as text: `0.3 * sin(omega * t)`. The text is data: it can only compute."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Collection, Mapping, Sequence

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.checking import shown, text
from dalembert.errors import ModelError, suggest
from dalembert.systems.instructions import walk
from dalembert.systems.operations import NAMES
from dalembert.systems.tracing import symbols, to_sx

LONGEST = 20_000  # characters of a formula
Function = Callable[..., object]

BINARY: dict[type[ast.operator], Function] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
FUNCTIONS: dict[str, Function] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "abs": np.abs, "sign": np.sign,
    "min": np.minimum, "max": np.maximum, "atan2": np.arctan2, "hypot": np.hypot,
}  # fmt: skip
CONSTANTS = {"pi": np.pi, "e": np.e}
SPELLED = {  # operations of CasADi
    "neg": "(-{})", "sq": "({} ** 2)", "twice": "(2 * {})", "inv": "(1 / {})", "fabs": "abs({})", "add": "({} + {})",
    "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})", "pow": "({} ** {})", "constpow": "({} ** {})",
    "fmin": "min({}, {})", "fmax": "max({}, {})", "atan2": "atan2({}, {})", "hypot": "hypot({}, {})",
    **{name: f"{name}({{}})" for name in FUNCTIONS if name not in ("abs", "min", "max", "atan2", "hypot")},
}  # fmt: skip


class Formula:
    """A function of the names in its text, called by position or by name; those in `known` may be `pi` and `e` as well."""

    def __init__(self, what: str, given: object, known: Collection[str] = ()) -> None:
        self.text, self.what = text(what, given, ModelError), what
        if len(self.text) > LONGEST:
            raise ModelError(f"{what}: the formula has {len(self.text)} characters, at most {LONGEST} are read")
        try:
            self._tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as why:
            raise ModelError(f"{what}: {shown(self.text)} is no formula: {why}") from why
        called = {id(node.func) for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        names = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and id(node) not in called}
        names -= (FUNCTIONS.keys() | CONSTANTS.keys()) - set(known)
        self.__signature__ = signature(sorted(names, key=lambda n: (n != "t", n)))
        self._value(self._tree, dict.fromkeys(names, 1.0), check=True)

    def __call__(self, *arguments: object, **named: object) -> object:
        return self._value(self._tree, self.__signature__.bind(*arguments, **named).arguments)

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    def _value(self, node: ast.expr, given: Mapping[str, object], check: bool = False) -> object:
        """The value of a part of the formula; where it is only checked, that of numbers is not looked at."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return float(node.value)
        if isinstance(node, ast.Name) and (node.id in given or node.id in CONSTANTS):
            return given.get(node.id, CONSTANTS.get(node.id))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            inner = self._value(node.operand, given, check)
            return -inner if isinstance(node.op, ast.USub) and not check else inner  # type: ignore[operator]
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            left, right = self._value(node.left, given, check), self._value(node.right, given, check)
            return 1.0 if check else BINARY[type(node.op)](left, right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            if node.func.id not in FUNCTIONS:
                raise ModelError(f"{self.what}: a formula has no function {node.func.id!r}{suggest(node.func.id, FUNCTIONS)}")
            wanted = 2 if node.func.id in ("min", "max", "atan2", "hypot") else 1
            if len(node.args) != wanted:
                raise ModelError(f"{self.what}: {node.func.id} takes {wanted} arguments, not {len(node.args)}")
            values = [self._value(argument, given, check) for argument in node.args]
            return 1.0 if check else FUNCTIONS[node.func.id](*values)
        raise ModelError(
            f"{self.what}: {shown(ast.unparse(node))} cannot stand in a formula; numbers, names, + - * / ** and functions can: "
            + ", ".join(FUNCTIONS)
        )


class Formulas:
    """Several formulas as one function, of a point: of its `parameters`, in their order, and of names that are known."""

    def __init__(
        self, what: str, given: Sequence[object], known: Collection[str], parameters: Sequence[str] | None = None
    ) -> None:
        self.parts = [Formula(what, one, [*known, *(parameters or ())]) for one in given]
        used = sorted({name for part in self.parts for name in part.__signature__.parameters})
        own = [name for name in used if name not in known] if parameters is None else list(parameters)
        if unknown := [name for name in used if name not in known and name not in own]:
            raise ModelError(f"{what}: {unknown[0]!r} is no parameter{suggest(unknown[0], [*own, *known])}")
        self.__signature__ = signature([*own, *(name for name in used if name not in own)])

    def __call__(self, **named: object) -> list[object]:
        return [part(**{name: named[name] for name in part.__signature__.parameters}) for part in self.parts]


def signature(names: Sequence[str]) -> inspect.Signature:
    """That of a function of these names."""
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])


def wanted(function: Function, known: Collection[str] = ()) -> list[str]:
    """The arguments that a function must be given, and those it can be given that are known: others have values of their own."""
    given = inspect.signature(function).parameters.items()
    return [name for name, one in given if one.default is one.empty or name in known]


def spelled(what: str, function: Function, known: Collection[str] = ()) -> list[str]:
    """A function of numbers as formulas, one for each entry of what it returns: their own texts, or those of what it does."""
    if isinstance(function, Formula | Formulas):
        return [part.text for part in ([function] if isinstance(function, Formula) else function.parts)]
    names = wanted(function, known)
    given = [SX.sym(name) for name in names]
    value = to_sx(function(**{name: symbols(x, ()) for name, x in zip(names, given, strict=True)}))
    f = ca.Function("f", given, [ca.densify(ca.vec(value))])

    def apply(op: int, values: list[str]) -> str:
        form = SPELLED.get(NAMES.get(op, ""))
        if form is None:
            raise ModelError(f"{what}: its function has an operation that a formula has not; write it by " + ", ".join(FUNCTIONS))
        out = form.format(*values)
        if len(out) > LONGEST:
            raise ModelError(f"{what}: its function is too long for a file, more than {LONGEST} characters")
        return out

    found = walk(f, lambda argument, _: names[argument], lambda x: repr(x) if x >= 0 else f"({x!r})", apply)
    return found[0]
