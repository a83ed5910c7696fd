"""Does it say when it is wrong, and only then? False alarms on healthy runs, power on faulty ones.

A run is one call of `pm.sample`. It alarms where a step method gives a warning while it samples, or
where `pymc_sgmcmc.check` finds anything. What the table must show:

- alarms in at most 5 % of the healthy runs;
- in at least 90 % of those where the sd of a coordinate is wrong by 10 % or more, and the least
  effective size of q and q^2 is at least 1,500 (the others are left out);
- in at least 95 % of those that have not mixed, whatever their widths;
- where there are two modes, and each chain starts in one by a fair coin: in at least 80 % with four
  chains and 95 % with eight.

Each case is a process of its own, which compiles its step method once. Every run is a line that is
appended to the results, so that the benchmark goes on where it was interrupted: give another file
where the cases or the package have changed.

Run: python -m tests.benchmarks.trust [--seeds 20] [--only PATTERN] [--table]
"""

import os

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import json
import logging
import re
import time
import warnings
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from zlib import crc32

import arviz as az
import numpy as np
import pymc as pm

from pymc_sgmcmc.results.check import Checker
from tests.benchmarks import trust_faults, trust_healthy, trust_unmixed
from tests.benchmarks.trust_cases import LIMITS, WIDE

WRONG, EFFECTIVE = 0.10, 1500
"""A run with a wrong width counts where an sd is off by so much, and it has this effective size."""


def cases():
    """All cases, by their group and name."""
    parts = (trust_healthy, trust_faults, trust_unmixed)
    every = [case for part in parts for case in part.cases()]
    found = {f"{case.group}: {case.name}": case for case in every}
    assert len(found) == len(every)
    return found


def alarms_of(idata, checker):
    """(kind, text) of each alarm: those given while sampling, and those of `check`."""
    given = [w for w in idata.sample_stats["warning"].values.ravel() if w is not None]
    found = [
        (f"sampling: {w.extra if isinstance(w.extra, str) else w.kind.name.lower()}", w.message)
        for w in given
        if w.level == "warn"
    ]
    return found + [(a.kind, a.text) for a in checker(idata, progressbar=False).alarms]


def least_ess(draws):
    """Over the coordinates (chain, draw, k), of q and of its square around the mean."""
    centred = draws - draws.mean(axis=(0, 1))
    both = az.convert_to_dataset({"q": np.concatenate([centred, centred**2], axis=2)})
    return float(az.ess(both, method="mean")["q"].min())


def random_seed(case, seed):
    """Another one for each run: cases that share their normals would err together."""
    words = [crc32(f"{case.group}: {case.name}".encode()), seed]
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def run(case, problem, step, checker, seed):
    """One run, as a row of the results."""
    own = random_seed(case, seed)
    settings = {"chains": 4, "draws": 1000, "tune": 1000} | case.sampling
    if case.starts is not None:
        settings["initvals"] = case.starts(np.random.default_rng(own), settings["chains"])
    begin = time.perf_counter()
    row = {"seed": seed, "ratio": None, "ess": None}
    try:
        with problem.model:
            idata = pm.sample(
                step=step, cores=1, random_seed=own, progressbar=False,
                compute_convergence_checks=False, keep_warning_stat=True, **settings,
            )  # fmt: skip
    except pm.exceptions.SamplingError as error:
        return row | {"seconds": time.perf_counter() - begin, "alarms": [["error", str(error)]]}
    seconds = time.perf_counter() - begin
    draws = problem.coordinates(idata.posterior)
    ratios = draws.std(axis=(0, 1)) / problem.sd
    begin = time.perf_counter()
    alarms = alarms_of(idata, checker)
    return row | {
        "ratio": float(ratios[np.argmax(np.abs(ratios - 1))]),
        "ess": least_ess(draws),
        "seconds": seconds,
        "seconds of check": time.perf_counter() - begin,
        "alarms": [[kind, text[:300]] for kind, text in alarms],
    }


def run_case(name, seeds, path):
    """Those runs of a case that `path` does not hold, appended to it."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    case = cases()[name]
    begin = time.perf_counter()
    problem = case.problem()
    with problem.model:
        step = case.step(problem)
    checker, build = Checker(problem.model), time.perf_counter() - begin
    for seed in seeds:
        row = {"case": name} | run(case, problem, step, checker, seed) | {"build": build}
        with open(path, "ab", buffering=0) as file:  # at once: others append too
            file.write(("\n" + json.dumps(row)).encode())


def read(path):
    """The rows of each case, by seed; a line that was torn is left out."""
    rows = defaultdict(dict)
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows[row["case"]][row["seed"]] = row
    return rows


def counts(group, row):
    """Whether a run counts in its group."""
    if group not in WIDE:
        return True
    return row["ess"] is not None and row["ess"] >= EFFECTIVE and abs(row["ratio"] - 1) >= WRONG


def share(rows):
    """The alarmed ones in words."""
    alarmed = sum(bool(row["alarms"]) for row in rows)
    return f"{alarmed} ({100 * alarmed / len(rows):.1f} %)" if rows else "-"


def line(name, group, rows):
    counted = [row for row in rows if counts(group, row)]
    kinds = Counter(kind for row in counted for kind in {kind for kind, _ in row["alarms"]})
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    sizes = [row["ess"] for row in rows if row["ess"] is not None]
    cells = [
        name,
        f"{len(rows)}",
        f"{len(counted)}",
        share(counted),
        ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()),
        f"{np.median(ratios):.3f}" if ratios else "",
        f"{ratios[np.argmax(np.abs(np.array(ratios) - 1))]:.3f}" if ratios else "",
        f"{np.median(sizes):,.0f}" if sizes else "",
        f"{min(sizes):,.0f}" if sizes else "",
        f"{np.median([row['seconds'] for row in rows]):.1f}",
        f"{np.median([row.get('seconds of check', 0.0) for row in rows]):.1f}",
    ]
    return f"| {' | '.join(cells)} |"


COLUMNS = ("case", "runs", "that count", "alarms", "kinds", "worst sd ratio, median",
           "worst sd ratio", "ESS, median", "ESS, least", "s", "s of check")  # fmt: skip


def print_table(every, results):
    """A table for each group, and the totals."""
    totals = []
    for group, (direction, limit) in LIMITS.items():
        found = {
            case.name: list(results[name].values())
            for name, case in every.items()
            if case.group == group and name in results
        }
        if not found:
            continue
        print(f"\n### {group}\n\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
        for name, rows in found.items():
            print(line(name, group, rows))
        runs = [row for rows in found.values() for row in rows]
        counted = [row for row in runs if counts(group, row)]
        alarmed = sum(bool(row["alarms"]) for row in counted)
        part = alarmed / len(counted) if counted else np.nan
        met = part <= limit if direction == "at most" else part >= limit
        totals.append(
            f"| {group} | {len(runs):,} | {len(counted):,} | {share(counted)} "
            f"| {direction} {100 * limit:.0f} % | {'yes' if met else 'no'} |"
        )
    print("\n### Totals\n\n| group | runs | that count | alarms | must be | met |")
    print("|---|---|---|---|---|---|", *totals, sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="runs of each case")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="a regular expression that cases must contain")
    parser.add_argument("--results", type=Path, default=Path("trust_results.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the results, and run nothing")
    parser.add_argument("--list", action="store_true", help="print the cases, and run nothing")
    args = parser.parse_args()
    every = {name: case for name, case in cases().items() if re.search(args.only, name)}
    if args.list:
        print(*every, sep="\n")
        return
    if not args.table:
        done = read(args.results)
        context = get_context("spawn")
        with ProcessPoolExecutor(args.workers, mp_context=context, max_tasks_per_child=1) as pool:
            futures = {}
            for name in every:
                seeds = [seed for seed in range(args.seeds) if seed not in done[name]]
                if seeds:
                    futures[pool.submit(run_case, name, seeds, args.results)] = name
            for k, future in enumerate(as_completed(futures), 1):
                name, error = futures[future], future.exception()
                rows = list(read(args.results)[name].values())
                text = f"failed: {error!r}" if error else line("", every[name].group, rows)
                print(f"{k}/{len(futures)} {name} {text}", flush=True)
    print_table(every, read(args.results))


if __name__ == "__main__":
    main()
