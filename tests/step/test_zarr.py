"""What PyMC's ZarrTrace asks of a step method; needs the extra "zarr" and is skipped without it."""

import pickle

import numpy as np
import pytest

from pymc_sgmcmc import running_sums
from tests.cases import DEFAULTS, TYPICAL, begin, built, draws, regression, sample, walk
from tests.tiers import statistics_but


@pytest.mark.compiled
@pytest.mark.parametrize("case", statistics_but([TYPICAL], DEFAULTS), ids=str)
def test_the_sampling_state_pickles_and_goes_on(case):
    """ZarrTrace keeps `sampling_state` by pickle."""
    model, step = built(case)
    with model:
        twin = case.step()
    begin(step)
    point, _ = walk(step, model.initial_point(), 4)
    state = pickle.loads(pickle.dumps(step.sampling_state))
    begin(twin, seed=99)
    twin.sampling_state = state
    np.testing.assert_array_equal(walk(step, point, 3)[1], walk(twin, point, 3)[1])


@pytest.mark.compiled
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("case", DEFAULTS, ids=str)
def test_zarr_trace(case, cores, tmp_path):
    zarr = pytest.importorskip("zarr", "2", exc_type=ImportError)
    if zarr.__version__.startswith("3"):
        pytest.skip("PyMC's ZarrTrace needs zarr 2")
    from pymc.backends.zarr import ZarrTrace

    model = regression()
    with model:
        expected = sample(case.step(), draws=20)
        store = zarr.DirectoryStore(tmp_path / "store")
        trace = ZarrTrace(store=store, draws_per_chunk=4, include_transformed=True)
        idata = sample(case.step(), draws=12, trace=trace, cores=cores)
    np.testing.assert_array_equal(draws(idata), draws(expected)[:, :12])
    sums = running_sums(idata)
    assert sums.sizes["coordinate"] == 2 and (sums.steps == 120).all()
    # The states of the chains are in the store, whichever process sampled them.
    for chain in range(2):
        with model:
            step = case.step()
        begin(step, seed=99)
        step.sampling_state = trace._sampling_state.sampling_state[chain]
        _, rest = walk(step, {"beta": draws(idata)[chain, -1]}, 8)
        np.testing.assert_array_equal(rest, draws(expected)[chain, 12:])
