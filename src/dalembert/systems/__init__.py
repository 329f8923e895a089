"""What moves: systems made of functions, energies and constraints."""

from dalembert.systems.base import Picture, System
from dalembert.systems.dae import IndexOneDAE, IndexThreeDAE, IndexTwoDAE
from dalembert.systems.mechanical import Hamiltonian, Mechanical
from dalembert.systems.tracing import unpack

__all__ = ["Hamiltonian", "IndexOneDAE", "IndexThreeDAE", "IndexTwoDAE", "Mechanical", "Picture", "System", "unpack"]
