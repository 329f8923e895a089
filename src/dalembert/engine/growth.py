"""Powers for the choice of a step: close ones, in plain arithmetic that the loop in C repeats to the last bit on any machine."""

from __future__ import annotations

import math
import struct

POWERS = tuple(math.log(2) ** k / math.factorial(k) for k in range(5))  # the exponential series of 2^x


def logarithm(x: float) -> float:
    """The logarithm to the base 2 of a positive number, up to 0.09: its exponent, and linear in between."""
    (bits,) = struct.unpack("<q", struct.pack("<d", x))
    return float(bits) * 2.0**-52 - 1023


def power(x: float) -> float:
    """`16^x`, up to a hundredth of it for `x <= 1`; below -1 it is that of -1."""
    x = max(x, -1.0)
    z, (p0, p1, p2, p3, p4) = x * x, POWERS
    p = (p0 + p1 * x) + z * ((p2 + p3 * x) + p4 * z)
    q = p * p
    return q * q
