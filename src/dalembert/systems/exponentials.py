"""Linear equations `z' = J z + g(t)` with a constant matrix, at a cost that does not grow with the stiffness of `J`.

`g` is replaced by Chebyshev polynomials, piece by piece, to round-off. With `w = (T_0, ..., T_d)`, `w' = D w` and `g = C w` on
a piece, state and polynomials together obey

    [z; w]' = [[J, C], [0, D]] [z; w],

and one exponential of that matrix leads from the beginning of the piece to its end (Al-Mohy, Higham 2011). How long a piece is
depends on `g` alone. `J` is taken in complex Schur form, so that the whole matrix is triangular, for which scaling and squaring
keeps the exponentials on the diagonal exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
DEGREE = 12  # more makes pieces longer, and the matrix D further from normal: digits are lost
ROUND_OFF = 4e-15  # of the largest coefficient: what is smaller is left out
SHORTEST = 2.0**-20  # of an interval: a piece of this length is taken as it is, for functions that are not smooth


class Flow:
    """The solutions of `z' = J z + g(t)`; `g` is None where there is no source."""

    def __init__(self, J: Array, g: Callable[[float], Array] | None) -> None:
        from scipy.linalg import schur  # an import of the package stays light

        self._g = g
        self._T, self._Z = schur(J, output="complex")
        nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
        self._nodes = nodes
        self._fit = np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, DEGREE))
        unit = np.eye(DEGREE + 1)
        slopes = [np.polynomial.chebyshev.chebder(row) for row in unit]  # of T_k on [-1, 1]
        self._D = np.array([np.pad(slope, (0, DEGREE + 1 - len(slope))) for slope in slopes])

    def advance(self, a: float, b: float, z: Array) -> Array:
        """The solution at `b`, from its value at `a`."""
        from scipy.linalg import expm

        state = self._Z.conj().T @ z
        if self._g is None:
            return np.real(self._Z @ (expm(self._T * (b - a)) @ state))
        now, least = a, SHORTEST * (b - a)
        length = b - a
        while now != b:
            last = abs(length) >= abs(b - now)
            length = b - now if last else length
            C = self._coefficients(now, length)
            degree = _degree(np.abs(C).max(axis=0), max(abs(now), abs(now + length)) / abs(length))
            if degree <= DEGREE - 2 or abs(length) <= abs(least):
                state = self._piece(state, C[:, : degree + 1], length)
                now = b if last else now + length
                length = 2 * length
            else:
                length = length / 2
        return np.real(self._Z @ state)

    def _coefficients(self, begin: float, length: float) -> Complex:
        """Of `g` on a piece, in the Schur basis, one column for each Chebyshev polynomial."""
        assert self._g is not None
        values = np.array([self._g(begin + length * (1 + x) / 2) for x in self._nodes])
        return np.asarray(self._Z.conj().T @ (self._fit @ values).T)

    def _piece(self, state: Complex, C: Complex, length: float) -> Complex:
        from scipy.linalg import expm

        n, k = C.shape
        size = np.abs(C).sum(axis=0).max()
        unit = 2.0 ** np.ceil(np.log2(size)) if size > 0 else 1.0  # polynomials in units of the source: it drives no scaling
        whole = np.zeros((n + k, n + k), dtype=complex)
        whole[:n, :n], whole[:n, n:], whole[n:, n:] = (
            self._T * length,
            C[:, ::-1] * (length / unit),
            2 * self._D[:k, :k][::-1, ::-1],
        )
        begin = (-1.0) ** np.arange(k)[::-1] * unit  # T_k(-1), highest first: the matrix is triangular
        return np.asarray((expm(whole) @ np.concatenate([state, begin]))[:n])


def _degree(sizes: Array, ratio: float) -> int:
    """Up to where coefficients are more than rounding: of the function, and of a time that is `ratio` times the piece."""
    slope = 2 * float(np.arange(len(sizes)) ** 2 @ sizes)  # a bound of g' times the length of the piece
    heard = np.flatnonzero(sizes > ROUND_OFF * (sizes.max() + ratio * slope / 4))
    return int(heard[-1]) if len(heard) else 0
