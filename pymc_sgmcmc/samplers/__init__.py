"""The samplers, one file each."""

from pymc_sgmcmc.samplers.amagold import AMAGOLD
from pymc_sgmcmc.samplers.gmc import GMC
from pymc_sgmcmc.samplers.gsgnht import gSGNHT
from pymc_sgmcmc.samplers.mala import MALA
from pymc_sgmcmc.samplers.psghmc import PSGHMC
from pymc_sgmcmc.samplers.psgld import PSGLD
from pymc_sgmcmc.samplers.recipe import Recipe
from pymc_sgmcmc.samplers.santa import Santa
from pymc_sgmcmc.samplers.sgd import SGD
from pymc_sgmcmc.samplers.sgfs import SGFS
from pymc_sgmcmc.samplers.sggmc import SGGMC
from pymc_sgmcmc.samplers.sghmc import SGHMC
from pymc_sgmcmc.samplers.sgld import SGLD
from pymc_sgmcmc.samplers.sgnht import SGNHT
from pymc_sgmcmc.samplers.sgrhmc import SGRHMC
from pymc_sgmcmc.samplers.sgrld import SGRLD

__all__ = [
    "AMAGOLD",
    "GMC",
    "MALA",
    "PSGHMC",
    "PSGLD",
    "SGD",
    "SGFS",
    "SGGMC",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "SGRHMC",
    "SGRLD",
    "Recipe",
    "Santa",
    "gSGNHT",
]
