"""`fit`: parameters and initial values from measured data, by least squares on exact derivatives along the run."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from dalembert.analysis.fits import Fit
from dalembert.analysis.measurements import Measurements, Observe, measurements
from dalembert.analysis.observed import entries
from dalembert.analysis.shooting import Free, Multiple, Piece, Setting, Single, attempted, near_data
from dalembert.analysis.starts import Start
from dalembert.checking import listed, number, positive, reals, whole
from dalembert.engine.case import Case, check_call, make_grid, make_rule
from dalembert.errors import ConvergenceError, DalembertError, DalembertWarning, MethodError, suggest, suggesting
from dalembert.methods.base import Method
from dalembert.named import Array
from dalembert.solution import Solution
from dalembert.systems.base import System

Bounds = Mapping[str, tuple[ArrayLike | None, ArrayLike | None]]
UNDETERMINED = 1e-9  # singular values of the scaled Jacobian below this part of the largest
WEIGHTS = (1.0, 30.0, 1e3)  # of the gaps between pieces, one stage after the other


@suggesting
def fit(
    system: System,
    data: object,
    *,
    free: Iterable[str],
    method: str | Method,
    step: float,
    bounds: Bounds | None = None,
    observe: Observe | None = None,
    sigma: ArrayLike | Mapping[str, ArrayLike] | None = None,
    shooting: int = 1,
    q: ArrayLike | None = None, v: ArrayLike | None = None, p: ArrayLike | None = None,
    x: ArrayLike | None = None, y: ArrayLike | None = None, z: ArrayLike | None = None,
    t0: float = 0.0, u: object = None, parameters: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None, max_iterations: int = 25, compile: bool | str = "auto",
    evaluations: int = 200,
) -> Fit:  # fmt: skip
    """Parameters and initial values by least squares, `sum ((model - measured) / sigma)^2`, from a run of a method.

    Parameters
    ----------
    data
        Times `"t"` (or `"time"`) and measured values by name: a dictionary, an `xarray.Dataset`, a `DataFrame`. Names are those
        of coordinates, `"v_x1"` for a velocity, `"q"` for all coordinates; nan stands for what is missing.
    free
        What is fitted: names of parameters, of coordinates for their initial values (`"x1"`, `"v_x1"`), or `"q"`, `"v"`, `"x"`
        for all initial values that the constraints leave free. Guesses are the values that a run would have. Initial values that
        are not free stay; on constraints, some of them stay and the others follow as the parameters change.
    method, step
        Of the run. The step is made smaller so that measured times are ends of steps, where they are equally spaced; in
        between, polynomials of degree 7 are taken.
    bounds
        `{"m": (0.1, None)}`: lower and upper bounds by name.
    observe
        What names of the data stand for, where they are no variables: `{"angle": lambda q: np.arctan2(q[0], -q[1])}`.
    sigma
        Standard deviations of the noise: one number, or by name. Where they are not given, all values count alike, and the noise
        is estimated from the residuals.
    shooting
        Number of pieces of multiple shooting, for chaotic motion and bad guesses. The last stage is one run again.
    evaluations
        At most so many runs in each stage.

    Raises
    ------
    MethodError
        Where data do not determine what is to be fitted: it names what can be changed together without any effect.

    Examples
    --------
    >>> found = da.fit(pendulum, {"t": t, "x": x}, free=["l", "v"], method="rattle", step=0.01)
    >>> print(found)
    >>> found["l"], found.errors["l"], found.covariance
    """
    check_call(system, compile)
    seen = measurements(system, data, observe, sigma)
    t0, h = number("t0", t0), _fitting_step(seen.t, number("t0", t0), positive("step", step))
    if seen.t[0] < t0 - 1e-9 * h:
        raise MethodError(f"the data begin at t = {seen.t[0]:g}, before the run at t0 = {t0:g}; say t0=...")
    steps = max(1, int(np.ceil((seen.t[-1] - t0) / h - 1e-9)))
    make_grid(t0, t0 + steps * h, h, 1)
    rule, pieces = make_rule(tolerance, max_iterations), whole("shooting", shooting, most=max(1, steps // 2))
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    case = Case.of(system, method, given, t0=t0, u=u, parameters=parameters)
    setting = Setting(system, case.method, case.inputs, rule, compile, t0, h, steps)
    problem = _Problem(setting, seen, case, _names(system, free))
    return problem.fitted(bounds or {}, pieces, whole("evaluations", evaluations))


def _fitting_step(t: Array, t0: float, step: float) -> float:
    """The largest step up to the given one whose multiples the times are, where they are equally spaced."""
    later = t[t > t0 + 1e-12 * max(1.0, abs(t0))] - t0
    spacing = float(np.diff(np.concatenate([[0.0], later])).min()) if len(later) else step
    multiples = later / spacing
    if len(later) and np.abs(multiples - np.round(multiples)).max() < 1e-6:
        whole_spacing = float(later[-1] / np.round(multiples[-1]))
        return whole_spacing / float(np.ceil(whole_spacing / step - 1e-9))
    return step


def _names(system: System, free: Iterable[str]) -> list[str]:
    """The names of what is free, each known, none twice."""
    names: list[str] = listed("free", free, MethodError, "names of parameters and initial values")
    known = [*system.parameters, *system.state, *(name for part in system.state for name in entries(system, part))]
    for name in names:
        if name not in known:
            raise MethodError(f"there is nothing called {name!r} to fit{suggest(str(name), known)}")
    if not names or len(set(names)) < len(names):
        raise MethodError("free must name what is to be fitted, each once")
    return names


class _Problem:
    """What is free, where it begins, and how it is found."""

    def __init__(self, setting: Setting, data: Measurements, case: Case, free: list[str]) -> None:
        self.setting, self.data, self.case = setting, data, case
        system = setting.system
        own = [name for name in free if name in system.parameters]
        whole_parts = [name for name in free if name not in own and name in system.state]
        single = [name for name in free if name not in own and name not in whole_parts]
        wanted = [*single, *(name for part in whole_parts for name in entries(system, part))]
        first = case.inputs(np.array([case.t0]))[0]
        self.start = Start(system, case.values, case.par, case.t0, first, required=single)
        picked = [self.start.names[i] for i in self.start.picked]
        initial = [i for i, name in enumerate(picked) if name in wanted]
        self.free = Free(case.par, self._entries(own), initial)
        self.names = [*self._labels(own), *(f"{picked[i]}(0)" if picked[i] in system.parameters else picked[i] for i in initial)]
        self.guess = np.concatenate([case.par[self.free.entries], self.start.free[initial]])
        self.count = 0

    def _entries(self, own: list[str]) -> list[int]:
        """The places of parameters in their vector."""
        where, place = {}, 0
        for name, value in self.setting.system.parameters.items():
            where[name] = range(place, place + value.size)
            place += value.size
        return [i for name in own for i in where[name]]

    def _labels(self, own: list[str]) -> list[str]:
        sizes = {name: self.setting.system.parameters[name].size for name in own}
        return [name if n == 1 else f"{name}[{i + 1}]" for name, n in sizes.items() for i in range(n)]

    def _piece(self, begin: int, end: int, start: Start) -> Piece:
        return Piece(self.setting, self.data, begin, end, start)

    def fitted(self, bounds: Bounds, pieces: int, evaluations: int) -> Fit:
        """The best values, and what is known of them."""
        if int(self.data.there.sum()) < len(self.guess):
            raise MethodError(f"{int(self.data.there.sum())} measured values cannot determine {len(self.guess)} free ones")
        limits = self._limits(bounds)
        single = Single(self._piece(0, self.setting.steps, self.start), self.free)
        theta = self.guess
        if pieces > 1:
            theta = self._several(pieces, limits, evaluations)
        found = attempted(single, theta)
        if found is None:
            raise self._fault(single, theta)
        self._determined(found[1], theta, error=pieces == 1)
        theta, message = self._solve(single, theta, limits, evaluations)
        outcome = single.outcome(theta)
        r, J = single.residuals(theta)
        self._determined(J, theta, error=False)
        scale = np.maximum(np.abs(J).max(axis=0), 1e-300)
        covariance = np.linalg.pinv((J / scale).T @ (J / scale)) / np.outer(scale, scale)
        free = len(r) - len(theta)
        if not self.data.known:
            covariance = covariance * (float(r @ r) / free if free else np.nan)
        residual = np.where(self.data.there, outcome.values - self.data.values, np.nan)
        return Fit(
            self.setting.system, tuple(self.names), theta, self.guess, covariance, self.data, outcome.solution, residual,
            outcome.solution.parameters, self.count, message,
        )  # fmt: skip

    def _limits(self, bounds: Bounds) -> tuple[Array, Array]:
        low, high = np.full(len(self.guess), -np.inf), np.full(len(self.guess), np.inf)
        for name, pair in bounds.items():
            places = [i for i, own in enumerate(self.names) if own == name or own.startswith(f"{name}[")]
            if not places:
                raise MethodError(f"bounds are given for {name!r}, which is not free{suggest(str(name), self.names)}")
            try:
                lower, upper = pair
            except (TypeError, ValueError) as error:
                raise MethodError(f"bounds of {name!r} must be a pair (lower, upper), None for none") from error
            if lower is not None:
                low[places] = reals(f"the lower bound of {name!r}", lower, MethodError)
            if upper is not None:
                high[places] = reals(f"the upper bound of {name!r}", upper, MethodError)
        bad = np.flatnonzero(~((low < high) & (self.guess >= low) & (self.guess <= high)))
        if len(bad):
            i = int(bad[0])
            raise MethodError(
                f"the guess of {self.names[i]!r}, {self.guess[i]:g}, is not within its bounds {low[i]:g} .. {high[i]:g}"
            )
        return low, high

    def _several(self, pieces: int, limits: tuple[Array, Array], evaluations: int) -> Array:
        """The solution of multiple shooting, with gaps that close in stages."""
        cuts = np.unique(np.round(np.linspace(0, self.setting.steps, pieces + 1)).astype(int))
        rough = self._rough()
        parts = [self._piece(0, int(cuts[1]), self.start)]
        size = np.zeros(len(self.start.names))
        for begin, end in pairwise(cuts[1:]):
            t = self.setting.t0 + int(begin) * self.setting.h
            state = near_data(self.setting, self.data, self.start.names, rough, self.case.par, t)
            size = np.maximum(size, np.abs(state))
            first = self.case.inputs(np.array([t]))[0]
            start = Start(self.setting.system, self.start.parts(state), self.case.par, t, first)
            parts.append(self._piece(int(begin), int(end), start))
        typical = float(np.sqrt(np.nanmean((self.data.values / self.data.sigma) ** 2)))
        problem = Multiple(parts, self.free, 0.0, np.maximum(size, 1e-3 * max(size.max(initial=0.0), 1e-300)))
        theta = problem.theta(self.guess)
        more = np.full(len(theta) - len(self.guess), np.inf)
        wide = np.concatenate([limits[0], -more]), np.concatenate([limits[1], more])
        for weight in WEIGHTS:
            problem.weight = weight * typical
            theta, _ = self._solve(problem, theta, wide, evaluations)
        return theta[: len(self.guess)]

    def _rough(self) -> Solution | None:
        """The run with the first guess, as far as it goes."""
        try:
            run, _ = self._piece(0, self.setting.steps, self.start).run(self.start.free, self.case.par)
        except DalembertError as error:
            return error.solution
        return run.solution

    def _solve(self, problem: Single | Multiple, theta: Array, limits: tuple[Array, Array], most: int) -> tuple[Array, str]:
        """SciPy's trust-region least squares; a trial that cannot be run counts as a bad one."""
        from scipy.optimize import least_squares

        kept: dict[bytes, tuple[Array, Array] | None] = {}

        def at(trial: Array) -> tuple[Array, Array] | None:
            key = trial.tobytes()
            if key not in kept:
                self.count += 1
                while len(kept) > 4:
                    kept.pop(next(iter(kept)))
                kept[key] = attempted(problem, trial)
            return kept[key]

        begin = at(theta)
        if begin is None:
            raise self._fault(problem, theta)
        bad = np.full(len(begin[0]), 1e3 * (1.0 + float(np.abs(begin[0]).max())))

        def residual(trial: Array) -> Array:
            found = at(trial)
            return bad if found is None else found[0]

        def jacobian(trial: Array) -> Array:
            found = at(trial)
            assert found is not None  # it is asked for where a trial was accepted
            return found[1]

        out = least_squares(
            residual, theta, jacobian, bounds=limits, x_scale="jac", ftol=1e-14, xtol=1e-12, gtol=1e-12, max_nfev=most
        )
        if out.status == 0:
            warnings.warn(
                f"the fit has not converged in {most} evaluations; give a better guess, bounds, or evaluations=...",
                DalembertWarning, stacklevel=5,
            )  # fmt: skip
        return np.asarray(out.x), str(out.message).rstrip(".").replace("`", "")

    def _fault(self, problem: Single | Multiple, theta: Array) -> DalembertError:
        """Why a guess cannot be run."""
        try:
            problem.residuals(theta)
        except DalembertError as error:
            return error
        h = self.setting.h
        return ConvergenceError("the run is not finite with the first guess", t=self.case.t0, step=h, residual=np.nan)

    def _determined(self, J: Array, theta: Array, error: bool) -> None:
        """Refuse what data do not determine, and name the combination."""
        scale = np.maximum(np.abs(theta), 1e-3 * np.abs(theta).max(initial=1e-300))
        _, S, Vt = np.linalg.svd(J * scale, full_matrices=False)
        null = Vt[UNDETERMINED * max(S[0], 1e-300) >= S]
        if not len(null):
            return
        combination = null[-1] * scale
        involved = np.flatnonzero(np.abs(null[-1]) > 1e-3 * np.abs(null[-1]).max())
        names = [self.names[i] for i in involved]
        if len(names) == 1:
            said = f"{names[0]} has no effect on the measured values; leave it out of free"
        else:
            parts = combination[involved] / combination[involved][np.abs(combination[involved]).argmax()]
            ratio = " : ".join(f"{x:.4g}" for x in parts)
            said = (
                f"{' and '.join(names)} can be changed together, in the ratio {ratio}, with no effect on the measured values; "
                f"leave {names[0]} out of free"
            )
        if error:
            raise MethodError(f"the data do not determine what is free: {said}")
        warnings.warn(f"the data hardly determine what is free: {said}", DalembertWarning, stacklevel=4)
