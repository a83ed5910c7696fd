"""Von Mises-Fisher distribution of unit vectors."""

from math import log, pi
from typing import Any, ClassVar, final

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.tensor.random.op import RandomVariable

from pymc_sgmcmc._utils.arguments import check_given
from pymc_sgmcmc._utils.graph_arguments import GRAPH, SHAPE
from pymc_sgmcmc.distributions.bessel import log_bessel
from pymc_sgmcmc.distributions.embedded import Embedded, on_sphere
from pymc_sgmcmc.distributions.manifolds import SPHERE

__all__ = ["VonMisesFisher", "VonMisesFisherRV"]


@final
class VonMisesFisherRV(RandomVariable):
    """Random variable with draws by the rejection sampler of Wood (1994)."""

    name = "von_mises_fisher"
    signature = "(d),()->(d)"
    dtype = "floatX"
    _print_name = ("VonMisesFisher", "\\operatorname{VonMisesFisher}")
    manifold = SPHERE

    @classmethod
    def rng_fn(cls, rng, mu, kappa, size):
        mu, kappa = np.asarray(mu, dtype=float), np.asarray(kappa, dtype=float)
        if not (np.all(kappa >= 0) and np.all(np.isfinite(kappa))):
            raise ValueError(f"kappa={kappa!r} of VonMisesFisher must be finite and at least 0.")
        if not np.all(np.abs(np.linalg.norm(mu, axis=-1) - 1) <= 1e-3):
            raise ValueError(f"mu={mu!r} of VonMisesFisher must be unit vectors.")
        batch = np.broadcast_shapes(mu.shape[:-1], kappa.shape) if size is None else size
        mu = np.broadcast_to(SPHERE.nearest(mu), (*batch, mu.shape[-1]))
        below, above = _gaps(rng, mu.shape[-1], np.broadcast_to(kappa, batch))
        tangent = rng.standard_normal(mu.shape)
        for _ in range(2):  # the second pass removes rounding errors
            tangent -= np.sum(mu * tangent, axis=-1, keepdims=True) * mu
        along, across = (above - below) / 2, np.sqrt(below * above)
        return along[..., None] * mu + across[..., None] * SPHERE.nearest(tangent)


def _gaps(rng: np.random.Generator, d: int, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw 1 - w and 1 + w for the cosines w = mu.x, without loss of digits near zero.

    Wood's proposal is w = (1 - (1 + b) z) / (1 - (1 - b) z) with z = g1 / (g1 + g2) from a
    Beta((d - 1) / 2, (d - 1) / 2), a ratio of Gammas. Wood's b solves
    4 kappa b = (d - 1) (1 - b^2). The acceptance probability at this b is
    exp((d - 1) (log(1 + y) - y)), with the y below.
    """
    shape, kappa = kappa.shape, kappa.ravel()
    root = np.hypot(2 * kappa, d - 1)
    b = (d - 1) / (2 * kappa + root)
    one_minus_b = (2 * kappa + 4 * kappa**2 / (root + d - 1)) / (2 * kappa + root)
    below, above = np.empty_like(kappa), np.empty_like(kappa)
    left = np.arange(kappa.size)
    while left.size:
        g1, g2 = rng.standard_gamma((d - 1) / 2, (2, left.size))
        mixed = g2 + b[left] * g1
        y = one_minus_b[left] * (g1 - g2) / (2 * mixed)
        accepted = -rng.standard_exponential(left.size) <= (d - 1) * (np.log1p(y) - y)
        below[left] = 2 * b[left] * g1 / mixed
        above[left] = 2 * g2 / mixed
        left = left[~accepted]
    return below.reshape(shape), above.reshape(shape)


@final
class VonMisesFisher(Embedded):
    r"""The von Mises-Fisher distribution on the unit sphere of R^d.

    The density with respect to the surface of the sphere, with the modified Bessel function I, is::

        p(x) = C_d(kappa) exp(kappa mu.x),   |x| = 1
        C_d(kappa) = kappa^(d/2-1) / ((2 pi)^(d/2) I_{d/2-1}(kappa))

    The moments are E[mu.x] = A = I_{d/2}(kappa) / I_{d/2-1}(kappa) and
    Var[mu.x] = 1 - A^2 - (d - 1) A / kappa. With kappa = 0 the distribution is uniform. The error
    of log C and its derivatives is below 1e-12 for kappa from 0 to 1e5 and d from 2 to 5000. Values
    are unit vectors along the last axis.

    Parameters
    ----------
    name : str
    mu : array of shape (..., d)
        Mean direction, d >= 2: vectors of length 1 within 1e-6, or 1e-3 in float32.
    kappa : array of shape (...)
        Concentration, at least 0.
    shape, dims, observed
        Arguments of any PyMC distribution; the axes are (..., d).
    **kwargs
        Other arguments of any PyMC distribution.

    Raises
    ------
    ValueError
        If mu is a scalar, d < 2, or shape does not fit.
    ParameterValueError
        By logp, if kappa is negative or mu is not a unit vector.
    OffManifoldError
        By logp, if a value is more than 1e-4 away from the sphere, for instance under NUTS.

    References
    ----------
    - Mardia, K. V. and Jupp, P. E. (2000). Directional Statistics, section 9.3.2. Wiley.
    - Wood, A. T. A. (1994). Simulation of the von Mises Fisher distribution. Communications in
      Statistics - Simulation and Computation.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc.distributions import UniformSphere, VonMisesFisher
    >>> rows = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.8, 0.0, 0.6]])
    >>> with pm.Model():
    ...     mu = UniformSphere("mu", shape=3)
    ...     kappa = pm.HalfNormal("kappa", 10)
    ...     x = VonMisesFisher("x", mu, kappa, observed=rows)
    """

    rv_op = VonMisesFisherRV()
    arguments: ClassVar = {"mu": GRAPH, "kappa": GRAPH, "shape": SHAPE}

    @classmethod
    def dist(cls, mu: Any, kappa: Any, *, shape: Any = None, **kwargs):
        check_given(cls, mu=mu, kappa=kappa, shape=shape)
        mu = cls.vector("mu", mu, shape)
        kappa = pt.as_tensor_variable(kappa).astype(pytensor.config.floatX)
        return super().dist([mu, kappa], shape=shape, **kwargs)

    def support_point(rv, size, mu, kappa):
        point, _ = pt.broadcast_arrays(mu, kappa[..., None])
        if not rv_size_is_none(size):
            point = pt.broadcast_to(point, pt.concatenate([size, [mu.shape[-1]]]))
        return point

    def logp(value, mu, kappa):
        length = mu.type.shape[-1] or value.type.shape[-1]
        d = pt.as_tensor_variable(length or value.shape[-1]).astype(kappa.dtype)
        log_c = -d * (log(2 * pi) / 2) - log_bessel(d / 2 - 1, kappa)
        if value.type.ndim <= 2 and all(mu.type.broadcastable[:-1]):
            cosine = pt.dot(value, mu.reshape((-1,)))  # one product for all rows
        else:
            cosine = pt.sum(mu * value, axis=-1)
        gap = pt.abs(pt.sqrt(pt.sum(mu**2, axis=-1)) - 1)
        log_density = check_parameters(
            kappa * cosine + log_c,
            kappa >= 0,
            gap <= (1e-6 if mu.type.dtype == "float64" else 1e-3),
            d >= 2,
            msg="kappa >= 0, |mu| = 1, d >= 2",
        )
        return on_sphere(log_density, value, "VonMisesFisher")
