"""What moves: systems made of functions, energies and constraints."""

from dalembert.systems.base import System
from dalembert.systems.connect import Couple, Feedback, Relation, connect
from dalembert.systems.dae import IndexOneDAE, IndexThreeDAE, IndexTwoDAE
from dalembert.systems.dirac import DiracStructure
from dalembert.systems.elements import Element
from dalembert.systems.form import Form
from dalembert.systems.hamiltonian import Hamiltonian
from dalembert.systems.lagrangian import Lagrangian
from dalembert.systems.linear_dae import LinearDAE
from dalembert.systems.lookup import Lookup, table
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.needs import Need
from dalembert.systems.ode import ODE, ImplicitDAE
from dalembert.systems.picture import SI, Picture
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.solids import Solid
from dalembert.systems.sympy_models import from_sympy
from dalembert.systems.tracing import unpack

__all__ = [
    "ODE",
    "SI",
    "Couple",
    "DiracStructure",
    "Element",
    "Feedback",
    "Form",
    "Hamiltonian",
    "ImplicitDAE",
    "IndexOneDAE",
    "IndexThreeDAE",
    "IndexTwoDAE",
    "Lagrangian",
    "LinearDAE",
    "Lookup",
    "Mechanical",
    "Need",
    "Picture",
    "PortHamiltonian",
    "Relation",
    "Solid",
    "System",
    "connect",
    "from_sympy",
    "table",
    "unpack",
]
