"""What is refused before a run."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.engine.checks import check_rank


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_two_equal_constraints_among_many_are_found(share, seed):
    """Also where rounding hides the zero pivot."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(310, 900)) * (rng.uniform(size=(310, 900)) < 0.004)
    np.fill_diagonal(G, rng.uniform(1, 2, 310))
    check_rank(ca.sparsify(ca.DM(G)), "here")
    G[7] = share * G[300]
    with pytest.raises(da.SingularConstraints, match="here"):
        check_rank(ca.sparsify(ca.DM(G)), "here")
