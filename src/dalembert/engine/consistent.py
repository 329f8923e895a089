"""Consistent values, as `da.consistent` returns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dalembert.named import Array, Named


@dataclass(frozen=True)
class Consistent(Named):
    """Consistent values by name: `q`, `v`, `p` and `lam`; or `y` and `z`; or `x`.

    Unpacks as `q, v, lam = ...` and as keywords, `da.simulate(system, method, **da.consistent(...), ...)`.
    """

    values: Mapping[str, Array]
    state: tuple[str, ...]

    def __iter__(self) -> Iterator[Array]:
        return (self.values[name] for name in (*self.state, *(["lam"] if "lam" in self.values else [])))

    def keys(self) -> tuple[str, ...]:
        return self.state

    def __getitem__(self, key: str) -> Array:
        return self.named(key)
