"""Nodes: choices of entries are composed, and what does not change is copied once."""

import casadi as ca
import numpy as np

from dalembert.engine.fused import Fused
from dalembert.engine.nodes import ITERATE, RUN, Nodes


class Sheet:
    """All work of some nodes, in one list for a run and one for an iterate."""

    rare = False

    def __init__(self, nodes, *exposed):
        self.nodes, self.exposed = nodes, set(exposed)
        nodes.close([nodes.fixed, nodes.each], self.exposed)
        self.work = [nodes.fixed, nodes.each]

    def values(self, node, compiled):
        calls = Fused([self]).calls[0] if compiled else [[w.call for w in work] for work in self.work]
        self.nodes.arrays[node][:] = np.nan
        for call in (c for part in calls for c in part):
            call()
        return self.nodes.arrays[node].copy()


def columns(nodes, count=5):
    """Two columns that are computed, and one number."""
    x, c = np.arange(2.0 * count), np.array([7.0])
    source, number = nodes.source(x, ITERATE), nodes.source(c, RUN)
    one = nodes.apply(ca.OP_SQ, [nodes.take(source, np.arange(0, 2 * count, 2))])
    two = nodes.apply(ca.OP_SQ, [nodes.take(source, np.arange(1, 2 * count, 2))])
    return source, one, two, number, x, c


def test_choices_of_choices_are_one():
    nodes = Nodes()
    _, one, two, number, x, c = columns(nodes)
    mixed = nodes.interleaved([one, two, number], 5)
    joined = nodes.joined([mixed, nodes.constant(np.array([-1.0, -2.0]))])
    last = nodes.take(joined, np.arange(len(nodes.arrays[joined]))[::-1])
    out = nodes.apply(ca.OP_NEG, [last])
    sheet = Sheet(nodes, out)
    assert sum(w.op == ca.OP_ASSIGN and w.reads == ("{}[{}[i]]",) for w in nodes.each) == 3  # two of x, and one for all choices
    expected = -np.concatenate([np.stack([x[::2] ** 2, x[1::2] ** 2, np.full(5, c[0])], axis=1).ravel(), [-1.0, -2.0]])[::-1]
    for compiled in (False, True):
        assert np.array_equal(sheet.values(out, compiled), expected)


def test_entries_of_one_of_several_arrays_are_taken_from_it():
    nodes = Nodes()
    _, one, two, *_ = columns(nodes)
    whole = nodes.stacked([one, two], 5)
    assert nodes.take(whole, np.arange(5, 10)) == two


def test_a_column_that_others_look_at_stays_where_it_is():
    nodes = Nodes()
    _, one, two, _, x, _ = columns(nodes)
    out = nodes.apply(ca.OP_NEG, [nodes.interleaved([one, two], 5)])
    sheet = Sheet(nodes, out, one)
    for compiled in (False, True):
        assert np.array_equal(sheet.values(out, compiled), -np.square(x))
        assert np.array_equal(nodes.arrays[one], np.square(x[::2]))


def test_what_does_not_change_is_copied_once():
    nodes = Nodes()
    _, one, _, number, *_ = columns(nodes)
    sheet = Sheet(nodes, nodes.apply(ca.OP_NEG, [nodes.stacked([one, number], 5)]))
    assert [len(w.sources) for w in sheet.work[0]] == [1]
    assert sheet.work[0][0].sources == (number,)


def test_zeros_are_spread_between_entries():
    nodes = Nodes()
    _, one, _, _, x, _ = columns(nodes)
    out = nodes.apply(ca.OP_NEG, [nodes.spread(one, np.array([6, 0, 3, 2, 5]), 8)])
    expected = np.zeros(8)
    expected[[6, 0, 3, 2, 5]] = np.square(x[::2])
    sheet = Sheet(nodes, out)
    for compiled in (False, True):
        assert np.array_equal(sheet.values(out, compiled), -expected)
