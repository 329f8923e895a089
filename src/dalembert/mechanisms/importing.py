"""What readers of robots share: places, colours, meshes and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from dalembert.checking import shown
from dalembert.errors import FileError, ModelError
from dalembert.mechanisms import meshes, rotations
from dalembert.mechanisms.description import Description
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.markup import Node
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.shapes import Mesh

HERE = Marker(np.zeros(3), np.eye(3))


def turned(sequence: str, angles: Array) -> Array:
    """The rotation matrix of three angles: about fixed axes by small letters, about moving ones by large letters."""
    return np.asarray(Rotation.from_euler(sequence, angles).as_matrix())


def inertia(node: Node, names: tuple[str, ...] = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")) -> Array:
    """A matrix of inertia from its six entries, each an attribute."""
    xx, yy, zz, xy, xz, yz = (node.number(name, None if name[1] == name[2] else 0.0) for name in names)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def color(rgba: Array) -> str:
    """A colour as it is written in a web page, without its opacity."""
    red, green, blue = (round(255 * float(min(max(x, 0.0), 1.0))) for x in rgba[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"


@dataclass
class Meshes:
    """The meshes that a file names: found beside it, or in packages whose folders are given."""

    folder: Path
    packages: Mapping[str, Path]
    wanted: bool = True
    left_out: list[str] = field(default_factory=list)

    def find(self, name: str) -> Path:
        """The file that a name stands for: a path from the folder of the description, `file://...` or `package://name/...`."""
        kind, colon, rest = name.partition("://")
        if not colon:
            return self.folder / name
        if kind == "file":
            return self.folder / rest
        package, _, inside = rest.partition("/")
        if kind not in ("package", "model") or not inside:
            raise FileError(f"the mesh {shown(name)} is not on this machine: give a path, file://... or package://name/...")
        tried = [self.packages[package] / inside] if package in self.packages else self._guesses(package, inside)
        for path in tried:
            if path.is_file():
                return path
        raise FileError(
            f"the mesh {shown(name)} was not found: tried {', '.join(map(str, tried[:4]))}; say where the package is, "
            f"packages={{{package!r}: folder}}, or read the mechanism without meshes, meshes=False"
        )

    def _guesses(self, package: str, inside: str) -> list[Path]:
        """Beside the file and in the folders above it, which are those of the package where they have its name."""
        above = (self.folder, *self.folder.parents)
        return [path for top in above for path in ([top / inside] if top.name == package else [top / package / inside])] + [
            self.folder / inside
        ]

    def read(self, node: Node, name: str, scale: Array, place: Marker, paint: str | None) -> Mesh | None:
        """The mesh of a node; None where none are wanted, or the file is of a kind that is not drawn."""
        if not self.wanted:
            self.left_out.append(name)
            return None
        if Path(name).suffix.lower() not in (".stl", ".obj"):
            self.left_out.append(name)
            return None
        try:
            corners, faces = meshes.read(self.find(name))
        except FileError as why:
            hint = "" if "meshes=False" in str(why) else "; meshes=False reads the mechanism without them"
            raise FileError(f"{node.where}: {why}{hint}") from why
        if np.prod(scale) < 0:
            faces = faces[:, ::-1]
        return Mesh(corners * scale, faces, position=place.point, rotation=place.axes, color=paint)

    def notes(self) -> list[str]:
        if not self.left_out:
            return []
        why = "STL and OBJ are drawn" if self.wanted else "meshes=False"
        return [f"meshes are not drawn: {', '.join(sorted(set(self.left_out)))} ({why})"]


def folders(packages: Mapping[str, str | Path] | None) -> dict[str, Path]:
    """The folders of packages, as given."""
    try:
        return {str(name): Path(where) for name, where in (packages or {}).items()}
    except (AttributeError, TypeError, ValueError) as why:
        raise ModelError(f"packages must be a dictionary of names and folders, not {shown(packages)}") from why


def unique(m: Description, name: str, kind: str) -> str:
    """A name that nothing in the mechanism has: files may use one for a body and a joint."""
    taken = {"ground", *m.bodies, *m.joints, *m.couplings, *m.forces, *m.sensors}
    if name not in taken:
        return name
    new = next(new for k in range(len(taken) + 1) if (new := f"{name}_{kind}{k or ''}") not in taken)
    m.notes.append(f"the {kind} {name!r} is called {new!r}: something else has this name")
    return new


def frame(axis: Array) -> Array:
    """The axes of a joint whose z axis is given, where joints of a file and of a drawing agree."""
    return rotations.frame(axis)
