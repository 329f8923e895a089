"""Labels of axes: names as mathematics, units, and special characters escaped."""

from __future__ import annotations

import re

from dalembert.solution import Solution
from dalembert.systems.picture import particles

GREEK = re.compile(
    "alpha|beta|gamma|delta|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|chi|psi|omega|"
    "Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
SPOKEN = {"phi": r"\varphi", "epsilon": r"\varepsilon", "lam": r"\lambda", "eps": r"\varepsilon"}
MOST = 48  # characters of a name in a figure


def symbol(name: str) -> str:
    """A name as mathematics: `x1` is $x_1$, `theta` a Greek letter, `v_x1` is $v_{x_1}$; words and formulas stay as they are."""
    if re.fullmatch(r"\$[^$]+\$", name) or re.search(r"\\[A-Za-z]", name):  # written as a formula
        formula = f"${name.strip('$')}$"
        return formula if _typesets(formula) else text(name)
    found = re.fullmatch(r"([A-Za-z]+?)_?\{?(\d*)\}?(?:_([A-Za-z]\w*))?", name)
    if not found:
        return text(name)
    head, number, tail = found.groups()
    if head in SPOKEN or GREEK.fullmatch(head):
        head = SPOKEN.get(head, "\\" + head)
    elif len(head) > 2 or (len(head) == 2 and not tail and not number):
        return text(f"{head} {number}".strip() if not tail else f"{head} {tail}")
    below = ",".join(x for x in (number, symbol(tail).strip("$") if tail else "") if x)
    if tail and not re.fullmatch(r"[A-Za-z]\w?\d*", tail):
        below = rf"\mathrm{{{tail[:MOST]}}}".replace("_", r"\_")
    return f"${head}_{{{below}}}$" if below else f"${head}$"


def _typesets(formula: str) -> bool:
    """Whether matplotlib can typeset a formula."""
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(formula)
    except ValueError:
        return False
    return True


def text(words: str, most: int = MOST) -> str:
    """A name as text: shortened to `most` characters, with the special characters of mathematics and LaTeX escaped."""
    import matplotlib as mpl

    words = words if len(words) <= most else words[: most - 3] + "..."
    if not mpl.rcParams["text.usetex"]:
        return words.replace("$", r"\$")
    for character in r"\&%$#_{}~^":
        words = words.replace(character, r"\textbackslash " if character == "\\" else "\\" + character)
    return words


def labelled(sol: Solution, text: str, unit: str) -> str:
    """An axis label with its unit, if the system states one."""
    picture = sol.system.picture
    known = picture.units.get(unit) if picture is not None else None
    return f"{text} ({known})" if known else text


def coordinate(sol: Solution, i: int, unit: bool = True) -> str:
    """A coordinate with its unit: its own, or that of lengths if it belongs to a point."""
    name, picture = sol.system.coordinates[i], sol.system.picture
    if not unit:
        return symbol(name)
    known = picture is not None and name in picture.units
    of_point = any(i in group for group in particles(sol.system)) if not known else False
    return labelled(sol, symbol(name), "length" if of_point else name)


def time_label(sol: Solution) -> str:
    return labelled(sol, "time $t$", "time")


def titled(sol: Solution) -> str:
    """System, method and step size."""
    steps = f"step {sol.step:g}" if "rejected" not in sol.stats else "adaptive steps"
    return text(f"{sol.system.name}, {sol.method}, {steps}", 100)
