"""The elements of an MJCF file: defaults, orientations, geoms and inertias (mujoco.readthedocs.io, XML reference)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from dalembert.errors import FileError, ModelError
from dalembert.mechanisms import importing, rotations
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.importing import Meshes
from dalembert.mechanisms.markup import Node
from dalembert.mechanisms.rotations import Array
from dalembert.mechanisms.shapes import Box, Cylinder, Mesh, Shape, Sphere

ZERO = (0.0, 0.0, 0.0)


@dataclass(eq=False)
class Solid:
    """A geom: mass, and inertia about its centre, at a place in the frame of its body; and what is drawn."""

    mass: float
    inertia: Array
    place: Marker
    shapes: list[Shape]


class Settings:
    """What a file says once for all: units, orders of angles, default classes, meshes and colours."""

    def __init__(self, root: Node, folder: Path, meshes: bool) -> None:
        self.compiler: dict[str, str] = {}
        for node in root.all("compiler"):
            self.compiler |= node.attributes
        self.degrees = self.compiler.get("angle", "degree") == "degree"
        self.sequence = self.compiler.get("eulerseq", "xyz").swapcase()  # small letters are axes that move, in SciPy fixed ones
        if self.compiler.get("coordinate", "local") != "local":
            raise ModelError(f"{root.where}: coordinate='global' is not supported; MuJoCo dropped it too")
        if len(self.sequence) != 3 or set(self.sequence.lower()) - set("xyz"):
            raise ModelError(f"{root.where}: eulerseq must be three of x, y, z, not {self.compiler['eulerseq']!r}")
        self.classes: dict[str, dict[str, dict[str, str]]] = {"main": {}}
        for node in root.all("default"):
            self._read_class(node, "main", {})
        self.assets: dict[str, Node] = {}
        self.colors: dict[str, str] = {}
        for asset in root.all("asset"):
            for node in asset.all("mesh"):
                self.assets[node.attributes.get("name") or Path(node.text("file")).stem] = node
            for node in asset.all("material"):
                if "rgba" in node.attributes:
                    self.colors[node.text("name")] = importing.color(node.numbers("rgba", 4))
        inside = self.compiler.get("meshdir", self.compiler.get("assetdir", ""))
        self.meshes = Meshes(folder / inside, {}, meshes)

    def _read_class(self, node: Node, usual: str, above: dict[str, dict[str, str]]) -> None:
        name = node.attributes.get("class", usual)
        if not name:
            node.refuse("a default class needs a name")
        own = {tag: dict(values) for tag, values in above.items()}
        inner = []
        for child in node.children:
            if child.tag == "default":
                inner.append(child)
            else:
                own[child.tag] = own.get(child.tag, {}) | child.attributes
        self.classes[name] = own
        for child in inner:
            self._read_class(child, "", own)

    def full(self, node: Node, inherited: str) -> Node:
        """A node with what its class says where it says nothing itself."""
        name = node.attributes.get("class", inherited or "main")
        if name not in self.classes:
            node.refuse(f"there is no default class {name!r}")
        usual, own = self.classes[name].get(node.tag, {}), node.attributes
        ways = ("quat", "euler", "axisangle", "xyaxes", "zaxis", "fromto")
        if any(way in own for way in ways):
            usual = {key: value for key, value in usual.items() if key not in ways}
        return Node(node.tag, {**usual, **own}, node.source, node.line, node.children)

    def angle(self, value: float) -> float:
        return float(np.radians(value)) if self.degrees else float(value)

    def place(self, node: Node) -> Marker:
        """Position and orientation."""
        return Marker(node.numbers("pos", 3, ZERO), self._rotation(node))

    def _rotation(self, node: Node) -> Array:
        if "quat" in node.attributes:
            q = node.numbers("quat", 4)
            if not np.linalg.norm(q):
                node.refuse("quat must not be zero")
            return rotations.matrix("quat", q / np.linalg.norm(q))
        if "axisangle" in node.attributes:
            *axis, angle = node.numbers("axisangle", 4)
            return rotations.about(unit(node, "axisangle", np.array(axis)), self.angle(angle))
        if "euler" in node.attributes:
            angles = node.numbers("euler", 3)
            return importing.turned(self.sequence, np.radians(angles) if self.degrees else angles)
        if "xyaxes" in node.attributes:
            both = node.numbers("xyaxes", 6)
            x = unit(node, "xyaxes", both[:3])
            y = unit(node, "xyaxes", both[3:] - (both[3:] @ x) * x)
            return np.column_stack([x, y, np.cross(x, y)])
        if "zaxis" in node.attributes:
            return _shortest(unit(node, "zaxis", node.numbers("zaxis", 3)))
        return np.eye(3)

    def solid(self, node: Node) -> Solid | None:
        """A geom as a solid; None for planes and height fields, which have no mass."""
        kind = node.text("type", "mesh" if "mesh" in node.attributes else "sphere")
        if kind in ("plane", "hfield"):
            return None
        place, size = self.place(node), node.numbers("size", (1, 2, 3), ZERO)
        if "fromto" in node.attributes:
            ends = node.numbers("fromto", 6)
            along = ends[3:] - ends[:3]
            place = Marker((ends[:3] + ends[3:]) / 2, _shortest(-unit(node, "fromto", along)))
            size = np.array([size[0], *([size[0]] if kind in ("box", "ellipsoid") else []), np.linalg.norm(along) / 2])
        paint = (
            importing.color(node.numbers("rgba", 4)) if "rgba" in node.attributes else self.colors.get(node.text("material", ""))
        )
        try:
            return self._weighed(node, kind, size, place, paint)
        except (FileError, ModelError) as why:
            raise why if node.source in str(why) else type(why)(f"{node.where}: {why}") from why

    def _weighed(self, node: Node, kind: str, size: Array, place: Marker, paint: str | None) -> Solid:
        where: Where = {"position": place.point, "rotation": place.axes, "color": paint}
        middle, drawn = place, list[Shape]()
        if kind == "mesh":
            shape = self._mesh(node, place, paint)
            if shape is None:
                return Solid(0.0, np.zeros((3, 3)), place, [])
            volume, second = shape.volume, shape.moments()
            drawn.append(shape)
            middle = Marker(place.point + place.axes @ shape.middle(), place.axes)
            J = np.trace(second) * np.eye(3) - second
        else:
            volume, J, drawn = SOLIDS[kind](node, size, where) if kind in SOLIDS else node.refuse(f"a geom cannot be a {kind!r}")
        mass = node.number("mass") if "mass" in node.attributes else node.number("density", 1000.0) * volume
        return Solid(mass, J * mass / volume, middle, drawn)

    def _mesh(self, node: Node, place: Marker, paint: str | None) -> Mesh | None:
        name = node.text("mesh")
        if name not in self.assets:
            node.refuse(f"there is no mesh {name!r} among the assets")
        asset = self.assets[name]
        for key in ("refpos", "refquat", "vertex"):
            if key in asset.attributes:
                asset.refuse(f"{key} of a mesh is not supported")
        return self.meshes.read(asset, asset.text("file"), asset.numbers("scale", 3, (1.0, 1.0, 1.0)), place, paint)

    def inertial(self, node: Node) -> Solid:
        """The `<inertial>` of a body."""
        place = self.place(node)
        if "fullinertia" in node.attributes:
            xx, yy, zz, xy, xz, yz = node.numbers("fullinertia", 6)
            J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        else:
            J = np.diag(node.numbers("diaginertia", 3))
        return Solid(node.number("mass"), J, place, [])


def unit(node: Node, name: str, value: Array) -> Array:
    size = float(np.linalg.norm(value))
    if not size:
        node.refuse(f"{name} must not be zero")
    return np.asarray(value / size)


def _shortest(z: Array) -> Array:
    """The shortest rotation from the z axis to a direction."""
    axis = np.cross([0.0, 0.0, 1.0], z)
    size = float(np.linalg.norm(axis))
    if size < 1e-12:
        return np.eye(3) if z[2] > 0 else np.diag([1.0, -1.0, -1.0])
    return np.asarray(Rotation.from_rotvec(axis / size * np.arctan2(size, z[2])).as_matrix())


def together(solids: list[Solid]) -> tuple[float, Array, Array]:
    """Mass, centre of mass, and inertia about it, of several solids."""
    mass = sum(s.mass for s in solids)
    if not mass:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    center = np.asarray(sum(s.mass * s.place.point for s in solids) / mass)
    J = np.zeros((3, 3))
    for s in solids:
        d = s.place.point - center
        J += s.place.axes @ s.inertia @ s.place.axes.T + s.mass * ((d @ d) * np.eye(3) - np.outer(d, d))
    return float(mass), center, J


Where = dict[str, object]
Weighed = tuple[float, Array, list[Shape]]


def _sized(node: Node, size: Array, count: int) -> Array:
    if len(size) < count or (size[:count] <= 0).any():
        node.refuse(f"size needs {count} positive number{'s' if count > 1 else ''}")
    return size


def _sphere(node: Node, size: Array, where: Where) -> Weighed:
    r = float(_sized(node, size, 1)[0])
    volume = 4 / 3 * np.pi * r**3
    return volume, volume * 2 / 5 * r**2 * np.eye(3), [Sphere(r, **where)]  # type: ignore[arg-type]


def _box(node: Node, size: Array, where: Where) -> Weighed:
    a, b, c = 2 * _sized(node, size, 3)[:3]
    volume = a * b * c
    return volume, volume / 12 * np.diag([b**2 + c**2, a**2 + c**2, a**2 + b**2]), [Box(a, b, c, **where)]  # type: ignore[arg-type]


def _cylinder(node: Node, size: Array, where: Where) -> Weighed:
    r, h = _sized(node, size, 2)[0], 2 * size[1]
    volume = np.pi * r**2 * h
    across = r**2 / 4 + h**2 / 12
    return volume, volume * np.diag([across, across, r**2 / 2]), [Cylinder(r, h, **where)]  # type: ignore[arg-type]


def _capsule(node: Node, size: Array, where: Where) -> Weighed:
    """A cylinder with half spheres on its ends."""
    r, h = _sized(node, size, 2)[0], 2 * size[1]
    tube, caps = np.pi * r**2 * h, 4 / 3 * np.pi * r**3
    along = tube * r**2 / 2 + caps * 2 / 5 * r**2
    across = tube * (r**2 / 4 + h**2 / 12) + caps * (2 / 5 * r**2 + h**2 / 4 + 3 / 8 * r * h)
    at, R = np.asarray(where["position"]), np.asarray(where["rotation"])
    ends = [Sphere(r, position=at + s * h / 2 * R[:, 2], color=where["color"]) for s in (-1, 1)]  # type: ignore[arg-type]
    return tube + caps, np.diag([across, across, along]), [Cylinder(r, h, **where), *ends]  # type: ignore[arg-type]


def _ellipsoid(node: Node, size: Array, where: Where) -> Weighed:
    a, b, c = _sized(node, size, 3)[:3]
    volume = 4 / 3 * np.pi * a * b * c
    corners, faces = Sphere(1.0).surface()
    J = volume / 5 * np.diag([b**2 + c**2, a**2 + c**2, a**2 + b**2])
    return volume, J, [Mesh(corners * [a, b, c], faces, **where)]  # type: ignore[arg-type]


SOLIDS = {"sphere": _sphere, "box": _box, "cylinder": _cylinder, "capsule": _capsule, "ellipsoid": _ellipsoid}
