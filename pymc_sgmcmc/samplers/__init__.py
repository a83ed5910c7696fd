"""The samplers, one file each."""

from pymc_sgmcmc.samplers.santa import Santa
from pymc_sgmcmc.samplers.sghmc import SGHMC
from pymc_sgmcmc.samplers.sgld import SGLD
from pymc_sgmcmc.samplers.sgnht import SGNHT

__all__ = ["SGHMC", "SGLD", "SGNHT", "Santa"]
