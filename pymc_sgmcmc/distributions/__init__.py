"""Distributions on manifolds for PyMC: unit vectors and orthonormal matrices.

Values are in the coordinates of the space around the manifold, densities are with respect to its
surface, and there is no transform. The samplers that stay on manifolds are SGGMC, gSGNHT and GMC.
"""

from pymc_sgmcmc.compile.backend import NUMBA_CODE
from pymc_sgmcmc.distributions.embedded import OffManifoldError
from pymc_sgmcmc.distributions.root_dirichlet import RootDirichlet, RootDirichletRV
from pymc_sgmcmc.distributions.uniform_sphere import UniformSphere, UniformSphereRV
from pymc_sgmcmc.distributions.uniform_stiefel import UniformStiefel, UniformStiefelRV
from pymc_sgmcmc.distributions.von_mises_fisher import VonMisesFisher, VonMisesFisherRV

__all__ = [
    "OffManifoldError",
    "RootDirichlet",
    "RootDirichletRV",
    "UniformSphere",
    "UniformSphereRV",
    "UniformStiefel",
    "UniformStiefelRV",
    "VonMisesFisher",
    "VonMisesFisherRV",
]

NUMBA_CODE.append("pymc_sgmcmc.distributions.numba_code")
