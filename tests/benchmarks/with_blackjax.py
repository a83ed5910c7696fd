"""blackjax in the race: its samplers in `lax.scan`, with batches drawn on the way."""

import sys

from tests.benchmarks.contender import serve

if __name__ == "__main__":
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", sys.argv[3] == "float64")

import blackjax
import jax
import jax.numpy as jnp
from blackjax.sgmcmc.gradients import grad_estimator
from jax.scipy.stats import norm

from tests.benchmarks.problems import FRICTION, PROBLEMS, SHAPES


def normal_prior(q):
    return sum(jnp.sum(norm.logpdf(value)) for value in jax.tree.leaves(q))


def zeros(problem, dtype):
    return {name: jnp.zeros(shape, dtype) for name, shape in SHAPES[problem].items()}


def logistic(X, y):
    def likelihood(q, row):
        eta = row["X"] @ q
        return row["y"] * eta - jax.nn.softplus(eta)

    return jnp.zeros(X.shape[1], X.dtype), likelihood


def linear(X, y):
    def likelihood(q, row):
        return norm.logpdf(row["y"], row["X"] @ q)

    return jnp.zeros(X.shape[1], X.dtype), likelihood


def hierarchical(X, group, y):
    def likelihood(q, row):
        intercept = q["mean"] + jnp.exp(q["log spread"]) * q["group"][row["group"]]
        return norm.logpdf(row["y"], row["X"] @ q["beta"] + intercept)

    return zeros("hierarchical", X.dtype), likelihood


def factors(user, item, y):
    def likelihood(q, row):
        return norm.logpdf(row["y"], q["U"][row["user"]] @ q["V"][row["item"]], 0.5)

    return zeros("factors", y.dtype), likelihood


def network(X, y):
    def likelihood(q, row):
        hidden = jnp.maximum(row["X"] @ q["W"] + q["b"], 0)
        return jax.nn.log_softmax(hidden @ q["V"] + q["c"])[row["y"]]

    return zeros("network", X.dtype), likelihood


MODELS = (logistic, linear, hierarchical, factors, network)


def prepare(name, sampler, dtype):
    problem = PROBLEMS[name]
    data = {key: jnp.asarray(value) for key, value in problem.data(dtype).items()}
    start, likelihood = {model.__name__: model for model in MODELS}[problem.data.__name__](**data)
    n_rows = len(data["y"])
    gradient = grad_estimator(normal_prior, likelihood, n_rows)
    algorithm = {
        "SGLD": lambda: blackjax.sgld(gradient),
        "SGHMC": lambda: blackjax.sghmc(gradient, num_integration_steps=1, alpha=FRICTION),
        "SGNHT": lambda: blackjax.sgnht(gradient, alpha=FRICTION),
    }[sampler]()
    h = problem.step_size**2 if sampler == "SGLD" else problem.step_size
    key = jax.random.key(0)
    state = algorithm.init(start) if sampler != "SGNHT" else algorithm.init(start, key)

    def inner_step(state, key):
        for_rows, for_noise = jax.random.split(key)
        rows = jax.random.randint(for_rows, (problem.batch,), 0, n_rows)
        batch = {name: value[rows] for name, value in data.items()}
        return algorithm.step(for_noise, state, batch, h), None

    def draw(state, key):
        state, _ = jax.lax.scan(inner_step, state, jax.random.split(key, problem.steps))
        return state, state if sampler != "SGNHT" else state.position

    sample = jax.jit(lambda state, keys: jax.lax.scan(draw, state, keys))
    return lambda draws: jax.block_until_ready(sample(state, jax.random.split(key, draws)))


if __name__ == "__main__":
    serve(prepare, "blackjax", "jax")
