"""Poincare sections, stroboscopic and by crossings."""

import numpy as np
import pytest

import dalembert as da

H = 2 * np.sin(np.pi / 40)


def test_stroboscopic_section_of_the_contact_oscillator():
    """A sphere in (x, z, vz), each orbit a circle on it: a rotation about a fixed axis (Hilden 2009, sec. 4.3.1)."""
    system = da.catalog.contact_oscillator()
    q, v = da.catalog.contact_start((-0.9 + 0.2 * np.arange(10)) * np.sqrt(2))
    section = da.poincare(system, 40, 400, method="mclachlan-perlmutter", step=H, q=q, v=v)
    assert section.t.shape == (10, 400)
    assert section.q.shape == (10, 400, 3)
    assert np.abs(section.q[:, :, 1] - 1).max() < 1e-10  # y is periodic with 40 steps
    assert section.energy.min() > 1.49
    assert section.energy.max() < 1.52
    points = np.concatenate([section.q[:, :, [0, 2]], np.sqrt(2) * section.v[:, :, 2:]], axis=2)
    for orbit in points:  # all points of an orbit in one plane
        _, s, _ = np.linalg.svd(orbit - orbit.mean(axis=0), full_matrices=False)
        assert s[2] < 0.02 * s[0]


def test_crossings_agree_with_the_stroboscope():
    system = da.catalog.contact_oscillator(eps=0.3)
    q, v = da.catalog.contact_start(-0.5, eps=0.3)
    a = da.poincare(system, 40, 50, method="mclachlan-perlmutter", step=H, q=q, v=v)
    b = da.poincare(system, lambda v: v[1], 50, direction=-1, method="mclachlan-perlmutter", step=H, q=q, v=v)
    assert np.abs(b.v[:, 1]).max() < 1e-15
    assert a.t.shape == b.t.shape == (50,)
    # round-off puts the crossing a hair before or behind the 40th step
    np.testing.assert_allclose(a.q, b.q, atol=1e-9)


def test_periods_and_directions():
    system = da.catalog.harmonic_oscillator()
    strobe = da.poincare(system, 2 * np.pi, 10, method="gauss-4", step=0.1, q=[1.0], v=[0.0])
    assert np.abs(strobe.q - 1).max() < 1e-11
    up, down, both = (
        da.poincare(system, lambda q: q[0], 10, method="gauss-4", step=0.1, q=[1.0], v=[0.0], direction=d) for d in (1, -1, 0)
    )
    np.testing.assert_allclose(up.t, 3 * np.pi / 2 + 2 * np.pi * np.arange(10), atol=1e-11)
    np.testing.assert_allclose(down.t, np.pi / 2 + 2 * np.pi * np.arange(10), atol=1e-11)
    np.testing.assert_allclose(both.t, np.pi / 2 + np.pi * np.arange(10), atol=1e-11)


def test_henon_heiles_section_lies_on_its_energy():
    system = da.Mechanical(2, mass=1.0, potential=lambda q: (q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3)
    section = da.poincare(
        system, lambda q: q[0], 60, method="gauss-3", step=0.1, q=[[0.0, 0.1], [0.0, -0.2]], v=[[0.35, 0.1], [0.3, 0.0]]
    )
    assert np.abs(section.q[..., 0]).max() < 1e-15
    assert np.abs(section.energy - section.energy[:, :1]).max() < 1e-9
    assert (section.v[..., 0] > 0).all()


def test_plot(tmp_path):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    q, v = da.catalog.contact_start([-0.5, 0.5])
    section = da.poincare(da.catalog.contact_oscillator(), 40, 100, method="spark-2", step=H, q=q, v=v)
    ax = section.plot(("q", 2), ("v", 2), where=lambda q: q[0] > 0)
    ax.figure.savefig(tmp_path / "section.png")
    assert len(ax.lines) == 2
    plt.close(ax.figure)


def test_sections_that_are_never_crossed():
    system = da.catalog.harmonic_oscillator()
    with pytest.raises(da.ModelError, match=r"crossed from below 0 times of 5, and not once in the last .* between 1 and 3"):
        da.poincare(system, lambda q: q[0] + 2, 5, method="rattle", step=0.1, q=[1.0], v=[0.0], patience=3000)
    with pytest.raises(da.MethodError, match="n must be a whole number"):
        da.poincare(system, lambda q: q[0], 0, method="rattle", step=0.1, q=[1.0])
    with pytest.raises(da.MethodError, match="period"):
        da.poincare(system, -1.0, 5, method="rattle", step=0.1, q=[1.0])
    with pytest.raises(da.MethodError, match="different numbers of orbits"):
        da.poincare(system, 10, 5, method="rattle", step=0.1, q=[[1.0], [2.0]], v=[[0.0]])
