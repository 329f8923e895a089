"""Large steps in C: many steps in one native call, with Newton's iteration and factors of symmetric matrices inside.

Asked back for is what is rare, or cannot be written: the looks at a solution, `L U` factors, functions that CasADi evaluates.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dalembert.engine.addresses import address
from dalembert.engine.chains import Refresh
from dalembert.engine.emission import RECORDS, template
from dalembert.engine.factored import EXACT, LOST, LOW, NOISE, PACE, STALLED, STUCK, SYMMETRIC, Factor
from dalembert.engine.fused import Bound, Fused
from dalembert.engine.machine import Call, Outcome, Records, Task
from dalembert.engine.native import Rules, limits
from dalembert.engine.newton import TINY
from dalembert.engine.plan import Plan, Written
from dalembert.engine.program import WEIGH_EVERY

if TYPE_CHECKING:
    from dalembert.engine.sparse import Iteration, Sparse

_LONG, _DOUBLE, _POINTER = ctypes.c_long, ctypes.c_double, ctypes.c_void_p
_Back = ctypes.CFUNCTYPE(ctypes.c_int, _LONG)


Fields = list[tuple[str, type]]


def _fields(kind: type, words: str) -> Fields:
    return [(word, kind) for word in words.split()]


class _Call(ctypes.Structure):
    _fields_ = _fields(_POINTER, "work a p n") + _fields(_LONG, "back")


class _List(ctypes.Structure):
    _fields_ = _fields(_POINTER, "calls") + _fields(_LONG, "count")


class _Factor(ctypes.Structure):
    _fields_ = (
        _fields(_LONG, "n possible low")
        + _fields(_POINTER, "data upper lower perm begin row lp li starts list entry kind kinds x l d inverse y z")
        + _fields(_LONG, "half mode attempt fresh new single cheap known")
    )


class _Solve(ctypes.Structure):
    _fields_ = (
        _fields(_List, "guess start cuts residual slopes")
        + _fields(_LONG, "n measured linear kin")
        + _fields(_POINTER, "seen x r scale size rounding step square times")
        + _fields(_LONG, "weigh accept round lend take solve")
        + _fields(_DOUBLE, "base floor rate goal left")
        + _fields(_Factor, "factor")
    )


class _Machine(ctypes.Structure):
    _fields_ = (
        _fields(_POINTER, "solves")
        + _fields(_LONG, "count")
        + _fields(_List, "finish")
        + _fields(_POINTER, "t u now after before work check")
        + _fields(_LONG, "n_state n_unknowns n_lam n_u working broken")
        + _fields(_POINTER, "back")
    )


class _Outcome(ctypes.Structure):
    _fields_ = [(n, _LONG) for n in ("steps", "iterations", "failed")] + [("size", _DOUBLE)]


class Stepping:
    """A machine for large steps in C."""

    def __init__(self, machine: Sparse) -> None:
        self._plans: dict[int, Plan] = {}
        for i in reversed(machine.iterations):
            if i.factor.symmetric:
                self._plans[id(i.factor)] = Plan(i.factor) if i.kin is None else self._plans[id(i.kin.factor)]
        self._written = Written(list(self._plans.values()))
        fused = Fused(machine.pieces, _source(self._written))
        self.calls, self._library, self._kept = fused.calls, fused.library, list[object]()
        self._backs: list[Call] = []
        self._error: BaseException | None = None
        count = len(machine.iterations)
        chains, guesses, end = self.calls[:count], self.calls[count : 2 * count], self.calls[2 * count]
        self._cuts = {id(i.chain): calls[2] for i, calls in zip(machine.iterations, chains, strict=True)}
        solves = (_Solve * max(1, count))(*(self._solve(*row) for row in zip(machine.iterations, chains, guesses, strict=True)))
        p, back = machine.program, _Back(self._back)
        self._machine = _Machine(
            ctypes.addressof(solves), count, self._list(end[1]),
            *map(self._at, (machine.t, machine.u, machine.now, machine.after, machine.before, machine.work, machine.check)),
            p.n_state, p.n_unknowns, p.n_lam, p.n_u, int(p.working), 0, ctypes.cast(back, _POINTER),
        )  # fmt: skip
        self._solves = solves
        self._kept.append(back)
        self._run = self._library.da_steps
        self._run.restype = None
        self._run.argtypes = [
            _POINTER, _LONG, _LONG, _DOUBLE, _DOUBLE, _POINTER, _LONG, _LONG, *[_POINTER] * 4, ctypes.POINTER(Rules), _LONG,
            ctypes.POINTER(_Outcome),
        ]  # fmt: skip

    def run(self, out: Records, task: Task) -> Outcome:
        """The steps of a task from where the machine stands."""
        inputs, found = np.ascontiguousarray(task.inputs), _Outcome(0, 0, -1, 0.0)
        state, lam, work, unknowns = (None if a is None else address(a) for a in (out.state, out.lam, out.work, out.unknowns))
        self._error = None
        self._run(
            ctypes.addressof(self._machine), task.steps, task.first, task.t0, task.h, address(inputs), int(len(inputs) > 1),
            task.save_every, state, lam, work, unknowns, limits(task.rule), int(task.look), found,
        )  # fmt: skip
        if self._error is not None:
            raise self._error
        return Outcome(found.steps, found.iterations, found.failed, math.sqrt(found.size))

    def _back(self, what: int) -> int:
        """Do what C asks for; an exception goes through it."""
        try:
            self._backs[what]()
        except BaseException as error:  # Ctrl-C too: nothing may be lost on the way through C
            self._error = error
            return 1
        return 0

    def _asked(self, call: Callable[[], object]) -> int:
        """The number by which C asks for a call."""
        self._backs.append(call)
        return len(self._backs) - 1

    def _at(self, array: NDArray[np.generic]) -> int:
        """Where an array lies, which is kept."""
        self._kept.append(array)
        return int(array.ctypes.data)

    def _numbers(self, values: NDArray[np.signedinteger]) -> int:
        return self._at(np.ascontiguousarray(values, dtype=np.int32))

    def _flat(self, calls: Sequence[Call]) -> Iterator[Call]:
        for call in calls:
            if isinstance(call, Refresh):
                yield from self._flat(self._cuts[id(call.chain)])
            else:
                yield call

    def _list(self, calls: Sequence[Call]) -> _List:
        every = list(self._flat(calls))
        rows = [
            _Call(c.address, *c.arguments, 0) if isinstance(c, Bound) else _Call(None, None, None, None, self._asked(c))
            for c in every
        ]
        table = (_Call * max(1, len(rows)))(*rows)
        self._kept += [table, every]
        return _List(ctypes.addressof(table), len(rows))

    def _solve(self, own: Iteration, lists: list[list[Call]], guess: list[list[Call]]) -> _Solve:
        at, chain, factor, sizes = own.at, own.chain, own.factor, own.sizes
        n, step = len(at.x), np.zeros(len(at.x))
        kin = -1 if own.kin is None else own.machine.iterations.index(own.kin)
        measured = -1 if sizes.residual else n if sizes.seen is None else len(sizes.seen)

        def solve() -> None:
            assert factor.solve is not None
            step[:] = factor.solve(chain.residual)

        return _Solve(
            *map(self._list, (guess[1], *lists[1:])), n, measured, int(chain.linear), kin,
            None if sizes.seen is None else self._numbers(sizes.seen),
            *map(self._at, (at.x, chain.residual, at.scale, at.size, factor.rounding, step, np.zeros(n), own.times)),
            *map(self._asked, (own.weigh, own.accept, own.round, own.lend, factor.whole, solve)),
            own.base, own.base, 0.0, 0.0, 0.0, self._factor(factor),
        )  # fmt: skip

    def _factor(self, f: Factor) -> _Factor:
        """A factor with its order of elimination, and the pattern of `L` in it."""
        data = f.matrix.data
        if not f.symmetric:
            return _Factor(f.n, 0, 0, self._at(data))
        plan = self._plans[id(f)]
        room = [np.zeros(k) for k in (len(f.upper), plan.lp[-1], f.n, f.n, f.n, f.n + 1)]
        lists: list[NDArray[np.signedinteger]] = [
            f.upper[plan.order], f.lower[plan.order], plan.perm, plan.begin, plan.row, plan.lp, plan.li, plan.starts, plan.list,
            plan.entry, *self._written.kinds(plan),
        ]  # fmt: skip
        return _Factor(
            f.n, 1, int(plan.low), self._at(data), *map(self._numbers, lists), *map(self._at, room),
            len(f.upper),
        )  # fmt: skip


def _source(written: Written) -> str:
    limits = {
        "exact": EXACT, "low": LOW, "stalled": STALLED, "lost": LOST, "pace": PACE, "symmetric": SYMMETRIC, "tiny": TINY,
        "stuck": STUCK, "noise": NOISE,
    }  # fmt: skip
    numbers = {name: repr(value) for name, value in limits.items()}
    return RECORDS + template("sparse.c").substitute(numbers, weigh=WEIGH_EVERY, **written.cases())
