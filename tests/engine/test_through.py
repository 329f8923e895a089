"""Kinds of sweeps: symbols and numbers belong together, and samples are carried to the same by either way."""

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.adjoint import Changes
from dalembert.engine.case import prepare
from dalembert.engine.derivatives import swept
from dalembert.engine.graph import ITERATE, STEP
from dalembert.engine.linear import Linearization
from dalembert.engine.tangents import NativeSweep, source
from dalembert.engine.tape import Rows
from dalembert.engine.through import Adjoints, Curvatures, Tangents
from dalembert.methods.base import find

KINDS = [Tangents, Adjoints, Curvatures]


@pytest.fixture(scope="module")
def changes():
    """Of a step with inputs."""
    return Changes.of(prepare(da.catalog.dc_motor(), find("gauss-2")).program)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_have_the_names_and_sizes_of_the_symbols(changes, kind):
    sweep, (own, _) = kind.written_out(changes), kind.samples(*changes.sizes)
    rows = len(sweep.names) - len(own.given)
    assert sweep.names[rows:] == list(own.given)
    for i, array in enumerate(own.given.values(), rows):
        assert array.shape[-1] == sweep.function.numel_in(i)
    assert set(sweep.carried) <= set(own.given)
    for name, level in zip(sweep.names[rows:], sweep.levels[rows:], strict=True):
        assert level == (STEP if name.startswith("slope") else ITERATE)
    left = sweep.function.n_out() - len(sweep.carried)
    assert left == len(own.outputs)
    carried = [array for name, array in own.given.items() if name in sweep.carried]
    assert all(any(a is b for b in own.changed) for a in carried)  # what is changed can be put back


@pytest.mark.parametrize("kind", KINDS)
def test_samples_go_through_a_step_to_the_same(changes, kind):
    """Compiled, and without a compiler."""
    n, p, m = changes.sizes
    rng = np.random.default_rng(3)
    row = Rows(
        0, *(rng.normal(size=(1, k)) for k in (n, n, changes.x.numel())), np.zeros(1), 0.01, rng.normal(size=(1, m)),
        1 + rng.random(p), (),
    )  # fmt: skip
    sweep, (found, expected) = kind.written_out(changes), kind.samples(n, p, m)
    before = [array.copy() for array in expected.looked_at]
    swept(NativeSweep(sweep, source(sweep)), row, found)
    expected.by(Linearization(changes), row)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(before, expected.looked_at, strict=True))
    for a, b in zip(found.looked_at, expected.looked_at, strict=False):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max(initial=1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_follows_only_slopes_in_inputs_change(changes, kind):
    own, _ = kind.samples(*changes.sizes)
    if kind.backwards:
        own.u = np.full((1, 1, changes.sizes[2]), np.nan)
    begin = [array.copy() for array in own.changed]
    own.standing()
    assert all(np.array_equal(a, b) for a, b in zip(own.changed, begin, strict=True))
    assert all(np.isfinite(array).all() for array in own.outputs if array is not None)
