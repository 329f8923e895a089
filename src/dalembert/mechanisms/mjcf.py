"""Mechanisms from MJCF files: trees of bodies with joints, geoms, equality constraints and motors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dalembert.checking import flag
from dalembert.errors import DalembertWarning, ModelError, suggest, suggesting
from dalembert.mechanisms import importing, joints
from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.importing import HERE
from dalembert.mechanisms.markup import Node, content, parsed
from dalembert.mechanisms.mechanism import Mechanism
from dalembert.mechanisms.mjcf_elements import ZERO, Settings, Solid, together
from dalembert.mechanisms.mjcf_joints import Several, joined
from dalembert.mechanisms.shapes import Shape

READ = ("compiler", "default", "asset", "worldbody", "option", "equality", "actuator")
HARMLESS = ("visual", "statistic", "size", "custom", "keyframe", "sensor", "contact")  # what does not change a free motion


@suggesting
def read_mjcf(path: str | Path, *, meshes: bool = True) -> Mechanism:
    """A mechanism from an MJCF file of MuJoCo: bodies with hinge, slide, ball and free joints, their geoms and inertias.

    Equality constraints `connect`, `weld` and linear `joint` ones are joints and gears, and hold exactly. Motors are inputs by
    their names: the force or torque itself, without the gear. Stiffness, damping, friction and armature of joints are springs,
    friction and rotors. Geoms do not touch one another. What the file has beside this is named in `mechanism.notes`, with a
    warning where it would change the motion.
    """
    path = Path(path)
    root = parsed(content(path), str(path))
    if root.tag != "mujoco":
        raise ModelError(f"{root.where}: an MJCF file begins with <mujoco>, not with <{root.tag}>")
    return File(root, Settings(root, path.parent, flag("meshes", meshes, ModelError))).mechanism


@dataclass(frozen=True, eq=False)
class Carrier:
    """What carries a body of the file: a body of the mechanism, and the place of the former in its frame."""

    body: str
    place: Marker


class File:
    """Adds what a file describes to a mechanism."""

    def __init__(self, root: Node, settings: Settings) -> None:
        self.root, self.settings = root, settings
        gravity = np.array([0.0, 0.0, -9.81])
        for node in root.all("option"):
            gravity = node.numbers("gravity", 3, tuple(gravity))
        self.mechanism = Mechanism(name=root.text("model", "mujoco"), gravity=gravity, dimension=3)
        self.left: dict[str, list[int]] = {}
        self.serious: set[str] = set()
        self.carriers = {"world": Carrier("ground", HERE)}
        self.worlds = {"world": HERE}  # where the bodies of the file are drawn
        self.freedoms: dict[str, tuple[str, str]] = {}  # of the joints of the file
        for node in root.all("worldbody"):
            self._ground(node)
            self._children(node)
        for group, add in (("equality", self._equal), ("actuator", self._actuator)):
            for node in root.all(group):
                for child in node.children:
                    add(settings.full(child, ""))
        self._noted()

    # ---- bodies ------------------------------------------------------------------------------------------

    def _ground(self, node: Node) -> None:
        solids = [s for geom in node.all("geom") if (s := self.settings.solid(self.settings.full(geom, ""))) is not None]
        m = self.mechanism
        m.ground = replace(m.ground, shape=(*m.ground.shape, *(shape for s in solids for shape in s.shapes)))

    def _children(self, top: Node) -> None:
        """All bodies below a node, each after its parent."""
        waiting = [(child, "world", "") for child in top.children]
        while waiting:
            node, parent, inherited = waiting.pop(0)
            if node.tag != "body":
                if node.tag not in ("joint", "freejoint", "geom", "inertial", "site", "camera", "light"):
                    self._leave(node, serious=True)
                continue
            inherited = node.attributes.get("childclass", inherited)
            name = self._body(node, parent, inherited)
            waiting = [(child, name, inherited) for child in node.children] + waiting

    def _body(self, node: Node, parent: str, inherited: str) -> str:
        """Add a body, or take it as a place on its parent where it has neither mass nor joints; returns its name in the file."""
        m, full = self.mechanism, self.settings.full
        name = node.attributes.get("name", f"body{len(self.worlds)}")
        if name in self.worlds:
            node.refuse("a second body of this name")
        if node.attributes.get("mocap", "false") == "true":
            node.refuse("bodies moved by motion capture are not supported")
        place = self.settings.place(node)
        self.worlds[name] = self.worlds[parent].then(place)
        hinges = [full(j, inherited) for j in node.all("joint", "freejoint")]
        solids, shapes = self._weight(node, inherited)
        mass, center, J = together(solids)
        carrier = self.carriers[parent]
        if not mass or (not hinges and carrier.body == "ground"):
            if hinges:
                node.refuse("it moves, so it needs a mass: an <inertial>, or a geom with one")
            self._carried(node, name, Carrier(carrier.body, carrier.place.then(place)), shapes)
        else:
            called, at = importing.unique(m, name, "body"), self.worlds[name]
            try:
                m.body(called, mass=mass, inertia=J, center=center, position=at.point, rotation=at.axes, shape=shapes)
            except ModelError as why:
                raise ModelError(f"{node.where}: {why}") from why
            self.carriers[name] = Carrier(called, HERE)
            self._join(node, name, carrier, place, joined(node, hinges, self.settings))
        for site in node.all("site"):
            self._site(full(site, inherited), name)
        return name

    def _weight(self, node: Node, inherited: str) -> tuple[list[Solid], list[Shape]]:
        """What a body weighs, by its `<inertial>` or by its geoms, and what it looks like."""
        solids = [s for g in node.all("geom") if (s := self.settings.solid(self.settings.full(g, inherited))) is not None]
        given, way = node.one("inertial"), self.settings.compiler.get("inertiafromgeom", "auto")
        shapes = [shape for s in solids for shape in s.shapes]
        if given is not None and way != "true":
            return [self.settings.inertial(given)], shapes
        return ([] if way == "false" else solids), shapes

    def _carried(self, node: Node, name: str, carrier: Carrier, shapes: list[Shape]) -> None:
        """A body that is a place on another one, or on the ground."""
        m, self.carriers[name] = self.mechanism, carrier
        body = m.get_body(carrier.body)
        moved = []
        for shape in shapes:
            at = carrier.place.then(Marker(*shape.place))
            moved.append(replace(shape, position=at.point, rotation=at.axes))
        whole = replace(body, shape=(*body.shape, *moved))
        if carrier.body == "ground":
            m.ground = whole  # type: ignore[assignment]  # replaced in kind
        else:
            m.bodies[carrier.body] = whole
        m.notes.append(f"the body {name!r} is a place on {carrier.body!r} (line {node.line})")

    def _join(self, node: Node, name: str, carrier: Carrier, place: Marker, several: Several) -> None:
        """The joint between a body and its parent."""
        m, body = self.mechanism, self.mechanism.get_body(self.carriers[name].body)
        called = importing.unique(m, several.name, "joint")
        near, far = several.offsets(node)
        before, after = carrier.place.then(place).then(several.frame).then(near), several.frame.then(far.inverse())
        if several.world:
            if carrier.body != "ground":
                node.refuse(f"a free joint belongs to a body of the world, not of {carrier.body!r}")
            before = HERE
        on_a = Marker(before.point - m.get_body(carrier.body).center, before.axes)
        on_b = Marker(after.point - body.center, after.axes)
        joint = m._place(several.kind, called, carrier.body, body.name, on_a, on_b, several.limits)
        for freedom, hinge in several.hinges:
            own = hinge.attributes.get("name", called)
            self.freedoms[own] = (called, freedom)
            label = called if len(joint.freedoms) == 1 else f"{called}_{freedom}"
            turns = next(f.turns for f in joint.freedoms if f.name == freedom)
            stiff, damping, dry = (hinge.number(key, 0.0) for key in ("stiffness", "damping", "frictionloss"))
            if stiff:
                rest = hinge.number("springref", 0.0)
                rest = self.settings.angle(rest) if turns else rest
                m.torsion_spring(
                    importing.unique(m, f"{label}_spring", "force"), called, stiffness=stiff, rest=rest, freedom=freedom
                )
            if damping or dry:
                m.friction(importing.unique(m, f"{label}_friction", "force"), called, viscous=damping, dry=dry, freedom=freedom)
            if rotor := hinge.number("armature", 0.0):
                m.rotor(importing.unique(m, f"{label}_rotor", "force"), called, inertia=rotor, freedom=freedom)

    def _site(self, node: Node, body: str) -> None:
        carrier = self.carriers[body]
        if "name" in node.attributes and carrier.body != "ground":
            point = carrier.place.point + carrier.place.axes @ node.numbers("pos", 3, ZERO)
            self.mechanism.sensor(importing.unique(self.mechanism, node.text("name"), "site"), carrier.body, on=point)

    # ---- what acts ---------------------------------------------------------------------------------------

    def _equal(self, node: Node) -> None:
        """An equality constraint: a joint that closes a loop, or a gear."""
        if node.attributes.get("active", "true") == "false":
            self._leave(node, serious=False)
        elif node.tag == "joint":
            self._gear(node)
        elif node.tag in ("connect", "weld") and "body1" in node.attributes:
            self._closed(node)
        else:
            self._leave(node, serious=True)

    def _closed(self, node: Node) -> None:
        m, ends = self.mechanism, [node.text("body1"), node.text("body2", "world")]
        for end in ends:
            if end not in self.carriers:
                node.refuse(f"there is no body {end!r}{suggest(end, self.carriers)}")
        if node.tag == "weld" and node.numbers("relpose", 7, (0.0, 1.0, *[0.0] * 5))[3:].any():
            node.refuse("relpose is not supported: draw the bodies where they are welded")
        key = "anchor"
        point = self.worlds[ends[0]].then(Marker(node.numbers(key, 3, None if node.tag == "connect" else ZERO), np.eye(3)))
        marks = []
        for end in ends:
            body = m.get_body(self.carriers[end].body)
            marks.append(Marker(body.inside(point.point), np.asarray(body.rotation.T @ point.axes)))
        kind = joints.Spherical if node.tag == "connect" else joints.Fixed
        name = importing.unique(m, node.attributes.get("name", f"{ends[0]}_{ends[1]}"), node.tag)
        m._place(kind, name, self.carriers[ends[0]].body, self.carriers[ends[1]].body, marks[0], marks[1])

    def _gear(self, node: Node) -> None:
        """`y - y0 = c0 + c1 (x - x0)`; without a second joint, `y - y0 = c0`."""
        first, c = self._freedom(node, "joint1"), node.numbers("polycoef", (1, 2, 3, 4, 5), (0.0, 1.0, 0.0, 0.0, 0.0))
        c = np.append(c, np.zeros(5 - len(c)))
        if c[0] or c[2:].any() or "joint2" not in node.attributes or not c[1]:
            node.refuse(f"only polycoef='0 c 0 0 0' between two joints is supported, a gear; it is {c.tolist()}")
        name = importing.unique(self.mechanism, node.attributes.get("name", f"{first[0]}_gear"), "gear")
        second = self._freedom(node, "joint2")
        self.mechanism.gear(name, first[0], second[0], ratio=float(c[1]), freedoms=(first[1], second[1]))

    def _freedom(self, node: Node, key: str) -> tuple[str, str]:
        name = node.text(key)
        if name not in self.freedoms:
            node.refuse(f"there is no joint {name!r} with one freedom{suggest(name, self.freedoms)}")
        return self.freedoms[name]

    def _actuator(self, node: Node) -> None:
        """A motor on a joint."""
        if node.tag != "motor" or "joint" not in node.attributes:
            self._leave(node, serious=True)
            return
        m, (joint, freedom) = self.mechanism, self._freedom(node, "joint")
        name = importing.unique(m, node.attributes.get("name", f"{joint}_motor"), "motor")
        m.motor(name, joint, freedom=freedom)
        gear = float(node.numbers("gear", (1, 2, 3, 4, 5, 6), (1.0,))[0])
        if gear != 1:
            m.notes.append(f"the input {name!r} is the force itself: MuJoCo's control times its gear, {gear:g}")

    # ---- what is left out --------------------------------------------------------------------------------

    def _leave(self, node: Node, serious: bool) -> None:
        self.left.setdefault(node.tag, []).append(node.line)
        if serious:
            self.serious.add(node.tag)

    def _noted(self) -> None:
        m = self.mechanism
        for node in self.root.children:
            if node.tag not in READ:
                self._leave(node, node.tag not in HARMLESS)
        for key in ("settotalmass", "balanceinertia", "boundmass", "boundinertia", "inertiagrouprange", "fusestatic"):
            if self.settings.compiler.get(key, "false") not in ("false", "0", "-1"):
                m.notes.append(f"the option {key} of <compiler> is left out")
                self.serious.add(f"compiler {key}")
        for node in self.root.all("option"):
            for key in set(node.attributes) & {"wind", "density", "viscosity", "magnetic"}:
                self.serious.add(f"option {key}")
                m.notes.append(f"the {key} of <option> is left out (line {node.line})")
        for tag, lines in self.left.items():
            shown = ", ".join(map(str, lines[:8])) + (", ..." if len(lines) > 8 else "")
            m.notes.append(f"<{tag}> is left out (line{'s' if len(lines) > 1 else ''} {shown})")
        m.notes.append("bodies do not touch: contact is left out")
        m.notes += self.settings.meshes.notes()
        if self.serious:
            said = ", ".join(sorted(self.serious))
            warnings.warn(f"{self.root.source}: left out, which changes the motion: {said}", DalembertWarning, stacklevel=4)
