"""What this package costs, against others, in one run: tables in Markdown and JSON.

- steps: an inner step against those of others, side by side. Each contender is a process in the
  environment of its framework, pinned to one core. They take turns. A step's time is the difference
  of a long and a short run, so that what happens once per call does not count. The ratio of two
  contenders is taken in each turn; what is printed is the median of these and their range, which
  holds the true median with a probability of 1 - 2^(1 - turns).
- posterior: seconds to 1,000 effective draws with N = 1e6 rows (`one_posterior`).
- start: seconds from `python` to the first draw (`first_draw`).
- sample: what `pm.sample` costs by itself (`sample_cost`).
- memory: with N = 1e7 rows (`memory`); needs Linux and about 8 GB.

Peers come from PyPI, through uv, or from environments of your own (``--peers``, ``--nutpie``). The
other benchmarks are scripts of their own: `sizes`, `published`, `trust` and `trust_cost`.

Run: uv run --extra bench python -m tests.benchmarks [--parts steps start] [--only PATTERN]
"""

import argparse
import json
import platform
import re
import shutil
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.benchmarks import first_draw, memory, sample_cost
from tests.benchmarks.fresh import answers
from tests.benchmarks.race import Contender, race

BLACKJAX, POSTERIORS, NUTPIE = "blackjax==1.7.1", "posteriors==0.1.3", "nutpie[pymc]==0.16.11"
METHODS = ("SGNHT", "nutpie", "PyMC's NUTS", "minibatch ADVI", "ADVI")

OURS = [
    Contender("C", "with_pymc", ("c", "random")),
    Contender("C, blocks", "with_pymc", ("c", "blocks")),
    Contender("Numba", "with_pymc", ("numba", "random")),
    Contender("Numba, blocks", "with_pymc", ("numba", "blocks")),
]
FLOORS = [
    Contender("NumPy", "with_numpy", ("numpy",)),
    Contender("C loop", "with_numpy", ("c", "random")),
    Contender("C loop, blocks", "with_numpy", ("c", "blocks")),
]


@dataclass(frozen=True)
class Case:
    """A problem, a sampler, a precision, and who runs beside this package."""

    problem: str
    sampler: str
    dtype: str
    others: tuple[str, ...]

    @property
    def name(self):
        return f"{self.problem}, {self.sampler}, {self.dtype}"


PEERS = ("blackjax", "posteriors")
EVERY = (*PEERS, *(floor.name for floor in FLOORS))
CASES = [
    Case("logistic", "SGNHT", "float64", EVERY),
    Case("logistic", "SGLD", "float64", EVERY),
    Case("logistic", "SGNHT", "float32", PEERS),
    Case("logistic", "SGLD", "float32", PEERS),
    Case("linear", "SGNHT", "float64", PEERS),
    Case("linear", "SGLD", "float64", PEERS),
    Case("hierarchical", "SGNHT", "float64", PEERS),
    Case("factors", "SGNHT", "float64", PEERS),
    Case("network-100", "SGNHT", "float32", PEERS),
    Case("network-500", "SGNHT", "float32", PEERS),
]


def python_with(requirement, environment):
    """What runs Python with a peer."""
    if environment:
        return (environment,)
    return ("uv", "run", "--no-project", "--with", requirement, "python")


def contenders(case, environment):
    """Those of a case, each a new process."""
    blackjax, posteriors = (python_with(name, environment) for name in (BLACKJAX, POSTERIORS))
    peers = [
        Contender("blackjax", "with_blackjax", command=blackjax),
        Contender("posteriors", "with_posteriors", command=posteriors, share=0.02),
    ]
    others = [other for other in [*peers, *FLOORS] if other.name in case.others]
    return [replace(contender) for contender in [*others, *OURS]]


def processor():
    """Its name, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def blas():
    """What NumPy multiplies matrices with."""
    found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{found['name']} {found['version']}"


def steps(args, versions):
    """A row for each contender of each case."""
    for case in (case for case in CASES if re.search(args.only, case.name)):
        running = contenders(case, args.peers)
        times = race(running, case.problem, case.sampler, case.dtype, args.repeats)
        for contender in running:
            versions |= contender.versions
        for name, values in times.items():
            ratios = values / times["blackjax"]
            yield {
                "case": case.name,
                "contender": name,
                "microseconds a step": float(np.median(values)),
                "ratio to blackjax": float(np.median(ratios)),
                "from": float(ratios.min()),
                "to": float(ratios.max()),
            }


def posterior(args, versions):
    """A row for each method, and one for this package where it has compiled nothing before."""
    ours = np.nan
    with TemporaryDirectory() as compiled:
        for method in (method for method in METHODS if re.search(args.only, method)):
            command = (sys.executable,)
            if method == "nutpie":
                command = python_with(NUTPIE, args.nutpie)
                versions["nutpie"] = NUTPIE.rpartition("=")[2]
            flags = f"base_compiledir={compiled}"
            if method == "SGNHT":
                cold = answers("one_posterior", method, args.rows, PYTENSOR_FLAGS=flags)[0]
                yield {"method": "SGNHT, cold cache", **cold}
            row = answers("one_posterior", method, args.rows, command=command, PYTENSOR_FLAGS=flags)
            ours = row[0]["seconds"] if method == "SGNHT" else ours
            yield {"method": method, **row[0], "SGNHT's seconds / its": ours / row[0]["seconds"]}


PARTS = {
    "steps": steps,
    "posterior": posterior,
    "start": lambda args, _: first_draw.rows(args.repeats),
    "sample": lambda args, _: sample_cost.rows(args.repeats),
    "memory": lambda args, _: memory.rows(),
}


def number(value):
    """As it is read best."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def table(rows):
    """Markdown; columns are those of all rows, in order."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(number(row.get(n, "")) for n in names) + " |" for row in rows]
    return lines


def markdown(result):
    """The tables, and what they were measured on."""
    lines = []
    for part, rows in result["parts"].items():
        lines += [f"## {part}", "", *table(rows), ""]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines += [f"{result['date']}, {result['processor']}, {result['blas']}; {versions}."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--only", default="", help="a regular expression for cases of steps and posterior"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", default="1e6", help="N of the posterior")
    parser.add_argument("--output", type=Path, default=Path("benchmark_results"))
    parser.add_argument("--peers", help="a Python that has blackjax and posteriors")
    parser.add_argument("--nutpie", help="a Python that has nutpie and PyMC")
    args = parser.parse_args()
    needs = (args.peers or "steps" not in args.parts, args.nutpie or "posterior" not in args.parts)
    if not all(needs) and not shutil.which("uv"):
        parser.error("uv was not found: install it, or give --peers and --nutpie")
    result = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": processor(),
        "blas": blas(),
        "versions": {"Python": platform.python_version()},
        "parts": {part: [] for part in args.parts},
    }
    args.output.mkdir(exist_ok=True)
    for part in args.parts:
        for row in PARTS[part](args, result["versions"]):
            result["parts"][part].append(row)
            # After each row, so that nothing is lost.
            (args.output / "results.json").write_text(json.dumps(result, indent=1))
            (args.output / "results.md").write_text(markdown(result) + "\n")
            print(part, *(f"{name}: {number(value)}" for name, value in row.items()), flush=True)
    print(markdown(result))


if __name__ == "__main__":
    main()
