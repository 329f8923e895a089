"""The page, from measured data alone: every cell is a number or says what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dalembert import tables
from peers.long import PATIENCE

Data = dict[str, Any]
OURS = "dalembert"
HEAD = """\
# Beside other solvers

Written by `python benchmarks/peers`. The same problems to the same accuracy with dalembert and with its peers, all in one run on
one machine, in turns. Times are CPU times of one core, the best of {repeats} where nothing else is said, with the median's excess
over the best in brackets; before a short run is timed, the same one is made once. Machines are noisy: read the ratios.
"""
RULES = """\
**What is compared.** A problem asks for states at equal times. A level is met where the energy at all these times, and each
position and velocity up to the checked time, are within it (absolute; for the network, which has losses, the state alone).
Reference states come from extrapolation in long double, computed twice with different steps and, where there are two, in
different forms (`benchmarks/peers/reference.py`). For every solver a small grid of methods, forms of the equations and steps or
tolerances is tried, from coarse to fine; of those that meet the level, the fastest and up to two that came close are timed in
turns, and the best of them counts. Building and compiling are left out here; they are in the table of fresh processes. A setting
whose run would take more than about {cap:g} s is not tried. Peers
without constraints of their own get equations in minimal coordinates, derived by hand, or with the multipliers eliminated; what
it costs a user to derive them is in no table.
"""
FRESH = """\
A program as a user writes it (`benchmarks/peers/scripts`): the double pendulum for 2 s. CPU time from start to end, with empty
and with filled caches, import and compilation included; peak memory; lines that are neither empty nor comments.
"""
GROWTH = """\
A chain of n links for one second, its energy within 1e-6 of its scale, with the method that was best for five links. A solver
whose set-up and run take more than {patience:g} s, or that misses the accuracy, gets no longer chain.
"""
GRADIENTS = """\
Of a final position of the double pendulum by both masses and gravity, exact to 1e-7 of the largest, by one reverse
sweep. heyoka has forward variational equations instead, the other peers have no derivatives: they are left out.
"""
LANES = """\
Stages are solved in the lanes of a vector. The same search with a compiler that is kept from longer vectors, in turns with heyoka
as it is; in brackets the ratio to it.
"""


NOT = "Not measured in this run."


def milliseconds(seconds: float) -> str:
    """Three digits."""
    value = seconds * 1e3
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def timed(cell: Data) -> str:
    """A time with its spread."""
    return f"{milliseconds(cell['best'])} (+{cell['spread'] * 100:.0f} %)"


def setting(cell: Data) -> str:
    """A method with its step."""
    return f"`{cell['variant']}`, h = {cell['knob']:.3g}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """In Markdown."""
    return tables.write(heads, rows, "markdown", left=left)


def cell_text(row: Data, k: int, cap: float) -> str:
    """A time, or why there is none."""
    if row["cells"][k] is not None:
        return timed(row["cells"][k])
    if row["why"]:
        return "no run"
    best = min(row["trials"], key=lambda t: t["worst"])
    return f"not within {cap:g} s ({best['worst']:.0e})" if best["worst"] < 1e3 else f"not within {cap:g} s"


def others(problem: Data, k: int) -> list[tuple[float, str, Data]]:
    """Peers that meet a level, the fastest first."""
    found = [(row["cells"][k]["best"], name, row["cells"][k]) for name, row in problem["peers"].items() if row["cells"][k]]
    return sorted((f for f in found if f[1] != OURS), key=lambda f: f[0])


def times_as_long(ratio: float) -> str:
    """A ratio in two digits."""
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def why(own: Data, peer: Data, name: str, fixed: float) -> str:
    """What a loss is made of, from counts and times alone."""
    if fixed > 0.4 * own["best"]:
        return f"{fixed / own['best'] * 100:.0f} % of it is the fixed cost of a call, {milliseconds(fixed)}"
    if not peer["steps"] or not own["steps"]:
        return "the number of its steps is not known"
    each = (own["best"] - fixed) / own["steps"] * 1e6, peer["best"] / peer["steps"] * 1e6
    text = f"{own['steps']} steps of {each[0]:.3g} us where {name} makes {peer['steps']} of {each[1]:.3g} us"
    return text + (", the latter with a step and an order that follow the motion" if name == "heyoka" else "")


def verdict(problem: Data, k: int) -> str:
    """Who is faster at a level, and why where it is a peer: one sentence."""
    level = f"At {problem['levels'][k]:.2g}"
    own = problem["peers"].get(OURS, {"cells": [None] * len(problem["levels"])})["cells"][k]
    rest = others(problem, k)
    if own is None:
        return f"{level} dalembert has no result" + (f"; the fastest is {rest[0][1]}." if rest else ".")
    if not rest:
        return f"{level} dalembert alone meets the level, with {setting(own)}."
    seconds, name, cell = rest[0]
    if own["best"] <= seconds:
        ratio = times_as_long(seconds / own["best"])
        return f"{level} dalembert is the fastest, with {setting(own)}; {name} takes {ratio} times as long."
    reason, ratio = why(own, cell, name, problem["fixed"]), times_as_long(own["best"] / seconds)
    return f"{level} **dalembert loses**: {ratio} times the time of {name}, with {setting(own)}: {reason}."


def summary(data: Data) -> str:
    """Ratios at each level, problems in rows."""
    rows = []
    for problem in data["accuracy"].values():
        for k, level in enumerate(problem["levels"]):
            own = problem["peers"].get(OURS, {"cells": [None] * 9})["cells"][k]
            rest = others(problem, k)
            heyoka = next((seconds for seconds, name, _ in rest if name == "heyoka"), None)
            second = next(((seconds, name) for seconds, name, _ in rest if name != "heyoka"), None)
            rows.append([
                problem["title"] if k == 0 else "", f"{level:.2g}", timed(own) if own else "none", setting(own) if own else "",
                f"{own['best'] / heyoka:.2f}" if own and heyoka else "none",
                f"{own['best'] / second[0]:.3f} ({second[1]})" if own and second else "none",
            ])  # fmt: skip
    heads = ["problem", "level", "dalembert", "with", "time / heyoka's", "time / that of the best other peer"]
    return table(heads, rows, left=4)


def accuracy(data: Data) -> Iterator[str]:
    """A table for each problem, with its sentences."""
    cap = data["cap"]
    for problem in data["accuracy"].values():
        yield f"### {problem['title'][0].upper() + problem['title'][1:]}\n"
        checked = f"state up to t = {problem['check']:g}"
        yield f"{problem['t_end']:g} s, {problem['rows']} rows, {checked}. CPU time of a run to each level:\n"
        rows = []
        for name, row in problem["peers"].items():
            rows.append([name, *(cell_text(row, k, cap) for k in range(len(problem["levels"]))), row["why"]])
        yield table(["", *(f"{level:.2g}" for level in problem["levels"]), ""], rows) + "\n"
        yield "\n".join(f"- {verdict(problem, k)}" for k in range(len(problem["levels"]))) + "\n"


def per_step(data: Data) -> str:
    """Steps and the time of one, at the second level of two problems."""
    rows = []
    for key in ("double", "four"):
        problem = data["accuracy"].get(key)
        for name, row in problem["peers"].items() if problem else ():
            cell = row["cells"][1]
            if cell is None:
                rows.append([problem["title"], name, "level not met", "", ""])
            elif not cell["steps"]:
                rows.append([problem["title"], name, cell["variant"], "it does not tell", ""])
            else:
                rows.append(
                    [problem["title"], name, cell["variant"], str(cell["steps"]), f"{cell['best'] / cell['steps'] * 1e6:.3g}"]
                )
    return table(["problem", "", "with", "steps", "us / step"], rows, left=3)


def starts(data: Data) -> str:
    """Fresh processes."""
    if not data["start"]:
        return NOT
    rows = []
    for name, row in data["start"].items():
        if "why" in row:
            rows.append([name, row["why"], "", "", "", str(row["lines"]), ""])
            continue
        rows.append([
            name, f"{row['cold']:.2f}", f"{row['warm']:.2f}", f"+{row['spread'] * 100:.0f} %, best of {row['repeats']}",
            f"{row['memory']:.0f}", str(row["lines"]), f"{row['error']:.0e}",
        ])  # fmt: skip
    return table(["", "cold, s", "warm, s", "spread", "peak memory, MB", "lines of code", "energy error"], rows)


def growth(data: Data) -> str:
    """Run and set-up for each length."""
    if not data["growth"]:
        return NOT
    sizes = sorted({row["n"] for rows in data["growth"].values() for row in rows})
    rows = []
    for name, found in data["growth"].items():
        by = {row["n"]: row for row in found}
        cells = [f"{milliseconds(by[n]['seconds'])}, {by[n]['setup']:.2g} s" if n in by else "not run" for n in sizes]
        rows.append([name, *cells])
    return table(["run, set-up", *(f"n = {n}" for n in sizes)], rows)


def drift(data: Data) -> str:
    """Errors at the end of the problem's own time and of ten times it."""
    if not data["drift"]:
        return NOT
    rows = []
    for name, row in data["drift"].items():
        if "why" in row:
            rows.append([name, row["why"], "", "", ""])
            continue
        knob = f"{row['variant']}, {row['knob']:.2g}"
        rows.append([name, knob, f"{row['first']:.1e}", f"{row['last']:.1e}", f"{row['constraint']:.0e}"])
    return table(["", "with", "energy, 240 s", "energy, 2400 s", "constraints, 2400 s"], rows, left=2)


def gradients(data: Data) -> str:
    """One forward run and one gradient for each span."""
    if not data["gradients"]:
        return NOT
    rows = []
    for name, row in data["gradients"].items():
        for span in ("1", "2"):
            cell = row.get(span)
            if cell is None:
                rows.append([name, row["how"], span, "not exact enough or not installed", "", "", ""])
                continue
            rows.append([
                name.replace("CasADi idas", "CasADi"), row["how"], span, milliseconds(cell["forward"]),
                f"{milliseconds(cell['gradient'])} (+{cell['spread'] * 100:.0f} %)",
                f"{cell['gradient'] / cell['forward']:.1f}", f"{cell['error']:.0e}",
            ])  # fmt: skip
    return table(["", "how", "T, s", "forward run", "gradient", "gradient / forward", "error"], rows, left=2)


def lanes(data: Data) -> str:
    """Times with shorter vectors than those of the processor."""
    found = [(key, row) for key, rows in data["lanes"].items() for row in rows]
    names = [name for name in (found[0][1] if found else {}) if name not in ("level", "heyoka")]
    if not names:
        return "This processor has no longer vectors than the shortest." if data["lanes"] else NOT
    rows = []
    for key, row in found:
        own = [
            "not met"
            if row[name] is None
            else milliseconds(row[name]) + (f" ({row[name] / row['heyoka']:.2f})" if row["heyoka"] else "")
            for name in names
        ]
        theirs = milliseconds(row["heyoka"]) if row["heyoka"] else "not met"
        rows.append([data["accuracy"][key]["title"], f"{row['level']:.2g}", *own, theirs])
    return table(["problem", "level", *names, "heyoka"], rows)


def verdict_gradients(data: Data) -> str:
    """Who is faster, by the numbers."""
    out = []
    for span in ("1", "2"):
        found = {name: row[span]["gradient"] for name, row in data["gradients"].items() if span in row}
        if OURS in found and len(found) > 1:
            name = min((n for n in found if n != OURS), key=lambda n: found[n])
            ratio = found[OURS] / found[name]
            word = "is the fastest" if ratio <= 1 else "**loses**"
            text = f"Over {span} s dalembert {word}: it takes {times_as_long(ratio)} times the time of {name.split()[0]}"
            alone = data["gradients"][OURS][span]["forward"] / found[OURS]
            out.append(text + ("." if ratio <= 1 else f"; {alone * 100:.0f} % of it is what the run alone takes."))
    return " ".join(out)


def missing(data: Data) -> str:
    """Everything without a number, by name."""
    lines = [f"- {name}: {reason}. All its cells are missing." for name, reason in data["missing"].items()]
    for problem in data["accuracy"].values():
        for name, row in problem["peers"].items():
            if row["why"]:
                lines.append(f"- {name}, {problem['title']}: {row['why']}.")
    for name, rows in data["growth"].items():
        if not rows:
            lines.append(
                f"- {name}, growth: not run, since five links did not reach the second level, or no chain was exact enough."
            )
    return "\n".join(lines) or "Nothing."


def write(data: Data) -> str:
    """The whole page."""
    versions = [[name, row["version"], row["form"]] for name, row in data["peers"].items()]
    versions += [[name, "missing", reason] for name, reason in data["missing"].items()]
    machine = data["machine"]
    parts = [
        HEAD.format(repeats=data["repeats"]),
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}, {data['date']}."
        + (" A quick run: fewer settings and repetitions." if data["quick"] else "") + "\n",
        table(["solver", "version", "best form"], versions, left=3) + "\n",
        RULES.format(cap=data["cap"]),
        "## In short\n", summary(data) + "\n",
        "## Time to accuracy\n",
        "![Error against CPU time for the double pendulum and the four particles](images/benchmarks_accuracy.png)\n",
        *accuracy(data),
        "## Shorter vectors\n",
        LANES,
        lanes(data) + "\n",
        "## Per step\n", "At the second level; everything in a run divided by its steps.\n", per_step(data) + "\n",
        "## A fresh process\n",
        FRESH,
        starts(data) + "\n",
        "## Growth\n",
        GROWTH.format(patience=PATIENCE),
        growth(data) + "\n", "![Run and set-up against the number of links](images/benchmarks_growth.png)\n",
        "## Drift\n",
        "The double pendulum for 2400 s, each solver as at its second level over 240 s, or where that fails with the next finer\n"
        "setting.\n", drift(data) + "\n",
        "![Largest energy error so far against time](images/benchmarks_drift.png)\n",
        "## Gradients\n",
        GRADIENTS,
        gradients(data) + "\n", verdict_gradients(data) + "\n",
        "## Missing\n", missing(data) + "\n",
    ]  # fmt: skip
    return "\n".join(parts)
