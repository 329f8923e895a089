"""Trees of bodies for tests: random ones, with joints of any kind, in both directions."""

import casadi as ca
import numpy as np
from scipy.spatial.transform import Rotation

import dalembert as da
from dalembert.mechanisms import joints
from dalembert.mechanisms.frames import Frame, Marker, numbers


def inertia(rng):
    """An inertia that a body can have, in any axes."""
    points = rng.normal(size=(6, 3)) * rng.uniform(0.1, 0.5, size=3)
    return sum((p @ p) * np.eye(3) - np.outer(p, p) for p in points) + 0.01 * np.eye(3)


def marker(rng):
    return Marker(rng.normal(size=3), Rotation.random(rng=rng).as_matrix())


def place(m, joint, child, values):
    """Put a body where the joint to its parent has these values."""
    if isinstance(joint, joints.Screw):
        values[0] = joint.lead * values[1] / (2 * np.pi)
    B = joint.moved(Frame.fixed(np.zeros(3), np.eye(3)), ca.SX(ca.DM(values)))
    motion = Marker(*numbers(B)).inverse() if child == joint.a else Marker(*numbers(B))
    near, far = (joint.on_b, joint.on_a) if child == joint.a else (joint.on_a, joint.on_b)
    parent = m.get_body(joint.b if child == joint.a else joint.a)
    at = Marker(parent.position, parent.rotation).then(near).then(motion).then(far.inverse())
    m.bodies[child] = m.bodies[child].at(at.point, at.axes)


def random_tree(rng, kinds, count=6, branching=0.4, reverse=0.0):
    """A mechanism whose bodies hang on one another by joints at places that nothing is special about."""
    m = da.Mechanism(name="tree", gravity=rng.normal(size=3) * 5)
    path = ["ground"]  # branches one after another: Pinocchio wants its joints in this order
    for i in range(count):
        kind = kinds[rng.integers(len(kinds))]
        if rng.uniform() < branching:
            del path[rng.integers(len(path)) + 1 :]
        parent, name = path[-1], f"body{i}"
        m.body(name, mass=rng.uniform(0.5, 3), inertia=inertia(rng))
        ends, places = (parent, name), [marker(rng), marker(rng)]
        if rng.uniform() < reverse:
            ends, places = ends[::-1], places[::-1]
        more = {"lead": 0.7} if kind is joints.Screw else {}
        joint = m._place(kind, f"joint{i}", *ends, *places, None, **more)
        place(m, joint, name, rng.uniform(-1, 1, size=len(joint.freedoms)))
        path.append(name)
    return m
