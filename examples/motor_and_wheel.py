"""
Join a motor and a wheel
========================

Two port-Hamiltonian systems on one shaft. The whole is port-Hamiltonian again, and its power balance closes in every step: what
the voltage supplies is stored, or lost in the winding and the bearings.
"""

import numpy as np

import dalembert as da
from dalembert import plotting

motor = da.catalog.dc_motor()
wheel = da.PortHamiltonian(
    ("L",), hamiltonian=lambda x: x[0] ** 2 / 0.02, R=[[0.002]], B=[[1.0]], ports=("torque",), initial={"x": [0.0]}
)
drive = da.connect({"motor": motor, "wheel": wheel}, [da.Couple({"motor.torque": 1, "wheel.torque": -1})])
print(drive, da.diagnose(drive).index)
voltage = ([0.0, 1.5], [12.0, 0.0])  # volts from each of these times on
sol = da.simulate(drive, "discrete-gradient", t_end=3.0, step=0.002, u={"motor_voltage": voltage})
print(sol)
print(f"largest residual of the balance in a step: {np.abs(sol.power_balance).max():.1e}")
plotting.ledger(sol).figure.savefig("motor_and_wheel.png")
