"""Write the tables of the pages that the library itself knows: `python docs/tables.py`.

`methods.md` wholly, the comparison in `choosing.md`, the orders on index 2 in `theory.md`, and in the prose of pages the numbers
of experiments, which stand between marks: `<!-- id; claim; format -->number<!-- . -->`. The claim is a part of that of one row;
the format `s` takes what the row has as it is.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import dalembert as da
from dalembert import tables
from dalembert.engine.case import Case
from dalembert.experiments.base import Row
from dalembert.methods.base import Method
from dalembert.methods.runge_kutta import RungeKutta
from dalembert.systems.base import System

HERE = Path(__file__).parent
INTRODUCTION = """\
Written by `python docs/tables.py`. Facts of Runge-Kutta methods are computed from their coefficients; the tests measure them. The
order is that of positions, velocities and multipliers, and that on systems without constraints where it is another. Where a
number of stages belongs to a name, it is shown for the default one and any other can be written in its place (`gauss-5`).
Nonholonomic: such constraints are treated. Zero mass: a singular mass matrix is. Symplectic (free): on systems
without constraints, for any `M(q)` and `H(q, p)`. Which DAEs and port-Hamiltonian systems a method treats depends on their index
and on `E`: `da.diagnose(system)` lists the methods that fit."""
KINDS = {
    "mechanical": "mechanical",
    "hamiltonian": "Hamiltonian",
    "port-hamiltonian": "port-Hamiltonian",
    "dae": "DAE",
    "ode": "ODE",
}
GROUPS = {
    "Mechanics: energy, momenta, constraints": lambda m: (
        not m.external and not hasattr(m, "stages") and m.index and "dae" not in m.treats
    ),
    "Stages": lambda m: not m.external and hasattr(m, "stages"),
    "Differential-algebraic and port-Hamiltonian": lambda m: not m.external and m.index and "dae" in m.treats,
    "Explicit, free systems": lambda m: not m.external and not m.index,
    "Index-reduced equations, to compare with": lambda m: m.external,
}
PROBES = {
    "nonholonomic": da.catalog.contact_oscillator(),
    "zero mass": da.Mechanical(2, mass=[1.0, 0.0], potential=lambda q: q[0] ** 2 + q[1] ** 2, initial={"q": [1.0, 0.0]}),
}


def starts(method: Method, system: System) -> bool:
    """Whether a run of a method on a system passes all checks."""
    try:
        Case.of(system, method, {}, t0=0.0, u=None, parameters=None)
    except da.DalembertError:
        return False
    return True


def methods() -> str:
    """The page of all methods."""
    lines = ["# All methods", "", INTRODUCTION, ""]
    left = list(da.list_methods())
    heads = ["method", "order", "treats", "keeps", "also", "from"]
    for title, belongs in GROUPS.items():
        mine = [row for row in left if belongs(row.method())]
        left = [row for row in left if row not in mine]
        rows = []
        for row in mine:
            traits = ["symmetric"] * row.symmetric + ["symplectic"] * row.symplectic
            if isinstance(row.method(), RungeKutta) and row.method().scheme.symplectic and not row.symplectic:
                traits.append("symplectic (free)")
            kinds = ", ".join(KINDS[k] for k in row.treats if k in KINDS)  # implicit systems are DAEs
            order = ", ".join(dict.fromkeys(map(str, row.order))) if any(row.order) else "of its integrator"
            free = row.method().free_order
            order += f" ({free} free)" if any(row.order) and free != row.order[0] else ""
            also = [what for what, system in PROBES.items() if starts(row.method(), system)]
            shown = row.name if row.name != "composition" else 'da.compose("rattle", order=4)'
            rows.append([f"`{shown}`", order, kinds, row.keeps, ", ".join([*traits, *also]), row.source])
        if rows:
            lines += [f"## {title}", "", tables.write(heads, rows, "markdown", left=len(heads)), ""]
    assert not left, left
    return "\n".join(lines)


def comparison() -> str:
    """The table of choosing.md, without times, which are those of a machine."""
    names = ["rattle", "lobatto-pair-3", "murua-3", "energy-momentum"]
    table = da.compare(da.catalog.double_pendulum(), names, t_end=10.0, step=0.01).table("markdown")
    rows = [line.strip("| ").split("|")[:-1] for line in table.splitlines()]
    cells = [[c.strip() for c in row] for row in rows]
    return tables.write(cells[0], cells[2:], "markdown")


def orders() -> str:
    """The table of theory.md: measured orders on index 2, by the experiments."""
    rows = [r for id in ("nh-2.2", "nh-2.3/4") for r in da.experiments.run(id).rows]
    cells = [[f"`{r.what.split(':')[0]}`", r.wanted.split(" ")[0], f"{float(r.ours):.2f}", r.source] for r in rows]
    return tables.write(["method", "order", "measured", "Hilden 2009"], cells, "markdown")


def fill(page: str, mark: str, text: str) -> str:
    """A page with the part between two marks replaced."""
    begin, end = f"<!-- generated: {mark} -->", "<!-- end -->"
    return re.sub(rf"{begin}.*?{end}", lambda _: f"{begin}\n\n{text}\n\n{end}", page, count=1, flags=re.S)


MARK = re.compile(r"<!-- (?P<id>[\w./-]+); (?P<claim>[^;]+); (?P<form>[^ ]+) -->(?P<value>.*?)<!-- \. -->", re.S)
PROSE = ("errata.md", "nonholonomic.md", "theory.md")


@cache
def _rows(id: str) -> tuple[Row, ...]:
    return tuple(da.experiments.run(id).rows)


def numbers(page: str, seconds: float = float("inf")) -> str:
    """A page with the numbers of its experiments, of those that take less than some time."""

    def number(found: re.Match[str]) -> str:
        id, claim, form, value = (found[key] for key in ("id", "claim", "form", "value"))
        if da.experiments.REGISTER[id].seconds < seconds:
            (row,) = (row for row in _rows(id) if claim in row.what)
            value = row.ours if form == "s" else f"{float(row.ours):{form}}"
        return f"<!-- {id}; {claim}; {form} -->{value}<!-- . -->"

    return MARK.sub(number, page)


if __name__ == "__main__":
    for name in PROSE:
        page = HERE / name
        page.write_text(numbers(page.read_text(encoding="utf-8")), encoding="utf-8")
    (HERE / "methods.md").write_text(methods(), encoding="utf-8")
    for name, mark, text in (("choosing.md", "comparison", comparison()), ("theory.md", "orders", orders())):
        page = HERE / name
        page.write_text(fill(page.read_text(encoding="utf-8"), mark, text), encoding="utf-8")
