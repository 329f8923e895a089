"""What a notebook shows by itself: films, reports, and pages made for it."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class Film(type(Path())):  # type: ignore[misc]  # a path of this machine's kind
    """The path of a film, which a notebook shows."""

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.read_bytes()).decode("ascii")
        if self.suffix.lower() == ".mp4":
            return f'<video controls loop style="max-width:100%" src="data:video/mp4;base64,{data}"></video>'
        return f'<img style="max-width:100%" alt="{html.escape(self.stem)}" src="data:image/gif;base64,{data}">'


class Page(type(Path())):  # type: ignore[misc]
    """The path of a report, which a notebook beside or above it shows."""

    def _repr_html_(self) -> str:
        try:
            below = self.resolve().relative_to(Path.cwd()).as_posix()
        except ValueError:  # a notebook server gives out what lies below the notebook only
            return f"<code>{html.escape(str(self))}</code>"
        return f'<iframe src="{html.escape(below)}" style="width:100%;height:760px;border:0" title="report"></iframe>'


@dataclass(frozen=True, repr=False)
class Inline:
    """A page inside a notebook: `told` is what is printed elsewhere, `page` makes its HTML when it is shown."""

    told: str
    page: Callable[[], str]
    height: int = 600

    def __repr__(self) -> str:
        return self.told

    def _repr_html_(self) -> str:
        page = html.escape(self.page(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:{self.height}px;border:0" title="dalembert"></iframe>'
