"""Checks of whole numbers and of lists of edges, so that no number is cut or wrapped silently."""

import numpy as np

from ramet.errors import Error, ShapeError


def whole(values, where):
    """An array of whole numbers as int64. An empty array may have elements of any type."""
    array = np.asarray(values)
    if array.size and (array.dtype.kind not in "iu" or array.dtype == np.uint64 and array.max() >= 2**63):
        raise ShapeError("numbers that are not whole, or do not fit 64 bits", where=where, found=str(array.dtype), expected="integers")
    return array.astype(np.int64, copy=False)


def edge_list(edge_index, where):
    """Sources and targets [2, edges] as int64."""
    array = whole(edge_index, where)
    if array.ndim != 2 or array.shape[0] != 2:
        raise ShapeError("no list of edges", where=where, found=str(list(array.shape)), expected="[2, edges]: sources, then targets")
    return array


def check_ends(ends, nodes, where):
    """Refuses numbers of nodes that there are not. `nodes`: how many there are, for all edges or for each."""
    bad = np.flatnonzero((ends < 0) | (ends >= nodes))
    if len(bad):
        count = int(np.broadcast_to(nodes, ends.shape)[bad[0]])
        raise Error("an edge names a node that its graph does not have", where=f"{where}, edge {bad[0]}", found=str(ends[bad[0]]),
                    expected=f"a number from 0 to {count - 1}" if count else "no edge: there are no nodes")
