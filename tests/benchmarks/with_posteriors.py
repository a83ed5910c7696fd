"""posteriors in the race: PyTorch, a step at a time."""

from tests.benchmarks.contender import serve

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)

import posteriors
import torch
from torch.nn.functional import cross_entropy, relu, softplus

from tests.benchmarks.problems import FRICTION, PROBLEMS, SHAPES


def normal(x, mean=0.0, sd=1.0):
    return torch.distributions.Normal(mean, sd, validate_args=False).log_prob(x)


def zeros(problem, dtype):
    return {name: torch.zeros(shape, dtype=dtype) for name, shape in SHAPES[problem].items()}


def logistic(X, y):
    def likelihood(q, X, y):
        eta = X @ q["beta"]
        return y * eta - softplus(eta)

    return {"beta": torch.zeros(X.shape[1], dtype=X.dtype)}, likelihood


def linear(X, y):
    def likelihood(q, X, y):
        return normal(y, X @ q["beta"])

    return {"beta": torch.zeros(X.shape[1], dtype=X.dtype)}, likelihood


def hierarchical(X, group, y):
    def likelihood(q, X, group, y):
        intercept = q["mean"] + torch.exp(q["log spread"]) * q["group"][group]
        return normal(y, X @ q["beta"] + intercept)

    return zeros("hierarchical", X.dtype), likelihood


def factors(user, item, y):
    def likelihood(q, user, item, y):
        return normal(y, torch.sum(q["U"][user] * q["V"][item], dim=1), 0.5)

    return zeros("factors", y.dtype), likelihood


def network(X, y):
    def likelihood(q, X, y):
        return -cross_entropy(relu(X @ q["W"] + q["b"]) @ q["V"] + q["c"], y, reduction="none")

    return zeros("network", X.dtype), likelihood


MODELS = (logistic, linear, hierarchical, factors, network)


def prepare(name, sampler, dtype):
    problem = PROBLEMS[name]
    data = {key: torch.as_tensor(value) for key, value in problem.data(dtype).items()}
    start, likelihood = {model.__name__: model for model in MODELS}[problem.data.__name__](**data)
    n_rows = len(data["y"])

    def log_posterior(q, batch):
        prior = sum(normal(value).sum() for value in q.values())
        return prior + n_rows * likelihood(q, **batch).mean(), torch.tensor([])

    h = problem.step_size
    transform = {
        "SGLD": lambda: posteriors.sgmcmc.sgld.build(log_posterior, lr=h**2),
        "SGHMC": lambda: posteriors.sgmcmc.sghmc.build(log_posterior, lr=h, alpha=FRICTION),
        "SGNHT": lambda: posteriors.sgmcmc.sgnht.build(log_posterior, lr=h, alpha=FRICTION),
    }[sampler]()
    begin = transform.init(start)

    def run(draws):
        state, kept = begin, []
        for _ in range(draws):
            for _ in range(problem.steps):
                rows = torch.randint(n_rows, (problem.batch,))
                batch = {name: value[rows] for name, value in data.items()}
                state, _ = transform.update(state, batch)
            kept.append(state.params)

    return run


if __name__ == "__main__":
    serve(prepare, "posteriors", "torch")
