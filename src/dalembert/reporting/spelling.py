"""Labels of matplotlib as HTML."""

from __future__ import annotations

import functools
import html
import re
import unicodedata


def spelled(label: str) -> str:
    """A label of matplotlib as HTML: Greek letters and subscripts."""
    label = html.escape(label, quote=False).replace(r"\varphi", r"\phi").replace(r"\varepsilon", r"\epsilon").replace(r"\$", "$")
    label = re.sub(r"\\mathrm\{([^{}]*)\}", r"\1", label).replace(r"\_", "_")
    label = re.sub(r"\\([A-Za-z]+)", lambda m: _letters().get(m.group(1), m.group(1)), label)
    while re.search(r"_\{[^{}]*\}", label):
        label = re.sub(r"_\{([^{}]*)\}", r"<sub>\1</sub>", label)
    return label.replace("$", "")


@functools.cache
def _letters() -> dict[str, str]:
    """Greek letters by name."""
    return {name: chr(code) for code in [*range(0x391, 0x3AA), *range(0x3B1, 0x3CA)] if (name := _greek(chr(code)))}


def _greek(letter: str) -> str:
    """The name of a Greek letter; empty for other characters."""
    words = unicodedata.name(letter, "").split()
    if words[:2] != ["GREEK", "SMALL"] and words[:2] != ["GREEK", "CAPITAL"]:
        return ""
    name = words[-1].lower().replace("lamda", "lambda")
    return name.capitalize() if words[1] == "CAPITAL" else name
