"""What moves: systems made of functions, energies and constraints."""

from dalembert.systems.base import Picture, System
from dalembert.systems.connect import Couple, Feedback, Relation, connect
from dalembert.systems.dae import IndexOneDAE, IndexThreeDAE, IndexTwoDAE
from dalembert.systems.dirac import DiracStructure
from dalembert.systems.mechanical import Hamiltonian, Mechanical
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.tracing import unpack

__all__ = [
    "Couple",
    "DiracStructure",
    "Feedback",
    "Hamiltonian",
    "IndexOneDAE",
    "IndexThreeDAE",
    "IndexTwoDAE",
    "Mechanical",
    "Picture",
    "PortHamiltonian",
    "Relation",
    "System",
    "connect",
    "unpack",
]
