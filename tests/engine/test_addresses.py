"""Addresses of arrays: those that NumPy tells, of arrays that may not be written too."""

import numpy as np
import pytest

from dalembert.engine.addresses import address


def test_the_address_is_that_of_the_first_number():
    whole = np.zeros((4, 3))
    fixed = np.ones(3)
    fixed.flags.writeable = False
    for array in (whole, whole[2:], whole[1], np.zeros((2, 0))[:1], fixed):
        assert address(array) == array.ctypes.data


def test_an_array_with_gaps_is_refused():
    """A native call would read other numbers."""
    with pytest.raises(TypeError):
        address(np.zeros((4, 3))[:, 1])
