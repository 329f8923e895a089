"""XML as a tree of nodes that know their line, read without the attacks that XML allows.

Entities are what these attacks are made of: billions of laughs, files and addresses of somebody else. A robot needs none, so
any declaration of one is refused (by defusedxml), and so are files too large or too deep to be a robot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

import numpy as np
from defusedxml import DefusedXmlException
from defusedxml.sax import parseString

from dalembert.checking import shown
from dalembert.errors import FileError, ModelError
from dalembert.mechanisms.rotations import Array

LARGEST = 64 * 2**20  # bytes of a description, meshes apart
DEEPEST = 1000  # levels of elements within elements
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")  # what Python reads beside that, nan and 1_000, is no number here


@dataclass(eq=False)
class Node:
    """An element: its name, attributes and children, and where it stands."""

    tag: str
    attributes: dict[str, str]
    source: str
    line: int
    children: list[Node] = field(default_factory=list)

    @property
    def where(self) -> str:
        named = f" {self.attributes['name']!r}" if "name" in self.attributes else ""
        return f"{self.source}, line {self.line}, <{self.tag}>{named}"

    def refuse(self, message: str) -> NoReturn:
        """Say what is wrong with it, and where it stands."""
        raise ModelError(f"{self.where}: {message}")

    def all(self, *tags: str) -> list[Node]:
        """The children of these names, in their order."""
        return [child for child in self.children if child.tag in tags]

    def one(self, tag: str) -> Node | None:
        """The only child of a name, where there is one."""
        found = self.all(tag)
        if len(found) > 1:
            found[1].refuse(f"a second <{tag}> in <{self.tag}> of line {self.line}")
        return found[0] if found else None

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute; it must be there where no default is given."""
        if name in self.attributes:
            return self.attributes[name].strip()
        if default is None:
            self.refuse(f"the attribute {name!r} is missing")
        return default

    def numbers(self, name: str, count: int | tuple[int, ...], default: tuple[float, ...] | None = None) -> Array:
        """An attribute of so many numbers."""
        if name not in self.attributes and default is not None:
            return np.array(default)
        given = self.text(name)
        words, counts = given.split(), (count,) if isinstance(count, int) else count
        if len(words) not in counts or not all(map(NUMBER.fullmatch, words)):
            wanted = " or ".join(map(str, counts))
            self.refuse(f"{name} must be {wanted} number{'s' if counts != (1,) else ''}, not {shown(given)}")
        out = np.array([float(word) for word in words])
        if not np.isfinite(out).all():
            self.refuse(f"{name} is too large for a number: {shown(given)}")
        return out

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that is one number."""
        return float(self.numbers(name, 1, None if default is None else (default,))[0])


class _Builder(ContentHandler):
    """Makes nodes of the events of a parser."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source, self.stack, self.root = source, list[Node](), None
        self.place: Locator | None = None

    root: Node | None

    def setDocumentLocator(self, locator: Locator) -> None:  # the name is that of the interface
        self.place = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        line = (self.place.getLineNumber() if self.place is not None else None) or 0
        if len(self.stack) >= DEEPEST:
            raise FileError(f"{self.source}, line {line}: elements are nested more than {DEEPEST} deep")
        node = Node(name, dict(attrs.items()), self.source, line)
        if self.stack:
            self.stack[-1].children.append(node)
        else:
            self.root = node
        self.stack.append(node)

    def endElement(self, name: str) -> None:
        self.stack.pop()


def content(path: Path) -> bytes:
    """The bytes of a file that is not too large."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise FileError(f"{path} has {size / 2**20:.0f} MiB; descriptions of up to {LARGEST >> 20} MiB are read")
        return path.read_bytes()
    except OSError as why:
        raise FileError(f"{path} cannot be read: {why.strerror}") from why
    except ValueError as why:  # a path with a null character
        raise FileError(f"{str(path)!r} is no path: {why}") from why


def parsed(data: bytes, source: str) -> Node:
    """The root of the elements in a text of XML; `source` is its name in messages."""
    builder = _Builder(source)
    try:
        parseString(data, builder, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    except DefusedXmlException as why:
        raise FileError(f"{source} declares entities or refers to other files, which a robot does not need: {why}") from why
    except SAXParseException as why:
        raise FileError(f"{source}, line {why.getLineNumber()}: no well-formed XML, {why.getMessage()}") from why
    except FileError:
        raise
    except (LookupError, ValueError) as why:  # an encoding that is not known, or not that of the text
        raise FileError(f"{source} is no XML that can be read: {why}") from why
    assert builder.root is not None  # the parser refuses a text without an element
    return builder.root


__all__ = ["Node", "content", "parsed"]
