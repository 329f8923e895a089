"""
Slider-crank
============

An engine of three bodies: a crank with a flywheel, a connecting rod, a piston against a damper, driven by a torque. Seven
coordinates, six constraints, a picture with bodies, units on the axes, and a ledger of the energy.
"""

import numpy as np

import dalembert as da
from dalembert.systems import SI

crank, rod = 0.15, 0.4  # lengths


def joints(q):
    """Crank pin, both ends of the rod, and the guide of the piston."""
    angle, x, y, tilt, slide, rise, turn = q
    half = rod / 2
    return [
        x - half * np.cos(tilt) - crank * np.cos(angle),  # the rod begins at the pin
        y - half * np.sin(tilt) - crank * np.sin(angle),
        x + half * np.cos(tilt) - slide,  # and ends at the piston
        y + half * np.sin(tilt) - rise,
        rise,  # which neither rises
        turn,  # nor turns
    ]


def points(q):
    pin = [crank * np.cos(q[0]), crank * np.sin(q[0])]
    box = [[q[4] + a, q[5] + b] for a, b in ((-0.06, -0.05), (0.06, -0.05), (0.06, 0.05), (-0.06, 0.05))]
    return [[0.0, 0.0], pin, [q[4], q[5]], *box]


engine = da.Mechanical(
    ("angle", "x", "y", "tilt", "slide", "rise", "turn"),
    mass=lambda wheel, m, piston: [wheel, m, m, m * rod**2 / 12, piston, piston, 1e-3],
    holonomic=joints,
    dissipation=lambda c: [0, 0, 0, 0, c, 0, 0],
    inputs=[[1], [0], [0], [0], [0], [0], [0]],
    parameters={"wheel": 0.02, "m": 0.5, "piston": 0.8, "c": 3.0},
    picture=da.Picture(
        points, links=((0, 1), (1, 2)), bodies=((3, 4, 5, 6),), masses=(0, 1, 2), trails=(1,), units=SI | {"angle": "rad"}
    ),
    name="slider-crank",
)
start = da.consistent(engine, q=[0.5, 0.3, 0.03, -0.2, 0.5, 0.0, 0.0], v=[20.0, 0, 0, 0, 0, 0, 0])
sol = da.simulate(engine, "energy-momentum-ggl", **start, t_end=4.0, step=0.001, u=[1.5])
print(sol)
sol.plot("slider_crank.png")
sol.animate("slider_crank.gif", seconds=4.0, fps=15)
