"""One module for each peer, all with the interface of `base.Peer`."""

from __future__ import annotations

import importlib
from importlib import metadata

from peers.solvers.base import Peer

MODULES = {  # name on the page: module, distribution
    "dalembert": ("ours", "dalembert"),
    "heyoka": ("with_heyoka", "heyoka"),
    "diffrax": ("with_diffrax", "diffrax"),
    "CasADi idas": ("with_idas", "casadi"),
    "scikit-sundae": ("with_sundae", "scikit-sundae"),
    "SciPy": ("with_scipy", "scipy"),
    "solve_dae": ("with_solve_dae", "solve_dae"),
    "Exudyn": ("with_exudyn", "exudyn"),
    "pydykit": ("with_pydykit", "pydykit"),
}


def load(names: list[str] | None = None) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that import on this machine, and why the others do not."""
    found: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name, (module, distribution) in MODULES.items():
        if names is not None and name not in names:
            continue
        try:
            metadata.version(distribution)
            found[name] = importlib.import_module(f"peers.solvers.{module}").peer
        except metadata.PackageNotFoundError:
            missing[name] = f"`{distribution}` is not installed"
        except ImportError as error:
            missing[name] = f"`{distribution}` does not import: {error}"
    return found, missing


def version(name: str) -> str:
    """Of the distribution behind a peer."""
    return metadata.version(MODULES[name][1])
