"""A six-axis arm from a URDF file: microseconds of a step, beside MuJoCo and Exudyn in one run: `python benchmarks/arm.py`.

Steps of a millisecond from the same pose, without friction and motors, in seconds of the processor, each the best of several.
Joint coordinates are ours and MuJoCo's; Exudyn has rigid bodies with hinges. The energy column says what a step is worth: how
far the energy of a free motion goes away from its start, in one second. Read the ratios, not the microseconds.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import dalembert as da

ARM = Path(__file__).parent.parent / "tests" / "mechanisms" / "data" / "arm.urdf"
H, STEPS = 1e-3, 20_000
START = np.array([0.1, -1.0, 0.8, 0.3, 0.2, 0.1])
console = Console(width=120)


def best(run, times: int = 3) -> float:
    """CPU seconds of the fastest of several runs."""
    out = np.inf
    for _ in range(times):
        begun = time.process_time()
        run()
        out = min(out, time.process_time() - begun)
    return out


def arm(pose: bool = False) -> da.Mechanism:
    m = da.read_urdf(ARM, motors=False)
    if pose:
        m = da.read_urdf(ARM, motors=False, pose=dict(zip(m.joints, START, strict=True)))
    for name in list(m.forces):
        m.forces.pop(name)
    return m


def ours(method: str) -> tuple[float, float]:
    system = arm().assemble(coordinates="joint")

    def run(t_end: float, save_every: int) -> da.Solution:
        return da.simulate(system, method, q=START, v=np.zeros(6), t_end=t_end, step=H, save_every=save_every, compile=True)

    energy = run(1.0, 1).energy
    return best(lambda: run(STEPS * H, 1000)) / STEPS, float(np.abs(energy - energy[0]).max())


def mujoco(integrator: str) -> tuple[float, float] | None:
    try:
        import mujoco as mj
    except ImportError:
        return None
    model = mj.MjModel.from_xml_path(str(ARM))
    off = mj.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_FRICTIONLOSS
    model.opt.integrator, model.opt.timestep = getattr(mj.mjtIntegrator, f"mjINT_{integrator}"), H
    model.dof_damping[:] = 0
    data = mj.MjData(model)
    data.qpos[:] = START
    model.opt.enableflags |= mj.mjtEnableBit.mjENBL_ENERGY
    mj.mj_forward(model, data)
    first, worst = data.energy.sum(), 0.0
    for _ in range(round(1 / H)):
        mj.mj_step(model, data)
        worst = max(worst, abs(data.energy.sum() - first))
    model.opt.enableflags &= ~int(mj.mjtEnableBit.mjENBL_ENERGY)
    return best(lambda: mj.mj_step(model, data, nstep=STEPS)) / STEPS, float(worst)


def exudyn() -> tuple[float, float] | None:
    try:
        import exudyn as exu
        from exudyn.utilities import RigidBodyInertia
    except ImportError:
        return None
    m, container = arm(pose=True), exu.SystemContainer()
    mbs = container.AddSystem()
    numbers = {"ground": mbs.CreateGround()}
    for name, body in m.bodies.items():
        inertia = RigidBodyInertia(mass=body.mass, com=[0, 0, 0], inertiaTensor=body.inertia)
        numbers[name] = mbs.CreateRigidBody(
            inertia=inertia, referencePosition=list(body.position), referenceRotationMatrix=body.rotation, gravity=list(m.gravity)
        )
    for joint in m.joints.values():
        b = m.get_body(joint.b)
        mbs.CreateRevoluteJoint(
            itemNumbers=[numbers[joint.a], numbers[joint.b]], position=list(b.world(joint.on_b.point)),
            axis=list(b.rotation @ joint.on_b.axes[:, 2]), useGlobalFrame=True,
        )  # fmt: skip
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.verboseMode = 0
    settings.solution.file.write = False
    settings.linearSolver.solverType = exu.LinearSolverType.EXUdense

    def run(steps: int) -> None:
        settings.timeIntegration.endTime, settings.timeIntegration.numberOfSteps = steps * H, steps
        mbs.SolveDynamic(settings)

    few = best(lambda: run(10), 2)
    return (best(lambda: run(1010), 2) - few) / 1000, float("nan")


if __name__ == "__main__":
    out = Table("program", "method", "us a step", "energy error, J", title="a six-axis arm, steps of 1 ms")
    for method in ("rattle", "midpoint", "gauss-2"):
        step, error = ours(method)
        out.add_row("dalembert, joint coordinates", method, f"{step * 1e6:.2f}", f"{error:.1e}")
    for name in ("EULER", "IMPLICITFAST", "RK4"):
        found = mujoco(name)
        cells = ("not installed", "") if found is None else (f"{found[0] * 1e6:.2f}", f"{found[1]:.1e}")
        out.add_row("MuJoCo", name.lower(), *cells)
    found = exudyn()
    out.add_row("Exudyn, rigid bodies", "generalized alpha", "not installed" if found is None else f"{found[0] * 1e6:.2f}", "")
    console.print(out)
