"""Robots from URDF files: links, joints, inertias, limits, friction, mimic joints and shapes.

The format: wiki.ros.org/urdf/XML. A link has a frame; a joint places the frame of its child in that of its parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dalembert.checking import flag, number, one_of
from dalembert.errors import ModelError, suggest, suggesting
from dalembert.mechanisms import importing, joints
from dalembert.mechanisms import urdf_elements as elements
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.importing import HERE, Meshes
from dalembert.mechanisms.markup import Node, content, parsed
from dalembert.mechanisms.mechanism import Mechanism
from dalembert.mechanisms.shapes import Box, Cylinder, Shape, Sphere
from dalembert.mechanisms.urdf_elements import Hinge, Link

KNOWN = ("link", "joint", "material")


@suggesting
def read_urdf(
    path: str | Path, *, base: str = "fixed", pose: Mapping[str, float] | None = None, motors: bool = True, meshes: bool = True,
    packages: Mapping[str, str | Path] | None = None, gravity: object = (0.0, 0.0, -9.81),
) -> Mechanism:  # fmt: skip
    """A mechanism from a URDF file.

    Parameters
    ----------
    base
        `"fixed"`: the root link is the ground. `"free"`: it moves freely.
    pose
        Values of joints, by name, at which the mechanism is drawn; zero where nothing is said.
    motors
        Whether each revolute, continuous and prismatic joint has a motor, the input `<joint>_motor`, unless it mimics another.
    meshes
        Whether meshes (STL, OBJ) of the links are read.
    packages
        Folders of packages, for meshes `package://name/...` that are not found beside the file or above it.

    Notes
    -----
    A link without mass that is fixed to another one is a place on it: a sensor of its position, by its name. Limits of joints
    are data (`joint.limits`). Friction of `<dynamics>` is viscous and dry friction, a `<mimic>` a gear. What the file has
    beside this is named in `mechanism.notes`.
    """
    path = Path(path)
    one_of("base", base, ("fixed", "free"), ModelError)
    root = parsed(content(path), str(path))
    if root.tag != "robot":
        raise ModelError(f"{root.where}: a URDF file begins with <robot>, not with <{root.tag}>")
    _plain(root)
    robot = Robot(root, Meshes(path.parent, importing.folders(packages), flag("meshes", meshes, ModelError)))
    robot.draw(pose)
    return robot.built(base == "free", flag("motors", motors, ModelError), gravity)


def _plain(root: Node) -> None:
    """Refuse what a macro processor still has to expand."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.tag.startswith("xacro:") or any("${" in text for text in node.attributes.values()):
            node.refuse("this is a xacro file; expand it first: xacro robot.urdf.xacro > robot.urdf")
        waiting += node.children


class Robot:
    """The links and joints of a file, as a tree."""

    def __init__(self, root: Node, meshes: Meshes) -> None:
        self.root, self.meshes = root, meshes
        self.links: dict[str, Link] = {}
        for node in root.all("link"):
            if node.text("name") in self.links:
                node.refuse("a second link of this name")
            self.links[node.text("name")] = elements.link(node)
        self.hinges: dict[str, Hinge] = {}
        for node in root.all("joint"):
            if node.text("name") in self.hinges:
                node.refuse("a second joint of this name")
            self._hang(elements.hinge(node))
        self.order = self._ordered()
        self.colors = {node.text("name", ""): elements.color(node) for node in root.all("material")}

    def _hang(self, hinge: Hinge) -> None:
        for end in (hinge.parent, hinge.child):
            if end not in self.links:
                hinge.node.refuse(f"there is no link {end!r}{suggest(end, self.links)}")
        child = self.links[hinge.child]
        if hinge.parent == hinge.child:
            hinge.node.refuse(f"it joins {hinge.child!r} with itself")
        if child.joint is not None:
            hinge.node.refuse(
                f"the link {hinge.child!r} has the parent {child.joint.parent!r} already: URDF describes trees; join the loop "
                "by a joint of the mechanism, mechanism.revolute(...)"
            )
        child.joint = hinge
        self.hinges[hinge.name] = hinge

    def _ordered(self) -> list[str]:
        """The links, each after its parent."""
        roots = [name for name, link in self.links.items() if link.joint is None]
        if len(roots) > 1:
            raise ModelError(f"{self.root.where}: {len(roots)} links have no parent, {', '.join(roots[:5])}; one may be the root")
        below: dict[str, list[str]] = {name: [] for name in self.links}
        for hinge in self.hinges.values():
            below[hinge.parent].append(hinge.child)
        order = list(roots)
        for name in order:
            order += below[name]
        rest = [name for name in self.links if name not in set(order)]
        if rest:
            raise ModelError(f"{self.root.where}: the links {', '.join(rest[:5])} form a cycle: none of them leads to the root")
        if not order:
            raise ModelError(f"{self.root.where}: there are no links")
        return order

    def draw(self, pose: Mapping[str, float] | None) -> None:
        """Set the values at which joints are drawn; those that mimic others follow."""
        for name, value in dict(pose or {}).items():
            hinge = self.hinges.get(name)
            if hinge is None or hinge.freedom is None:
                movable = [k for k, h in self.hinges.items() if h.freedom is not None]
                raise ModelError(f"pose: there is no joint {name!r} with one freedom{suggest(name, movable)}")
            if hinge.node.one("mimic") is not None:
                raise ModelError(f"pose: the joint {name!r} mimics another one, which sets its value")
            hinge.value = number(f"pose: {name}", value, ModelError)
        for hinge in self.hinges.values():
            seen, here = [hinge], hinge
            while (mimic := here.node.one("mimic")) is not None:
                here = self._mimicked(mimic)
                if here in seen:
                    mimic.refuse(f"the joint {here.name!r} mimics itself")
                seen.append(here)
            for here, source in zip(reversed(seen[:-1]), reversed(seen[1:]), strict=True):
                mimic = here.node.one("mimic")
                assert mimic is not None
                here.value = mimic.number("multiplier", 1.0) * source.value + mimic.number("offset", 0.0)

    def _mimicked(self, mimic: Node) -> Hinge:
        name = mimic.text("joint")
        if name not in self.hinges:
            mimic.refuse(f"there is no joint {name!r}{suggest(name, self.hinges)}")
        return self.hinges[name]

    def carriers(self, free: bool) -> dict[str, tuple[str, Marker]]:
        """For each link the body that carries it, and its place in the frame of that body.

        A link with a mass is its own, unless it is fixed to the ground. One without is carried by a link that it is fixed to:
        its parent, or one below where it moves itself.
        """
        out: dict[str, tuple[str, Marker]] = {}
        for name in self.order:
            link, hinge = self.links[name], self.links[name].joint
            if hinge is None and not free:
                out[name] = ("ground", HERE)
            elif hinge is not None and hinge.fixed and (not link.mass or out[hinge.parent][0] == "ground"):
                body, place = out[hinge.parent]
                out[name] = (body, place.then(hinge.place))
            elif link.mass:
                out[name] = (name, HERE)
            else:
                body, place = self._below(name)
                out[name] = (body, place.inverse())
        return out

    def _below(self, name: str) -> tuple[str, Marker]:
        """The first link with a mass that is fixed below one without, and its place in the frame of that one."""
        waiting = [(name, HERE)]
        for here, place in waiting:
            if self.links[here].mass:
                return here, place
            for hinge in self.hinges.values():
                if hinge.parent == here and hinge.fixed:
                    waiting.append((hinge.child, place.then(hinge.place)))
        self.links[name].node.refuse("it moves, so it needs an <inertial> with a mass: without one its motion is not defined")

    def built(self, free: bool, motors: bool, gravity: object) -> Mechanism:
        """The mechanism."""
        m = Mechanism(name=self.root.text("name", "robot"), gravity=gravity, dimension=3)  # type: ignore[arg-type]
        carriers, called = self.carriers(free), {"ground": "ground"}
        shapes: dict[str, list[Shape]] = {body: [] for body, _ in carriers.values()}
        for name, (body, place) in carriers.items():
            shapes[body] += self._shapes(self.links[name].node, place)
        world: dict[str, Marker] = {}
        for name in self.order:
            link, body, hinge = self.links[name], carriers[name][0], self.links[name].joint
            world[name] = HERE if hinge is None else world[hinge.parent].then(hinge.moved)
            if body == name:
                called[name] = importing.unique(m, name, "link")
                self._body(m, called[name], link, world[name], shapes[name])
        m.ground = replace(m.ground, shape=tuple(shapes.get("ground", ())))
        for name in self.order:
            self._joined(m, name, carriers, called, motors)
        self._geared(m)
        self._noted(m)
        return m

    def _body(self, m: Mechanism, name: str, link: Link, at: Marker, shapes: list[Shape]) -> None:
        try:
            m.body(
                name, mass=link.mass, inertia=link.inertia, center=link.center, position=at.point, rotation=at.axes, shape=shapes
            )
        except ModelError as why:
            raise ModelError(f"{link.node.where}: {why}") from why

    def _joined(
        self, m: Mechanism, name: str, carriers: Mapping[str, tuple[str, Marker]], called: Mapping[str, str], motors: bool
    ) -> None:
        """Join a link to its parent: by a joint, or as a place on the same body."""
        hinge, (body, place) = self.links[name].joint, carriers[name]
        if body != name and (hinge is None or hinge.fixed or body == "ground"):
            if body == "ground":
                extra = f"; its mass {self.links[name].mass:g} does not move" if self.links[name].mass else ""
                m.notes.append(f"the link {name!r} is the ground, at {place.point.tolist()}{extra}")
            else:
                m.notes.append(f"the link {name!r} has no mass: it is a place on {called[body]!r}, a sensor of its position")
                m.sensor(importing.unique(m, name, "link"), called[body], on=place.point)
            return
        parent, before = carriers[hinge.parent] if hinge is not None else (body, HERE)
        if hinge is None or parent == body:
            return
        if body != name:
            m.notes.append(f"the link {name!r} has no mass: {called[body]!r}, which is fixed to it, moves in its place")
        axes = Marker(np.zeros(3), importing.frame(hinge.axis) if hinge.kind is not joints.Free else np.eye(3))
        first, other = before.then(hinge.place).then(axes), place.then(axes)
        ends = [Marker(f.point - m.get_body(called[b]).center, f.axes) for b, f in ((parent, first), (body, other))]
        hinge.name = importing.unique(m, hinge.name, "joint")
        m._place(hinge.kind, hinge.name, called[parent], called[body], ends[0], ends[1], elements.limits(hinge))
        if hinge.freedom is None:
            return
        dynamics = hinge.node.one("dynamics")
        viscous, dry = (0.0, 0.0) if dynamics is None else (dynamics.number("damping", 0.0), dynamics.number("friction", 0.0))
        if viscous or dry:
            m.friction(importing.unique(m, f"{hinge.name}_friction", "force"), hinge.name, viscous=viscous, dry=dry)
        if motors and hinge.node.one("mimic") is None:
            m.motor(importing.unique(m, f"{hinge.name}_motor", "force"), hinge.name)

    def _geared(self, m: Mechanism) -> None:
        for hinge in self.hinges.values():
            if (mimic := hinge.node.one("mimic")) is not None:
                name = importing.unique(m, f"{hinge.name}_mimic", "gear")
                m.gear(name, hinge.name, self._mimicked(mimic).name, ratio=mimic.number("multiplier", 1.0))

    def _shapes(self, node: Node, place: Marker) -> list[Shape]:
        """What a link looks like, in the frame of the body that carries it."""
        found = []
        for visual in node.all("visual"):
            geometry = visual.one("geometry")
            if geometry is None or len(geometry.children) != 1:
                visual.refuse("it needs a <geometry> with one shape")
            material, at = visual.one("material"), place.then(elements.place(visual))
            paint = None if material is None else elements.color(material) or self.colors.get(material.text("name", ""))
            shape = self._shape(geometry.children[0], at, paint)
            found += [shape] if shape is not None else []
        return found

    def _shape(self, node: Node, at: Marker, paint: str | None) -> Shape | None:
        where = {"position": at.point, "rotation": at.axes, "color": paint}
        try:
            if node.tag == "box":
                return Box(*node.numbers("size", 3), **where)  # type: ignore[arg-type]
            if node.tag == "cylinder":
                return Cylinder(node.number("radius"), node.number("length"), **where)  # type: ignore[arg-type]
            if node.tag == "sphere":
                return Sphere(node.number("radius"), **where)  # type: ignore[arg-type]
            if node.tag == "mesh":
                return self.meshes.read(node, node.text("filename"), node.numbers("scale", 3, (1.0, 1.0, 1.0)), at, paint)
        except ModelError as why:
            raise why if node.source in str(why) else ModelError(f"{node.where}: {why}") from why
        node.refuse("a shape is a box, a cylinder, a sphere or a mesh")

    def _noted(self, m: Mechanism) -> None:
        """Name what is in the file and not in the mechanism."""
        other: dict[str, list[int]] = {}
        for node in self.root.children:
            if node.tag not in KNOWN:
                other.setdefault(node.tag, []).append(node.line)
            for inner in node.children if node.tag in ("link", "joint") else ():
                if inner.tag in ("collision", "safety_controller", "calibration"):
                    other.setdefault(inner.tag, []).append(inner.line)
        for tag, lines in other.items():
            shown = ", ".join(map(str, lines[:8])) + (", ..." if len(lines) > 8 else "")
            m.notes.append(f"<{tag}> is left out (line{'s' if len(lines) > 1 else ''} {shown})")
        m.notes += self.meshes.notes()
