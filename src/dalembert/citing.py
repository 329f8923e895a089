"""What to cite: BibTeX entries of the library and of the sources of its methods."""

from __future__ import annotations

import functools
import re
from importlib.resources import files

from dalembert._version import __version__
from dalembert.errors import MethodError, suggesting
from dalembert.methods import Method
from dalembert.methods.base import find
from dalembert.solution import Solution

BOOKS = {"Hairer, Lubich, Wanner": "hairerlubichwanner", "Hairer, Wanner": "hairerwanner", "Bertolazzi": "bertolazzi"}
SOFTWARE = f"""@software{{dalembert,
  author  = {{{{The dalembert developers}}}},
  title   = {{dalembert: structure-preserving simulation of constrained mechanical systems}},
  version = {{{__version__}}},
  license = {{MIT}},
}}"""


class Bibliography(str):
    """BibTeX entries, which print as they are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@suggesting
def cite(*what: str | Method | Solution) -> Bibliography:
    """BibTeX of the library and of the sources of methods, given by name, as objects, or by solutions: `da.cite("rattle")`."""
    keys: dict[str, None] = {}
    for one in what:
        method = one.method if isinstance(one, Solution) else find(one)
        keys |= dict.fromkeys(keys_of(method.source))
    return Bibliography("\n\n".join([SOFTWARE, *(entries()[key] for key in keys)]))


@functools.cache
def entries() -> dict[str, str]:
    """All BibTeX entries by key."""
    text = files("dalembert").joinpath("references.bib").read_text(encoding="utf-8")
    found = {re.split(r"[{,]", block, maxsplit=2)[1]: block.strip() for block in re.split(r"\n(?=@)", text)}
    return dict(sorted(found.items()))


def keys_of(source: str) -> list[str]:
    """The entries of a source in words, such as `Jay 1996; Symank 2025, sec. 6.2`."""
    out = []
    for part in source.split(";"):
        words = part.strip()
        if words[:1].islower():  # another place in the same source
            continue
        book = next((key for begin, key in BOOKS.items() if words.startswith(begin)), "")
        named = re.match(r"([A-Za-z]+).*?\b(\d{4})", words)
        key = book or (f"{named[1].lower()}{named[2]}" if named else "")
        if key not in entries():
            raise MethodError(f"there is no BibTeX entry for {words!r}; add it to references.bib")
        out.append(key)
    return out


def doi(key: str) -> str:
    """The DOI of an entry, empty if it has none."""
    found = re.search(r"doi\s*=\s*\{(.*?)\},", entries()[key])
    return found[1] if found else ""
