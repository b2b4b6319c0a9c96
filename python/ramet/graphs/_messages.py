"""The edges of a graph as inputs of a model, and the arrays of these inputs."""
import numpy as np

from ramet import _ramet as ops
from ramet.errors import ShapeError

from ._edges import check_ends, edge_list, whole


class Graph:
    """The edges of a graph, or of `samples` graphs of one size, as inputs of the model `m`. Rows of nodes are [samples,
    nodes, ...], rows of edges [samples, edges, ...]. `lists` makes the arrays of these inputs, whose names begin with
    `name`. Where edges come from rows of another kind, `sources` is the number of these: functions of targets then take
    rows [samples, nodes, ...], and functions of sources rows [samples, sources, ...]."""

    def __init__(self, m, nodes, edges, samples=1, name="", sources=None):
        self.nodes, self.edges, self.samples = nodes, edges, samples
        self.source, self.target, self.by_source = (
            m.input(name + each, "i32", [samples, edges]) for each in ("source", "target_of", "by_source"))
        self.ptr = m.input(name + "ptr", "i32", [samples, nodes + 1])
        self.source_ptr = m.input(name + "source_ptr", "i32", [samples, (nodes if sources is None else sources) + 1])

    def of_sources(self, x):
        """For each edge the row of the node that it comes from."""
        return ops.gather_rows(x, self.source)

    def of_targets(self, x):
        """For each edge the row of the node that it ends in."""
        return ops.segment_expand(x, self.ptr, self.edges)

    def sum(self, messages):
        """For each node the sum over the edges that end in it; so with the others. Without edges it is 0."""
        return ops.segment_sum(messages, self.ptr)

    def mean(self, messages):
        return ops.segment_mean(messages, self.ptr)

    def max(self, messages):
        return ops.segment_max(messages, self.ptr)

    def min(self, messages):
        return ops.segment_min(messages, self.ptr)

    def softmax(self, scores):
        """For each edge its share among the edges of its target."""
        return ops.segment_softmax(scores, self.ptr)

    def neighbor_sum(self, x, weight=None):
        """sum(weight * of_sources(x)), without a row for each edge. `weight`: one number an edge, or one a head."""
        return ops.neighbor_sum(x, self.source, self.ptr, self.target, self.by_source, self.source_ptr, weight)

    def neighbor_mean(self, x):
        """The mean of `of_sources(x)`, without a row for each edge."""
        counts = ops.slice_axis(self.ptr, 1, 1, self.nodes + 1) - ops.slice_axis(self.ptr, 1, 0, self.nodes)
        counts = ops.reshape(ops.cast(counts, "f32"), [self.samples, self.nodes, 1])
        return self.neighbor_sum(x) / ops.clamp(counts, 1.0, None)

    def neighbor_dot(self, a, b, heads=0):
        """For each edge the product of its target's row of `a` and its source's row of `b`."""
        return ops.neighbor_dot(a, b, self.source, self.ptr, self.target, self.by_source, self.source_ptr, heads)


class RelationGraph:
    """The edges of a graph with relations, or of `samples` graphs of one size, as inputs of the model `m`, for messages along
    paths (Zhu et al., arXiv 2106.06935). `relation_lists` makes the arrays of these inputs. A message is what the row
    of the edge's relation, of `relations` [samples, relations, F], makes of the source's row of `x` [samples, nodes, F]:
    "product", "sum", or "rotation" of complex numbers with the real parts in the first half of each run of `width`
    features (0: of all). Every node has a message of its own, `own` [samples, nodes, F]. No tensor of edges exists."""

    def __init__(self, m, nodes, edges, samples=1, name=""):
        self.nodes, self.edges, self.samples = nodes, edges, samples
        self.source, self.relation = (m.input(name + each, "i32", [samples, edges]) for each in ("source", "edge_relation"))
        self.ptr = m.input(name + "ptr", "i32", [samples, nodes + 1])

    def sum(self, own, x, relations, message="product", width=0):
        """For each node the sum of its own message and those of the edges that end in it."""
        return ops.path_sum(own, x, relations, self.source, self.relation, self.ptr, message, width)

    def statistics(self, own, x, relations, message="product", width=0):
        """Of the same messages the sum, the sum of squares, the greatest and the least, in one walk over the edges."""
        return ops.path_statistics(own, x, relations, self.source, self.relation, self.ptr, message, width)

    def counts(self):
        """How many messages each node has, its own among them: [samples, nodes, 1]."""
        counts = ops.slice_axis(self.ptr, 1, 1, self.nodes + 1) - ops.slice_axis(self.ptr, 1, 0, self.nodes)
        return ops.reshape(ops.cast(counts, "f32"), [self.samples, self.nodes, 1]) + 1.0


def relation_lists(edge_index, relation, nodes, edges=None, name=""):
    """The arrays of RelationGraph's inputs for one sample: the edges as in `lists`, and the relation of each."""
    made, order = lists(edge_index, nodes, edges, name)
    room, kinds = made[name + "source"].shape[1], whole(relation, name + "relation")
    if kinds.shape != order.shape:
        raise ShapeError("not one relation an edge", where=name + "relation", found=str(list(kinds.shape)), expected=str([len(order)]))
    kinds = kinds[order].astype(np.int32)
    return {name + "source": made[name + "source"], name + "ptr": made[name + "ptr"],
            name + "edge_relation": np.pad(kinds, (0, room - len(kinds)))[None]}


def lists(edge_index, nodes, edges=None, name="", sources=None):
    """The arrays of Graph's inputs for one sample, [1, ...]: `edge_index` [2, count] has the sources and the targets of
    the edges in any order, numbered below `nodes`; `sources` bounds the sources where these are of another kind. `edges` is
    the room for them. Also gives "order": the edge that stands
    at each place, for arrays of values of edges."""
    where = name + "edge_index"
    source, target = edge_list(edge_index, where)
    room = len(source) if edges is None else edges
    sources = nodes if sources is None else sources
    if len(source) > room:
        raise ShapeError("more edges than there is room for", where=where, found=str(len(source)), expected=f"at most {room}")
    check_ends(source, sources, where + ", sources")
    check_ends(target, nodes, where + ", targets")
    order = np.lexsort((source, target))
    source, target = source[order], target[order]
    by_source = np.argsort(source, kind="stable")
    pointers = lambda ends, rows: np.searchsorted(np.sort(ends), np.arange(rows + 1)).astype(np.int32)[None]
    padded = lambda values: np.pad(values, (0, room - len(values))).astype(np.int32)[None]
    return {name + "source": padded(source), name + "target_of": padded(target[by_source]), name + "by_source": padded(by_source),
            name + "ptr": pointers(target, nodes), name + "source_ptr": pointers(source, sources)}, order
