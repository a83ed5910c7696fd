"""Distribution of unit vectors whose squares are Dirichlet."""

from math import log
from typing import Any, ClassVar, final

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.tensor.random.op import RandomVariable

from pymc_sgmcmc._utils.arguments import check_given
from pymc_sgmcmc._utils.graph_arguments import GRAPH, SHAPE
from pymc_sgmcmc.distributions.embedded import Embedded, on_sphere
from pymc_sgmcmc.distributions.manifolds import SPHERE

__all__ = ["RootDirichlet", "RootDirichletRV"]


@final
class RootDirichletRV(RandomVariable):
    """Random variable of unit vectors with Dirichlet squares and random signs."""

    name = "root_dirichlet"
    signature = "(d)->(d)"
    dtype = "floatX"
    _print_name = ("RootDirichlet", "\\operatorname{RootDirichlet}")
    manifold = SPHERE

    @classmethod
    def rng_fn(cls, rng, alpha, size):
        alpha = np.asarray(alpha, dtype=float)
        if not np.all(alpha > 0):
            raise ValueError(f"alpha={alpha!r} of RootDirichlet must be positive.")
        shape = alpha.shape if size is None else (*size, alpha.shape[-1])
        # Draw the logarithm of a Gamma(alpha), because the number underflows for small alpha.
        log_gamma = np.log(rng.standard_gamma(alpha + 1, shape))
        log_gamma -= rng.standard_exponential(shape) / alpha
        root = np.exp((log_gamma - log_gamma.max(axis=-1, keepdims=True)) / 2)
        return SPHERE.nearest(np.where(rng.random(shape) < 0.5, -root, root))


@final
class RootDirichlet(Embedded):
    r"""Unit vectors x whose squares are Dirichlet(alpha), with random signs.

    Square roots map the Dirichlet distribution from the simplex to the sphere, which has no corners
    or borders that a sampler could cross. The density with respect to the surface of the sphere
    is::

        p(x) = Gamma(sum alpha) / (2 prod Gamma(alpha_i)) prod |x_i|^(2 alpha_i - 1),   |x| = 1

    The distribution is uniform if all alpha_i = 1/2. In a model use ``x**2``, a probability vector.
    At x_i = 0 the density has a pole if alpha_i < 1/2, and a zero if alpha_i > 1/2. The gradient is
    not bounded there. A sampler with a finite step size may jump across, which changes the sign of
    x_i but not ``x**2``.

    Parameters
    ----------
    name : str
    alpha : array of shape (..., d)
        Positive parameters; d >= 2.
    shape, dims, observed
        Arguments of any PyMC distribution; the axes are (..., d).
    **kwargs
        Other arguments of any PyMC distribution.

    Raises
    ------
    ValueError
        If alpha is a scalar, d < 2, or shape does not fit.
    ParameterValueError
        By logp, if an alpha is not positive.
    OffManifoldError
        By logp, if a value is more than 1e-4 away from the sphere, for instance under NUTS.

    References
    ----------
    Byrne, S. and Girolami, M. (2013). Geodesic Monte Carlo on embedded manifolds. Scandinavian
    Journal of Statistics, section 4.1.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc.distributions import RootDirichlet
    >>> with pm.Model():
    ...     x = RootDirichlet("x", alpha=np.ones(4))
    ...     words = pm.Multinomial("words", n=20, p=x**2, observed=[3, 5, 2, 10])
    """

    rv_op = RootDirichletRV()
    arguments: ClassVar = {"alpha": GRAPH, "shape": SHAPE}

    @classmethod
    def dist(cls, alpha: Any, *, shape: Any = None, **kwargs):
        check_given(cls, alpha=alpha, shape=shape)
        return super().dist([cls.vector("alpha", alpha, shape)], shape=shape, **kwargs)

    def support_point(rv, size, alpha):
        point = pt.sqrt(alpha / pt.sum(alpha, axis=-1, keepdims=True))
        if not rv_size_is_none(size):
            point = pt.broadcast_to(point, pt.concatenate([size, [alpha.shape[-1]]]))
        return point

    def logp(value, alpha):
        power = 2 * alpha - 1
        # A power of 0 contributes a factor of 1, also at x = 0.
        log_powers = pt.switch(pt.eq(power, 0), 0.0, power * pt.log(pt.abs(value)))
        log_density = pt.sum(log_powers - pt.gammaln(alpha), axis=-1)
        log_density += pt.gammaln(pt.sum(alpha, axis=-1)) - log(2)
        checked = check_parameters(log_density, alpha > 0, msg="alpha > 0")
        return on_sphere(checked, value, "RootDirichlet")
