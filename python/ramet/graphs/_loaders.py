"""Batches of graphs that all have one size, made by Ramet's loaders. The names are those of PopTorch Geometric."""

import enum
import itertools

import numpy as np

from ramet import _ramet
from ramet.errors import Error, ShapeError, UnsupportedOp

from ._edges import whole
from ._epochs import Epochs, padded
from ._hetero_loaders import HeteroDataLoader, HeteroPartLoader, has_types
from ._sets import EDGE, NODE, GraphSet

OWN = {"batch", "ptr", "edge_index", "num_graphs", "n_id", "e_id", "batch_size", "nodes_mask", "edges_mask", "graphs_mask"}


class FixedSizeStrategy(enum.Enum):
    """How graphs come together in a batch."""

    PadToMax = 0
    """batch_size - 1 graphs each; the last batch of an epoch has the rest."""
    StreamPack = 1
    """Graphs in order, until the next one does not fit."""


class OverSizeStrategy(enum.Enum):
    """What happens to what does not fit."""

    Error = 0
    Skip = 1
    """Graphs that do not fit are left out, and counted in `skipped`."""
    TrimNodes = 2
    """Not supported: a graph without some of its nodes is another graph."""
    TrimEdges = 3
    """Of samples of one graph: the last edges are left out, and counted in `trimmed`."""
    TrimNodesAndEdges = 4
    """Not supported, as TrimNodes."""


class FixedSizeOptions:
    """Room of a batch. One node and one graph of it are kept for padding. `num_edges`: by default that of a complete
    graph. Values of padding: `node_pad_value` and so on, and `pad_graph_defaults` of some fields of graphs by name. Of several
    types both are dictionaries: nodes by type, one of each type for padding, and edges by (type of sources, name, type of
    targets)."""

    def __init__(self, num_nodes, num_edges=None, num_graphs=2, node_pad_value=0.0, edge_pad_value=0.0, graph_pad_value=0.0,
                 pad_graph_defaults=None):
        self.pad_values = {NODE: node_pad_value, EDGE: edge_pad_value, "graph": graph_pad_value}
        self.pad_graph_defaults = dict(pad_graph_defaults or {})
        self.num_graphs = int(num_graphs)
        if isinstance(num_nodes, dict) or isinstance(num_edges, dict):
            self._of_types(num_nodes, num_edges)
            return
        self.num_nodes = int(num_nodes)
        self.num_edges = int(num_edges) if num_edges is not None else self.num_nodes * (self.num_nodes - 1)
        if self.num_nodes < 2 or self.num_graphs < 2 or self.num_edges < 0:
            raise ShapeError("room for no graph", where="FixedSizeOptions", found=repr(self),
                             expected="at least 2 nodes and 2 graphs, of which one each is padding")

    def _of_types(self, num_nodes, num_edges):
        if not isinstance(num_nodes, dict) or not isinstance(num_edges, dict):
            raise ShapeError("room for types of nodes or of edges alone", where="FixedSizeOptions", expected="dictionaries of both")
        self.num_nodes = {key: int(count) for key, count in num_nodes.items()}
        self.num_edges = {key if isinstance(key, str) else "/".join(key): int(count) for key, count in num_edges.items()}
        if self.num_graphs < 2 or min(self.num_nodes.values()) < 1 or min(self.num_edges.values(), default=0) < 0:
            raise ShapeError("room for no graph", where="FixedSizeOptions", found=repr(self),
                             expected="at least 2 graphs and 1 node of each type, of which one each is padding")

    def pad_value(self, per, name):
        """What a field called `name` of "node", "edge" or "graph" has in padding."""
        return self.pad_graph_defaults.get(name, self.pad_values[per]) if per == "graph" else self.pad_values[per]

    @classmethod
    def from_dataset(cls, dataset, batch_size):
        """Room for any batch_size - 1 graphs of the set, and the padding."""
        largest = lambda ptr: int(np.sort(np.diff(ptr))[::-1][:batch_size - 1].sum())
        if has_types(dataset):
            if not isinstance(dataset, GraphSet):
                from .pyg import from_pyg
                dataset = from_pyg(dataset)
            return cls({key: largest(ptr) + 1 for key, ptr in dataset.node_ptr.items()},
                       {key: largest(ptr) for key, ptr in dataset.edge_ptr.items()}, batch_size)
        graphs = _set_of(dataset)
        return cls(largest(graphs.node_ptr[NODE]) + 1, largest(graphs.edge_ptr[EDGE]), batch_size)

    @classmethod
    def from_loader(cls, loader, sample_limit=1000):
        """Room for the batches that a loader of PyTorch Geometric gives, as far as its first `sample_limit` tell."""
        nodes, edges, graphs, several = {}, {}, 0, False
        for each in itertools.islice(loader, sample_limit):
            several, graphs = has_types(each), max(graphs, getattr(each, "num_graphs", 1))
            for counts, what, kinds in ((nodes, "num_nodes", each.node_types if several else [NODE]),
                                        (edges, "num_edges", each.edge_types if several else [EDGE])):
                for kind in kinds:
                    counts[kind] = max(counts.get(kind, 0), getattr(each[kind] if several else each, what))
        if not graphs:
            raise ShapeError("a loader without a batch", where="FixedSizeOptions.from_loader")
        nodes = {kind: count + 1 for kind, count in nodes.items()}
        return cls(nodes, edges, graphs + 1) if several else cls(nodes[NODE], edges[EDGE], graphs + 1)

    def __repr__(self):
        return f"FixedSizeOptions(num_nodes={self.num_nodes}, num_edges={self.num_edges}, num_graphs={self.num_graphs})"


def _set_of(dataset, exclude_keys=()):
    if not isinstance(dataset, GraphSet):
        from .pyg import from_pyg
        dataset = from_pyg(dataset, exclude_keys)
    if not dataset.homogeneous:
        raise UnsupportedOp("batches of several types of nodes or edges", where="loader",
                            found=", ".join((*dataset.node_ptr, *dataset.edge_ptr)),
                            remedy="Give a set of one type of nodes and one of edges: HeteroData.to_homogeneous()")
    return dataset


def _packs(graphs, batch, **options):
    source, target = graphs.edge_index[EDGE]
    if (members := options.get("members")) is not None and not len(members):
        raise Error("no graph, or no node, to make batches of", where=batch, expected="at least one number, or None for all")
    part = graphs.fields.get("node.part") if batch.startswith("clusters") else None
    return _ramet.GraphPacks(graphs.node_ptr[NODE], graphs.edge_ptr[EDGE], np.ascontiguousarray(source),
                             np.ascontiguousarray(target), batch, part=None if part is None else part.astype(np.int64), **options)


def _without(pack, keep):
    """A pack of whole graphs with some of them alone; `keep`: true for those."""
    ptr = pack["graph_ptr"]
    nodes = np.repeat(keep, np.diff(ptr))
    edges = nodes[pack["target"]]
    place = np.cumsum(nodes) - 1
    return pack | {"graphs": pack["graphs"][keep], "nodes": pack["nodes"][nodes], "edges": pack["edges"][edges],
                   "graph_ptr": np.concatenate([[0], np.cumsum(np.diff(ptr)[keep])]),
                   "source": place[pack["source"][edges]], "target": place[pack["target"][edges]]}


class _Loader(Epochs):
    """Batches of one type of nodes and one of edges. `batch(epoch, i)` is a pure function of the set, the loader's options, the
    epoch and i."""

    def __init__(self, dataset, options, over_size_strategy, add_pad_masks, exclude_keys, others):
        super().__init__(others)
        if over_size_strategy not in self.OVER_SIZE:
            raise UnsupportedOp(f"over_size_strategy {over_size_strategy.name}", where=type(self).__name__,
                                expected=" or ".join(each.name for each in self.OVER_SIZE),
                                remedy="Raise the room, or leave out what does not fit")
        self.graphs = _set_of(dataset, exclude_keys)
        self.gives_pyg = not isinstance(dataset, GraphSet)
        self.fixed_size_options, self.over_size_strategy = options, over_size_strategy
        self.add_pad_masks, self.keys = add_pad_masks, {}
        for key in self.graphs.fields:
            of, _, name = key.rpartition(".")
            if name in exclude_keys or key in exclude_keys:
                continue
            if name in OWN or name in self.keys:
                raise Error("two arrays of one name in a batch", where=f"field '{key}'", found=self.keys.get(name, name),
                            remedy=f"Rename the field, or give exclude_keys=['{key}']")
            self.keys[name] = key

    def batches(self, epoch):
        """How many batches an epoch has."""
        return self._packs.packs(epoch)

    def pack(self, epoch, number):
        """What a batch holds: graphs, nodes and edges by number, as ramet.GraphPacks.pack tells it."""
        self._check_number(epoch, number)
        return self._packs.pack(self._packs.first(epoch) + number)

    def batch(self, epoch, number):
        """A batch: a dictionary of arrays; what PyTorch Geometric has for it where the graphs were given so."""
        made = self._arrays(self.pack(epoch, number), f"batch {number} of epoch {epoch}")
        if self.gives_pyg:
            from .pyg import batch_of
            return batch_of(made, {name: key.rpartition(".")[0] for name, key in self.keys.items()})
        return made

    def _fitting(self, pack, where):
        """The pack, or what of it fits the room."""
        room = self.fixed_size_options
        sizes = np.diff(pack["graph_ptr"])
        edges = np.bincount(np.searchsorted(pack["graph_ptr"], pack["target"], side="right") - 1, minlength=len(sizes))
        if sizes.sum() < room.num_nodes and edges.sum() <= room.num_edges and len(sizes) < room.num_graphs:
            return pack
        if self.over_size_strategy != OverSizeStrategy.Skip:
            raise Error("a batch does not fit its room", where=where,
                        found=f"{len(sizes)} graphs, {sizes.sum()} nodes, {edges.sum()} edges",
                        expected=f"at most {room.num_graphs - 1} graphs, {room.num_nodes - 1} nodes, {room.num_edges} edges",
                        remedy="Raise the room, or leave out what does not fit (OverSizeStrategy.Skip)")
        keep, nodes, links = np.zeros(len(sizes), bool), 0, 0
        for i, (size, more) in enumerate(zip(sizes, edges)):
            if nodes + size < room.num_nodes and links + more <= room.num_edges and keep.sum() + 1 < room.num_graphs:
                keep[i], nodes, links = True, nodes + size, links + more
        self.skipped += int((~keep).sum())
        return _without(pack, keep)

    def _arrays(self, pack, where):
        pack, room = self._fitting(pack, where), self.fixed_size_options
        nodes, edges, graphs = len(pack["nodes"]), len(pack["edges"]), len(pack["graphs"])
        self.trimmed += pack["trimmed"]
        rooms = {NODE: (room.num_nodes, pack["nodes"]), EDGE: (room.num_edges, pack["edges"]),
                 "graph": (room.num_graphs, pack["graphs"])}

        batch = {}
        for name, key in self.keys.items():
            of, values = key.rpartition(".")[0], self.graphs.fields[key]
            count, rows = rooms[of]
            batch[name] = padded(values[rows], count, room.pad_value(of, name))
        batch["edge_index"] = np.stack([padded(pack[each], room.num_edges, nodes, np.int64) for each in ("source", "target")])
        # Padding: all nodes are in the last graph, and edges join the first of them to itself. Graphs between are empty.
        ptr = padded(pack["graph_ptr"], room.num_graphs + 1, nodes, np.int64)
        ptr[-1] = room.num_nodes
        batch["ptr"], batch["batch"] = ptr, np.repeat(np.arange(room.num_graphs), np.diff(ptr))
        if self.add_pad_masks:
            for name, count, real in (("nodes_mask", room.num_nodes, nodes), ("edges_mask", room.num_edges, edges),
                                      ("graphs_mask", room.num_graphs, graphs)):
                batch[name] = np.arange(count) < real
        if pack["seeds"] >= 0:
            batch["batch_size"] = pack["seeds"]
        if self.SAMPLES:
            batch["n_id"] = padded(pack["nodes"], room.num_nodes, -1, np.int64)
            batch["e_id"] = padded(pack["edges"], room.num_edges, -1, np.int64)
        batch["num_graphs"] = room.num_graphs
        return batch


class FixedSizeDataLoader(_Loader):
    """Batches of whole graphs. `dataset`: a GraphSet, or what PyTorch Geometric has: a Dataset, a list of Data, a Batch.
    `batch_size` counts the graph that is kept for padding, as num_graphs of `fixed_size_options` does. `seed` decides the
    order of a shuffled epoch. Graphs of several types: HeteroDataLoader."""

    OVER_SIZE = (OverSizeStrategy.Error, OverSizeStrategy.Skip)
    SAMPLES = False

    def __new__(cls, dataset, *options, **more):
        return HeteroDataLoader(dataset, *options, **more) if has_types(dataset) else super().__new__(cls)

    def __init__(self, dataset, batch_size=2, shuffle=False, fixed_size_options=None,
                 fixed_size_strategy=FixedSizeStrategy.PadToMax, over_size_strategy=OverSizeStrategy.Error, add_pad_masks=True,
                 exclude_keys=(), seed=0, **others):
        super().__init__(dataset, fixed_size_options, over_size_strategy, add_pad_masks, exclude_keys, others)
        self._check_room(batch_size)
        room = self.fixed_size_options = fixed_size_options or FixedSizeOptions.from_dataset(self.graphs, batch_size)
        self._shuffled = (shuffle, seed)
        self._stream = fixed_size_strategy == FixedSizeStrategy.StreamPack
        self._epochs = {}
        if self._stream:
            self._of_epoch(0)
            return
        skips = over_size_strategy == OverSizeStrategy.Skip
        self._packs = _packs(self.graphs, f"count:{batch_size - 1}", shuffle=shuffle, seed=seed, trim=skips,
                             room=(0, room.num_nodes - 1, room.num_edges) if skips else (0, 0, 0))
        self.skipped = self._packs.skipped

    def _of_epoch(self, epoch):
        """The lists of graphs of the packs of an epoch."""
        if epoch not in self._epochs:
            shuffle, seed = self._shuffled
            room = self.fixed_size_options
            order = _packs(self.graphs, f"count:{len(self.graphs)}", shuffle=shuffle, seed=seed).pack(epoch)["graphs"]
            sampler = StreamPackingSampler(self.graphs, room.num_graphs - 1, room.num_nodes - 1, room.num_edges, base_sampler=order,
                                           allow_skip_data=self.over_size_strategy == OverSizeStrategy.Skip)
            self._epochs = {epoch: (sampler, list(sampler))}
            self.skipped = sampler.skipped
        return self._epochs[epoch]

    def batches(self, epoch):
        return len(self._of_epoch(epoch)[1]) if self._stream else super().batches(epoch)

    def pack(self, epoch, number):
        return self._of_epoch(epoch)[0].pack(number) if self._stream else super().pack(epoch, number)


class StreamPackingSampler:
    """Lists of numbers of graphs: in order, as many as fit. `data_source`: as of FixedSizeDataLoader. `base_sampler`: the
    order of the graphs, by default that of the set. `allow_skip_data`: graphs that do not fit alone are left out, and
    counted in `skipped`; otherwise they are an error."""

    def __init__(self, data_source, max_num_graphs, max_num_nodes=None, max_num_edges=None, base_sampler=None,
                 allow_skip_data=False):
        graphs = _set_of(data_source)
        order = np.arange(len(graphs)) if base_sampler is None else np.fromiter(base_sampler, np.int64)
        total = int(graphs.node_ptr[NODE][-1]), int(graphs.edge_ptr[EDGE][-1])
        nodes, edges = max_num_nodes or max(1, total[0]), max_num_edges or max(1, total[1])
        self._packs = _packs(graphs, f"stream:{nodes}:{edges}", room=(max_num_graphs, 0, 0), members=order, shuffle=False,
                             trim=allow_skip_data)
        self.skipped = self._packs.skipped
        self._count, self._numbers = len(order) - self.skipped, []
        while (done := sum(map(len, self._numbers))) < self._count:
            # The last pack would go on with the graphs of the next epoch.
            self._numbers.append(self._packs.pack(len(self._numbers))["graphs"][:self._count - done].tolist())

    def __iter__(self):
        return iter(self._numbers)

    def __len__(self):
        return len(self._numbers)

    def pack(self, number):
        """What pack `number` holds, as ramet.GraphPacks.pack tells it."""
        pack = self._packs.pack(number)
        return _without(pack, np.arange(len(pack["graphs"])) < len(self._numbers[number]))


class _PartLoader(_Loader):
    """Batches of parts of one graph."""

    OVER_SIZE = (OverSizeStrategy.Error, OverSizeStrategy.TrimEdges)
    SAMPLES = True

    def _open(self, batch, options, **how):
        room = options and (1, options.num_nodes - 1, options.num_edges) or (0, 0, 0)
        self._packs = _packs(self.graphs, batch, room=room, trim=self.over_size_strategy == OverSizeStrategy.TrimEdges, **how)
        if options is None:
            _, nodes, edges = self._packs.room
            self.fixed_size_options = FixedSizeOptions(nodes + 1, edges, 2)


class FixedSizeNeighborLoader(_PartLoader):
    """Neighbours of `batch_size` nodes (Hamilton et al., arXiv 1706.02216): at most num_neighbors[h] edges into each node in
    hop h; -1: all. The first `batch_size` nodes of a batch are those that it was drawn for; n_id and e_id are the numbers of its
    nodes and edges, -1 for padding. `input_nodes`: numbers or a mask of the nodes to draw for. Without `fixed_size_options` the room
    is the maximum of the first epoch and a tenth more. A graph of several types: HeteroPartLoader."""

    def __new__(cls, data, *options, **more):
        return HeteroPartLoader(data, *options, **more) if has_types(data) else super().__new__(cls)

    def __init__(self, data, num_neighbors, input_nodes=None, fixed_size_options=None, batch_size=1, shuffle=False,
                 over_size_strategy=OverSizeStrategy.Error, add_pad_masks=True, exclude_keys=(), seed=0, **others):
        super().__init__(data, fixed_size_options, over_size_strategy, add_pad_masks, exclude_keys, others)
        if input_nodes is not None:
            input_nodes = np.asarray(input_nodes)
            input_nodes = np.flatnonzero(input_nodes) if input_nodes.dtype == bool else whole(input_nodes, "input_nodes")
        self._open(f"neighbors:{batch_size}:{','.join(str(each) for each in num_neighbors)}", fixed_size_options,
                   members=input_nodes, shuffle=shuffle, seed=seed)


class FixedSizeClusterLoader(_PartLoader):
    """Clusters of one graph, `batch_size` of them, with all edges among their nodes (Chiang et al., arXiv 1905.07953). `part`:
    the cluster of each node; without it the field node.part of the set, which `ramet graphs prepare --apply metis=K` makes."""

    OVER_SIZE = (OverSizeStrategy.Error,)

    def __init__(self, data, fixed_size_options=None, batch_size=1, part=None, shuffle=False,
                 over_size_strategy=OverSizeStrategy.Error, add_pad_masks=True, exclude_keys=(), seed=0, **others):
        super().__init__(data, fixed_size_options, over_size_strategy, add_pad_masks, exclude_keys, others)
        if part is not None:
            self.graphs = GraphSet(self.graphs.node_ptr, self.graphs.edge_ptr, self.graphs.edge_index,
                                   self.graphs.fields | {"node.part": whole(part, "part")}, self.graphs.missing)
        if "node.part" not in self.graphs.fields:
            raise Error("clusters of a graph that has none", where="FixedSizeClusterLoader",
                        remedy="Give part=, the cluster of each node; `ramet graphs prepare --apply metis=K` makes one")
        self._open(f"clusters:{batch_size}", fixed_size_options, shuffle=shuffle, seed=seed)
