"""Pages of experiments: figure, claims, verdict, settings, code and data of each, and an index of all."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from dalembert._version import __version__
from dalembert.errors import MethodError
from dalembert.experiments import described
from dalembert.experiments.base import REGISTER, Result
from dalembert.experiments.gallery import figure

STYLE = """:root { color-scheme: light dark; --faint: #777; --line: #ddd; --panel: #f5f6f7; --yes: #00734f; --no: #b3400a; }
@media (prefers-color-scheme: dark) { :root { --faint: #999; --line: #444; --panel: #24272a; --yes: #4cc39a; --no: #ff8f5a; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 1.6rem 0 .3rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
td, th { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
td:first-child { overflow-wrap: normal; }
pre { background: var(--panel); padding: .8rem 1rem; border-radius: 6px; overflow-x: auto; font-size: 12px; }
.faint { color: var(--faint); } .yes { color: var(--yes); } .no { color: var(--no); font-weight: 600; }
img { max-width: 100%; background: #fff; border-radius: 6px; }
@media (max-width: 640px) {
  thead { display: none; } tr { display: block; border-bottom: 1px solid var(--line); padding: .4rem 0; }
  td { display: block; border: 0; padding: 0; }
  td[data-name]:not(:empty)::before { content: attr(data-name) ": "; color: var(--faint); }
}"""


def _slug(id: str) -> str:
    return id.replace("/", "-").replace("..", "-")


RECORD = "index.json"  # what the index says, so that a later run into the same directory keeps it


class Entry(TypedDict):
    """What the index says of an experiment."""

    title: str
    source: str
    told: str
    holds: bool
    differs: bool
    claims: list[int]
    seconds: float


class Pages:
    """A directory of pages, one for each result, and an index of all that were ever written there, rewritten with each."""

    def __init__(self, directory: str | Path) -> None:
        self.folder = Path(directory)
        if self.folder.exists() and not self.folder.is_dir():
            raise MethodError(f"{str(self.folder)!r} is a file; give a directory")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "index.html").touch()
        except OSError as error:
            raise MethodError(f"{str(self.folder)!r} cannot be used: {error.strerror}") from error
        self.results: list[Result] = []
        self.entries: dict[str, Entry] = {}
        if (known := self.folder / RECORD).exists():
            try:
                self.entries = json.loads(known.read_text(encoding="utf-8"))
            except ValueError as error:
                raise MethodError(f"{str(known)!r} is no record of experiments; remove it") from error

    def add(self, result: Result) -> Path:
        """Write the page of a result, and the index; returns the latter."""
        import matplotlib.pyplot as plt

        name, picture = _slug(result.id), figure(result)
        if picture is not None:
            picture.savefig(self.folder / f"{name}.png", dpi=110)
            plt.close(picture)
        rows = [
            [
                html.escape(r.what),
                html.escape(r.ours),
                html.escape(r.wanted),
                html.escape(r.source),
                _coloured(_held(r.holds), r.holds),
            ]
            for r in result.rows
        ]
        notes = "".join(f"<p>{html.escape(n)}</p>" for n in result.notes)
        image = f"<img src='{name}.png' alt='{html.escape(result.title)}'>" if picture is not None else ""
        body = (
            f"<p><a href='index.html'>all experiments</a></p><h1>{html.escape(result.title)}</h1><p>{described.source(result)}"
            f"{', shortened' if result.quick else ''}: {_coloured(result.told, result.verdict)}</p>{image}"
            f"{_table(('claim', 'ours', 'wanted', 'source', ''), rows)}{notes}{self._data(name, result)}{described.code(result)}"
        )
        (self.folder / f"{name}.html").write_text(_page(result.title, body), encoding="utf-8")
        (self.folder / f"{name}.txt").write_text(str(result) + "\n", encoding="utf-8")
        self.results.append(result)
        self.entries[result.id] = {
            "title": result.title, "source": result.source, "told": result.told + (", shortened" if result.quick else ""),
            "holds": result.verdict, "differs": result.differs, "claims": [sum(r.holds for r in result.rows), len(result.rows)],
            "seconds": result.seconds,
        }  # fmt: skip
        (self.folder / RECORD).write_text(json.dumps(self.entries, indent=1) + "\n", encoding="utf-8")
        return self._index()

    def _data(self, name: str, result: Result) -> str:
        """Write the data of a result as CSV; links to the files."""
        links = []
        for what, text in described.tables(result):
            file = self.folder / f"{name}_{re.sub(r'[^A-Za-z0-9]+', '-', what).strip('-').lower()}.csv"
            file.write_text(text, encoding="utf-8")
            links.append(f"<a href='{file.name}' download>{html.escape(what)}</a> ({text.count(chr(10)) - 1} rows)")
        links.append(f"<a href='{name}.txt' download>claims as text</a>")
        return f"<h2>Data</h2><p>{', '.join(links)}</p>"

    def verdicts(self) -> list[dict[str, str | bool | float]]:
        """The verdicts so far."""
        return [{"id": r.id, "verdict": r.told, "holds": r.verdict, "seconds": r.seconds} for r in self.results]

    def _index(self) -> Path:
        known = {id: self.entries[id] for id in REGISTER if id in self.entries} | self.entries
        rows = [
            [
                f"<a href='{_slug(id)}.html'>{html.escape(id)}</a>", html.escape(e["title"]), html.escape(e["source"]),
                _coloured(e["told"], e["holds"]), f"{e['claims'][0]} of {e['claims'][1]}", f"{e['seconds']:.1f} s",
            ]
            for id, e in known.items()
        ]  # fmt: skip
        good, other = sum(e["holds"] for e in known.values()), sum(e["differs"] for e in known.values())
        differ = f"; {other} of them with a statement of the source that did not" if other else ""
        body = (
            f"<h1>Experiments of the literature</h1><p>{good} of {len(known)} hold{differ}. "
            f"dalembert {__version__}. &quot;Wanted&quot; is what must come out, by theory or by the source; "
            "if a statement of a source was not confirmed, it is quoted in that column and a note gives what is known.</p>"
            f"{_table(('', 'what it shows', 'source', 'verdict', 'claims', 'time'), rows)}"
        )
        index = self.folder / "index.html"
        index.write_text(_page("Experiments", body), encoding="utf-8")
        return index


def _held(holds: bool) -> str:
    return "holds" if holds else "fails"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells in HTML; on a narrow screen each row is a block, its cells named."""
    head = "".join(f"<th>{h}</th>" for h in heads)
    lines = (
        "".join(f"<td data-name='{h}'>{c}</td>" if h else f"<td>{c}</td>" for h, c in zip(heads, row, strict=True))
        for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _coloured(told: str, holds: bool) -> str:
    return f"<span class={'yes' if holds else 'no'}>{html.escape(told)}</span>"


def _page(title: str, body: str) -> str:
    head = "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    head += f"<title>{html.escape(title)}</title><style>{STYLE}</style>"
    return f"{head}<body>{body}</body></html>\n"
