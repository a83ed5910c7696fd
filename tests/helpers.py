"""Independent NumPy versions of the updates, their exact laws on Gaussians, and shared checks."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pymc as pm
from pytensor.compile.mode import Mode
from scipy.optimize import brentq
from scipy.special import gammaln

from pymc_sgmcmc import Polynomial
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import identity
from pymc_sgmcmc.chain.at_rest import draw_rows
from pymc_sgmcmc.chain.kernel import Kernel
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.in_python import MULTIPLIED_OUT
from pymc_sgmcmc.dynamics.noise_rules import Heating
from pymc_sgmcmc.posterior.batch_sources import Random
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.tuning.choice import Choice
from pymc_sgmcmc.tuning.tuned import Plan
from pymc_sgmcmc.tuning.tuner import Tuner

PYTHON = Mode(linker="py", optimizer="fast_compile").excluding(*MULTIPLIED_OUT)
AS_WRITTEN = Mode(linker="py", optimizer=None)
"""Without rewrites, which take most of the time: for the other side of a comparison."""
INTERPRETED = Backend(compile_kwargs={"mode": PYTHON})
"""Nothing is compiled: for the other side of a comparison, and for what is called seldom."""
PLAIN = {"compile_kwargs": {"mode": PYTHON}}
"""Arguments of a step method whose kernel is interpreted."""

STEP_AND_METRIC = Plan(
    step_size=True, batch_size=False, metric=True, noise=False, gradient="plain",
    tolerance=0.05,
)  # fmt: skip


def simple_tuner(target, plan=STEP_AND_METRIC, **kwargs):
    """A tuner of an algorithm whose bias is h^2, and which is stable up to h = 2."""
    algorithm = SimpleNamespace(
        step_bias=lambda h, curvature: h**2,
        absorbs_noise=True,
        injected_noise=lambda: 1.0,
        longest_step=lambda curvature: 2.0,
        noise_rule=lambda room, count: Heating(room),
    )
    source = Random(target.groups, target.batch_sizes)
    return Tuner(Choice(target, source, plan, algorithm, 10), **kwargs)


# One inner step in NumPy: (q, p, xi, grad, h, z, c) -> (q, p, xi, momenta). `c` holds the numbers
# of the papers: C friction, B noise estimate, A diffusion, T temperature, Q thermal mass; and for
# Santa N rows, decay, damping, whether the noise follows the metric, and v, which the update moves.
# `momenta` are those whose p.p / d the thermostat and the kinetic temperature read.


def sgld(q, p, xi, grad, h, z, c):
    return q - h * grad(q) + np.sqrt(2 * h * c.T) * z, 0 * p, xi, []


def sgd(q, p, xi, grad, h, z, c):
    return q - h * grad(q), 0 * p, xi, []


def sgfs(q, p, xi, grad, h, z, c):
    return q - h * grad(q) + np.sqrt(2 * h * (c.T * (1 - h / 2) - c.B)) * z, 0 * p, xi, []


def sghmc_euler(q, p, xi, grad, h, z, c):
    spread = np.sqrt(2 * (c.C * c.T - c.B) * h)
    p = (1 - h * c.C) * p - h * grad(q) + spread * z
    return q + h * p, p, xi, [p]


def sghmc_symmetric(q, p, xi, grad, h, z, c):
    middle = q + p * h / 2
    half = np.exp(-c.C * h / 2)
    kicked = half * p - h * grad(middle) + np.sqrt(2 * (c.C * c.T - c.B) * h) * z
    p = half * kicked
    return middle + p * h / 2, p, xi, [p]


def sghmc_baoab(q, p, xi, grad, h, z, c):
    kicked = p - h * grad(q)
    variance = (c.T - c.B / c.C) * (1 - np.exp(-2 * c.C * h))
    p = np.exp(-c.C * h) * kicked + np.sqrt(variance) * z
    return q + h / 2 * (kicked + p), p, xi, [kicked, p]


def _cool(p, friction, diffusion, h, z):
    """Ornstein-Uhlenbeck over a time h."""
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.where(friction == 0, 2 * h, -np.expm1(-2 * friction * h) / friction)
    return np.exp(-friction * h) * p + np.sqrt(width * diffusion) * z


def _fly(q, p, friction, diffusion, h, z):
    """The same with a drift, by quadrature over the time that is left."""
    friction = np.asarray(friction, float)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    left = h * (nodes + 1) / 2
    decay = np.exp(-np.multiply.outer(friction, left))
    inner = left[:, None] * (nodes + 1) / 2
    path = np.exp(-np.multiply.outer(friction, inner)) @ weights * left / 2

    def over(value):
        return value @ weights * h / 2

    of_p, both, of_q = (2 * diffusion * over(f) for f in (decay**2, decay * path, path**2))
    noise = np.sqrt(of_p) * z[0]
    rest = np.sqrt(of_q - both**2 / of_p)
    q = q + over(decay) * p + both / of_p * noise + rest * z[1]
    return q, np.exp(-friction * h) * p + noise


def sghmc_obabo(q, p, xi, grad, h, z, c):
    """From drift to drift."""
    g = grad(q)
    before = p - h / 2 * g
    after = _cool(before, c.C, c.C * c.T - c.B, h, z)
    p = after - h / 2 * g
    return q + h * p, p, xi, [before, after]


def sghmc_aboba(q, p, xi, grad, h, z, c):
    middle = q + h / 2 * p
    g = grad(middle)
    before = p - h / 2 * g
    after = _cool(before, c.C, c.C * c.T - c.B, h, z)
    p = after - h / 2 * g
    return middle + h / 2 * p, p, xi, [before, after]


def sghmc_ubu(q, p, xi, grad, h, z, c):
    q, p = _fly(q, p, c.C, c.C * c.T - c.B, h / 2, z[:2])
    q, p = _fly(q, p - h * grad(q), c.C, c.C * c.T - c.B, h / 2, z[2:])
    return q, p, xi, [p]


def _heat(xi, p, c):
    """(p^2 - T) / Q, averaged over coordinates for a scalar thermostat."""
    excess = (np.square(p) - c.T) / c.Q
    return excess if np.ndim(xi) else excess.mean()


def sgnht_euler(q, p, xi, grad, h, z, c):
    p = (1 - h * xi) * p - h * grad(q) + np.sqrt(2 * c.A * c.T * h) * z
    return q + h * p, p, xi + h * _heat(xi, p, c), [p]


def sgnht_symmetric(q, p, xi, grad, h, z, c):
    middle = q + p * h / 2
    xi = xi + _heat(xi, p, c) * h / 2
    half = np.exp(-xi * h / 2)
    p = half * (half * p - h * grad(middle) + np.sqrt(2 * c.A * c.T * h) * z)
    return middle + p * h / 2, p, xi + _heat(xi, p, c) * h / 2, [p]


def sgnht_badodab(q, p, xi, grad, h, z, c):
    kicked = p - h * grad(q)
    xi = xi + _heat(xi, kicked, c) * h / 2
    p = _cool(kicked, xi, c.A * c.T, h, z)
    return q + h / 2 * (kicked + p), p, xi + _heat(xi, p, c) * h / 2, [kicked, p]


def _sgnht_inside(p, xi, g, h, z, c):
    """BDODB."""
    before = p - h / 2 * g
    xi = xi + _heat(xi, before, c) * h / 2
    after = _cool(before, xi, c.A * c.T, h, z)
    xi = xi + _heat(xi, after, c) * h / 2
    return after - h / 2 * g, xi, [before, after]


def sgnht_abdodba(q, p, xi, grad, h, z, c):
    middle = q + h / 2 * p
    p, xi, momenta = _sgnht_inside(p, xi, grad(middle), h, z, c)
    return middle + h / 2 * p, p, xi, momenta


def sgnht_odbabdo(q, p, xi, grad, h, z, c):
    """From drift to drift."""
    p, xi, momenta = _sgnht_inside(p, xi, grad(q), h, z, c)
    return q + h * p, p, xi, momenta


def sgnht_dubud(q, p, xi, grad, h, z, c):
    xi = xi + _heat(xi, p, c) * h
    q, p = _fly(q, p, xi, c.A * c.T, h / 2, z[:2])
    q, p = _fly(q, p - h * grad(q), xi, c.A * c.T, h / 2, z[2:])
    return q, p, xi, [p]


def psgld(q, p, xi, grad, h, z, c):
    g = grad(q)
    c.v = c.decay * c.v + (1 - c.decay) * (g / c.N) ** 2
    G = 1 / (c.damping + c.v**0.5)
    return q - h * G * g + np.sqrt(2 * h * c.T * G) * z, 0 * p, xi, []


def psghmc(q, p, xi, grad, h, z, c):
    """With B = h g^2 V / 2, V = N^2 v, where `metric` says so."""
    M = (c.damping + c.v**0.5) ** -0.5
    f = grad(q)
    kicked = p - h * M * f
    noise = h / 2 * (M * c.N) ** 2 * c.v if c.metric else 0.0
    variance = np.maximum(c.T - noise / c.C, 0) * (1 - np.exp(-2 * c.C * h))
    p = np.exp(-c.C * h) * kicked + np.sqrt(variance) * z
    c.v = c.decay * c.v + (1 - c.decay) * (f / c.N) ** 2
    return q + h / 2 * M * (kicked + p), p, xi, [p]


def _santa(c, f):
    """The metric before and after its average has seen `f`, and the kick without momentum."""
    before = (c.damping + c.v**0.5) ** -0.5
    c.v = c.decay * c.v + (1 - c.decay) * (f / c.N) ** 2
    g = (c.damping + c.v**0.5) ** -0.5
    spread = before if c.metric else c.A
    mass = 10 * c.T / np.maximum(1, spread) ** 2 if c.Q == "auto" else c.Q
    return before, g, spread, mass


def _santa_kick(p, f, h, z, c, before, g, spread):
    moving = np.maximum(1 - before / g, -1) * p if c.T > 0 else 0.0
    return moving - h * g * f + np.sqrt(2 * c.T * spread * h) * z


def santa_euler(q, p, xi, grad, h, z, c):
    f = grad(q)
    before, g, spread, mass = _santa(c, f)
    if c.T > 0:
        xi = xi + h * (p**2 - c.T) / mass
    used = xi if c.T > 0 else np.maximum(xi, c.A)
    p = (1 - h * used) * p + _santa_kick(p, f, h, z, c, before, g, spread)
    return q + h * g * p, p, xi, [p]


def santa_symmetric(q, p, xi, grad, h, z, c):
    middle = q + p * (c.damping + c.v**0.5) ** -0.5 * h / 2
    f = grad(middle)
    before, g, spread, mass = _santa(c, f)
    if c.T > 0:
        xi = xi + h / 2 * (p**2 - c.T) / mass
    half = np.exp(-h / 2 * (xi if c.T > 0 else np.maximum(xi, c.A)))
    p = half * (half * p + _santa_kick(p, f, h, z, c, before, g, spread))
    end = middle + p * g * h / 2
    return end, p, xi + h / 2 * (p**2 - c.T) / mass if c.T > 0 else xi, [p]


UPDATES = {
    ("SGLD", None): sgld,
    ("SGD", None): sgd,
    ("SGFS", None): sgfs,
    ("SGHMC", "euler"): sghmc_euler,
    ("SGHMC", "symmetric"): sghmc_symmetric,
    ("SGHMC", "BAOAB"): sghmc_baoab,
    ("SGHMC", "ABOBA"): sghmc_aboba,
    ("SGHMC", "OBABO"): sghmc_obabo,
    ("SGHMC", "UBU"): sghmc_ubu,
    ("SGNHT", "euler"): sgnht_euler,
    ("SGNHT", "symmetric"): sgnht_symmetric,
    ("SGNHT", "BAOAB"): sgnht_badodab,
    ("SGNHT", "ABDODBA"): sgnht_abdodba,
    ("SGNHT", "ODBABDO"): sgnht_odbabdo,
    ("SGNHT", "DUBUD"): sgnht_dubud,
    ("PSGLD", None): psgld,
    ("PSGHMC", "BAOAB"): psghmc,
    ("Santa", "euler"): santa_euler,
    ("Santa", "symmetric"): santa_symmetric,
}

NORMALS = {sghmc_ubu: 4, sgnht_dubud: 4}
"""Those of a step, where there are several: z is then (k, d)."""


def numbers(**values):
    """The `c` of an update, with the samplers' defaults."""
    defaults = {"C": 1.0, "B": 0.0, "A": 1.0, "T": 1.0, "Q": 1.0}
    santa = {"N": 1.0, "decay": 1.0, "damping": 1e-5, "metric": False, "v": 1.0}
    return SimpleNamespace(**(defaults | santa | values))


@dataclass
class Subject:
    """A kernel under test, with what it is called with."""

    kernel: Kernel
    target: object
    coefficients: dict
    state: dict
    plan: Callable
    """The numbers that the sampler plans for each step, at some steps."""

    def __call__(self, q, state, step_sizes, rows, normals, plan=None, every=1):
        weights = self.target.check_lengths() / np.array([row.shape[1] for row in rows])
        plan = self.plan(np.arange(len(step_sizes))) if plan is None else plan
        fixed = self.kernel.fixed(weights, self.coefficients, {})
        return self.kernel(q, state, step_sizes, rows, normals, 0 * q, plan, fixed, every)


def initial_state(step, rng):
    """What the algorithm of a step method carries at first."""
    return step.algorithm.initial_state(rng, step.chain.context())


def planned(step, steps):
    """What it plans for absolute counts of inner steps."""
    return step.algorithm.planned(steps, tuning=step.tune)


def coefficients_of(step):
    """Its coefficients as the chain is now."""
    return step.algorithm.coefficients(step.chain.context())


def change_part(step, **parts):
    """Give a chain another part, behind its back."""
    for name, part in parts.items():
        object.__setattr__(step.chain.parts, name, part)


def change_setting(step, **settings):
    """Give its algorithm another setting, and let the chain find out."""
    algorithm = step.algorithm
    change_part(step, algorithm=algorithm.in_setting(replace(algorithm.setting, **settings)))
    step.chain._frame = None


def draw_rows_of(step, steps):
    """Rows of the coming inner steps, which the chain then has drawn."""
    rows, states = draw_rows(step.chain.parts, step.state, step.chain.frame, step.rng, steps)
    step.state.batch_states = states
    return rows


def changed(algorithm, **methods):
    """An algorithm with some other methods, which are functions without self."""
    kind = type(algorithm)
    own = {name: staticmethod(method) for name, method in methods.items()}
    twin = object.__new__(type(kind.__name__, (kind,), own))
    vars(twin).update(vars(algorithm))
    return twin


def subject(step, *, update=None, target=None, state=None, backend=None):
    """The kernel of a step method; or one with another `update`, target or carried state.

    It plans its steps as after tuning.
    """
    parts, own, plan = step.chain.parts, initial_state(step, np.random.default_rng(5)), None
    step.tune = False
    plan = partial(planned, step)
    algorithm, coefficients = parts.algorithm, step.chain.frame.coefficients
    if update is None and target is None:
        return Subject(parts.kernel, step.target, coefficients, own, plan)
    changes = {} if update is None else {"update": update}
    if state is not None:
        changes |= {"initial_state": lambda rng, context: state, "virial": lambda *_, **__: None}
    target, state = target or step.target, own if state is None else state
    estimator = Estimator(target, parts.source, None, control=False)
    kernel = Kernel(
        estimator,
        changed(algorithm, **changes),
        step.chain.context(),
        {},
        backend or Backend("c"),
        constant=False,
        leaps=False,
    )
    return Subject(kernel, target, coefficients, state, plan)


# A small ill-conditioned target that is no Gaussian: Poisson counts with a prior of unequal widths.

N_ROWS, BATCH = 11, 3
PRIOR_SD = np.array([1.0, 0.1, 3.0, 10.0])
_rng = np.random.default_rng(20)
FEATURES = _rng.normal(size=(N_ROWS, len(PRIOR_SD))) / 3
COUNTS = _rng.poisson(3.0, size=N_ROWS)


def poisson_step(sampler, *, step_size=Polynomial(0.001), **kwargs):
    """By default one whose kernel takes any step sizes."""
    with pm.Model():
        q = pm.Normal("q", 0.0, PRIOR_SD, shape=len(PRIOR_SD))
        features, counts = pm.Data("features", FEATURES), pm.Data("counts", COUNTS)
        pm.Poisson("y", pm.math.exp(pm.math.dot(features, q)), observed=counts)
        return sampler(step_size=step_size, batch_size=BATCH, **kwargs)


def poisson_potential(q, rows):
    log_rate = FEATURES[rows] @ q
    prior = np.sum(q**2 / PRIOR_SD**2 / 2 + np.log(PRIOR_SD) + np.log(2 * np.pi) / 2)
    log_likelihood = COUNTS[rows] * log_rate - np.exp(log_rate) - gammaln(COUNTS[rows] + 1)
    return prior - N_ROWS / len(rows) * np.sum(log_likelihood)


def poisson_gradient(q, rows):
    residual = np.exp(FEATURES[rows] @ q) - COUNTS[rows]
    return q / PRIOR_SD**2 + N_ROWS / len(rows) * FEATURES[rows].T @ residual


TOLD = [k for k, name in enumerate(MOMENTS) if name != "virial"]


def check_steps(chain, update, c, *, h=0.05, xi=None, steps=7, seed=0, rtol=1e-10, plan=None):
    """Every number that the kernel returns, against NumPy: one step a call, and all in one.

    But for the virial, which is a claim about a mean. Where the gradient is not taken at q,
    what W is made of is that of the start of a call.

    `plan`: numbers for each step by their names in the kernel; those of `c` take their place.
    """
    c, plan = copy.copy(c), plan or {}

    def close(actual, expected):
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol / 100)

    def check(output, expected, moments, g, rows, temperature):
        for actual, value in zip((output.q, *output.state), expected, strict=True):
            close(actual, value)
        close(output.sums[TOLD], moments)
        close(output.grad_norm, np.sqrt(np.sum(g**2)))
        close(output.logp, -poisson_potential(expected[0], rows))
        close(output.kinetic_temperature, temperature)

    rng, d = np.random.default_rng(seed), len(PRIOR_SD)
    step_sizes = h * (np.ones(steps) if chain.kernel.constant else rng.uniform(0.2, 1.8, steps))
    rows = rng.integers(N_ROWS, size=(steps, BATCH))
    normals = rng.standard_normal((steps, chain.kernel.n_noise, d))
    q, p = PRIOR_SD * rng.standard_normal(d) / 3, rng.standard_normal(d)
    start = {"p": p, "xi": chain.state.get("xi") if xi is None else xi}
    names = list(chain.state)

    def carried(p, xi):
        return tuple({"p": p, "xi": xi, "v": c.v}[name] for name in names)

    state = carried(**start)
    whole = {n: chain(q, state, step_sizes, [rows], normals, plan, n) for n in (1, 3, steps)}
    at_once = (q, state)
    missing = [] if "xi" in names else [3] if "p" in names else [2, 3]
    xi = start["xi"] if "xi" in names else 0.0
    every_moment, temperatures = [], []
    for t, h in enumerate(step_sizes):
        now = slice(t, t + 1)
        planned = {name: values[now] for name, values in plan.items()}
        output = chain(*at_once, step_sizes[now], [rows[now]], normals[now], planned)
        for name, value in planned.items():
            setattr(c, "T" if name == "temperature" else name, value[0])
        at_once = (output.q, output.state)
        seen = []

        def gradient(at, rows=rows[t], seen=seen):
            seen.append((at, poisson_gradient(at, rows), rows))
            return seen[-1][1]

        q0, p0, xi0 = q, p, xi
        q, p, xi, momenta = update(q, p, xi, gradient, h, normals[t].squeeze(), c)
        (last,) = seen
        g = last[1]
        at_q = poisson_gradient(q0, rows[t])
        ones = np.ones(d)
        moments = np.array([g, g * g, p0 * p0, xi0 * ones, q0, at_q, q0 * at_q, q0 * q0])
        moments[missing] = np.nan
        every_moment.append(moments)
        temperatures.append(np.mean(np.square(momenta)) if momenta else np.nan)
        expected = (q, *carried(p, xi))
        check(output, expected, moments, *last[1:], temperatures[-1])
    for n, output in whole.items():
        summed = every_moment[::n]
        assert output.summed == len(summed)
        sums = np.sum(summed, axis=0)
        if not np.array_equal(last[0], q0):
            sums[4:] = len(summed) * every_moment[0][4:]
        check(output, expected, sums, *last[1:], np.mean(temperatures[::n]))


# Exact laws on Gaussian coordinates, from the linear maps that the NumPy updates are.


@dataclass
class Law:
    """Stationary second moments, one for each coordinate."""

    q: np.ndarray
    p: np.ndarray
    momenta: np.ndarray
    """Mean square of each momentum that is read, over the coordinates."""

    @property
    def kinetic(self):
        return float(self.momenta.mean())


def gaussian_law(update, a, V, h, c, xi=0.0):
    """The law of `update` at fixed xi on U = a q^2 / 2 with gradient noise of variance V.

    The update is linear in (q, p, gradient noise, z): its matrix is read off by unit inputs, and
    the covariance S solves S = M S M' + noise.
    """
    a, V = np.broadcast_arrays(np.atleast_1d(a).astype(float), V)
    frozen = SimpleNamespace(**(vars(c) | {"Q": np.inf}))
    normals = NORMALS.get(update, 1)
    inputs = np.eye(3 + normals)[:, :, None] * np.ones(len(a))
    columns, readings = [], []
    for q, p, noise, *z in inputs:
        gradient = lambda at, noise=noise: a * at + noise  # noqa: E731
        z = z[0] if normals == 1 else z
        q, p, _, momenta = update(q, p, xi, gradient, h, z, frozen)
        columns.append((q, p))
        readings.append(momenta)
    loads = np.moveaxis(np.array(columns), 2, 0).swapaxes(1, 2)  # coordinate, output, input
    power = np.stack([V, *[np.ones_like(V)] * normals], axis=1)
    M, noise = (
        loads[:, :, :2],
        np.einsum("dik,dk,djk->dij", loads[:, :, 2:], power, loads[:, :, 2:]),
    )
    kron = np.einsum("dik,djl->dijkl", M, M).reshape(-1, 4, 4)
    S = np.linalg.solve(np.eye(4) - kron, noise.reshape(-1, 4, 1)).reshape(-1, 2, 2)
    squares = np.array([np.nan])
    if readings[0]:
        R = np.array(readings)  # input, reading, coordinate
        carried = np.einsum("ird,dij,jrd->rd", R[:2], S, R[:2])
        squares = np.mean(carried + np.einsum("ird,di->rd", R[2:] ** 2, power), axis=1)
    return Law(S[:, 0, 0], S[:, 1, 1], squares)


def thermostat_law(update, a, V, h, c):
    """The law of a scalar thermostat with many coordinates: (xi between steps, Law).

    Its friction is then a constant, such that the kinetic energy that drives it is T on average.
    Where it is driven in two halves, before and after O, xi between steps differs from the friction
    in O by the first half: gradient noise heats before O, and O cools.
    """

    def excess(xi):
        return gaussian_law(update, a, V, h, c, xi).kinetic - c.T

    guess = c.A + h * np.mean(V) / (2 * c.T)
    friction = brentq(excess, 0.6 * guess, 1.9 * guess, xtol=1e-12)
    law = gaussian_law(update, a, V, h, c, friction)
    halves = len(law.momenta) == 2
    return friction - halves * h / 2 * (law.momenta[0] - c.T) / c.Q, law


def coordinate_thermostat_law(update, a, V, h, c):
    """The law with a heavy thermostat for each coordinate, read at the end of a step: (xi, Law).

    Each friction is a constant, such that E[p^2] = T in its coordinate: by bisection.
    """
    low, high = np.zeros(len(a)), np.full(len(a), 1.9 / h)
    for _ in range(60):
        middle = (low + high) / 2
        hot = gaussian_law(update, a, V, h, c, middle).p > c.T
        low, high = np.where(hot, middle, low), np.where(hot, high, middle)
    return middle, gaussian_law(update, a, V, h, c, middle)


# Gaussian targets for simulation.


@dataclass
class Gaussian:
    """A posterior of independent Gaussian coordinates, sampled by `step`."""

    step: object
    mean: np.ndarray
    a: np.ndarray
    V: np.ndarray
    n_rows: int = 0
    batch: int = 0


def prior_only(sampler, a, **kwargs):
    """q_j ~ N(0, 1 / a_j) with its exact gradient."""
    with pm.Model():
        pm.Normal("q", 0.0, 1 / np.sqrt(a), shape=len(a))
        step = sampler(**kwargs)
    return Gaussian(step, np.zeros(len(a)), np.asarray(a), np.zeros(len(a)))


def noisy_posterior(sampler, d=1000, n_rows=400, batch=2, noise=1.0, prior_share=0.3, **kwargs):
    """y_ij ~ N(q_j, sig2), prior N(0, tau2): precision 1 in all coordinates, skewed data.

    `noise` is the mean of V. The data are not Gaussian, and the law does not need them to be.
    """
    rng = np.random.default_rng(30)
    sig2, tau2 = n_rows / (1 - prior_share), 1 / prior_share
    y = rng.exponential(size=(n_rows, d)) * np.sqrt(noise * batch) * sig2 / n_rows
    with pm.Model():
        q = pm.Normal("q", 0.0, np.sqrt(tau2), shape=d)
        pm.Normal("y", q, np.sqrt(sig2), observed=pm.Data("data", y))
        step = sampler(batch_size=batch, **kwargs)
    a = np.full(d, n_rows / sig2 + 1 / tau2)
    V = n_rows**2 / batch * y.var(axis=0) / sig2**2
    return Gaussian(step, y.sum(axis=0) / sig2 / a, a, V, n_rows, batch)


@dataclass
class Draws:
    q: np.ndarray
    p: np.ndarray | None
    xi: np.ndarray | None
    temperature: np.ndarray


def simulate(chain, q, state, h, *, draws, inner=10, burn_in=50, seed=1, n_rows=0, batch=0,
             same_rows=False):  # fmt: skip
    """Draws of the kernel, `inner` steps apart, driven as the step method drives it."""
    rng, kept = np.random.default_rng(seed), []
    step_sizes, names = np.full(inner, h), list(chain.state)
    for draw in range(burn_in + draws):
        rows = [rng.integers(n_rows, size=(inner, batch))] if n_rows else []
        if same_rows:
            rows = [np.repeat(rows[0][:1], inner, axis=0)]
        normals = rng.standard_normal((inner, chain.kernel.n_noise, len(q)))
        output = chain(q, state, step_sizes, rows, normals)
        assert output.is_finite, "the chain diverged"
        q, state = output.q, output.state
        if draw >= burn_in:
            kept.append((q, *state, output.kinetic_temperature))
    columns = dict(zip(["q", *names, "temperature"], map(np.array, zip(*kept)), strict=True))
    return Draws(columns["q"], columns.get("p"), columns.get("xi"), columns["temperature"])


def score(values, expected, error, largest_error, label=""):
    """|z| < 4, and an error small enough to see a mistake."""
    z = (values - expected) / error
    print(f"{label}: {values:.5f} +- {error:.5f}, law {expected:.5f}, z = {z:.2f}")
    assert abs(z) < 4, f"{label}: {values:.5f} +- {error:.5f} where the law says {expected:.5f}"
    assert error < largest_error, f"{label}: Monte Carlo error {error:.5f} says nothing"
    return z


def score_mean(series, expected, largest_error, label, batches=20):
    """Mean of `series` (draws, ...) over draws and coordinates.

    Its error is the larger one of the spread over batches of draws, which sees the dependence
    between coordinates, and the spread over coordinates, which sees that between draws.
    """
    series = np.asarray(series).reshape(len(series), -1)
    parts = [part.mean() for part in np.array_split(series, batches)]
    error = np.std(parts, ddof=1) / np.sqrt(batches)
    if series.shape[1] >= 100:
        over_coordinates = series.mean(axis=0).std(ddof=1) / np.sqrt(series.shape[1])
        error = max(error, over_coordinates)
    return score(series.mean(), expected, error, largest_error, label)


def score_variance(q, mean, law, label, largest_error=0.003, groups=1):
    """Relative variance of q about the exact mean, for groups of coordinates in order."""
    relative = (q - mean) ** 2 / law
    for k, part in enumerate(np.array_split(relative, groups, axis=1)):
        name = label if groups == 1 else f"{label}, group {k}"
        score_mean(part, 1.0, largest_error, name)


def start_at(posterior, law, xi=None, seed=2, v=None):
    """Position and state in the stationary law."""
    rng, d = np.random.default_rng(seed), len(posterior.a)
    q = posterior.mean + np.sqrt(law.q) * rng.standard_normal(d)
    p = np.sqrt(law.p) * rng.standard_normal(d)
    return q, {"p": p, "xi": xi, "v": v}


def unit_coordinates(size: int, ndim: int = 1) -> Coordinates:
    """z = q, with a dense (`ndim` 2) or a diagonal metric."""
    return Coordinates(np.zeros(size), identity(size, dense=ndim == 2))
