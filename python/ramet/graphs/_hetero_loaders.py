"""Batches of one size of graphs with several types of nodes and edges. The loaders of `_loaders` give them for such graphs."""

import numpy as np

from ramet import _ramet
from ramet.errors import Error, ShapeError, UnsupportedOp

from ._epochs import Epochs, padded
from ._sets import GraphSet


def has_types(dataset):
    """Whether graphs have several types of nodes or edges: a GraphSet, or what PyTorch Geometric has."""
    if isinstance(dataset, GraphSet):
        return not dataset.homogeneous
    of_types = lambda each: hasattr(each, "node_types") and hasattr(each, "edge_types")
    return of_types(dataset) or (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not hasattr(dataset, "edge_index")
                                 and len(dataset) > 0 and of_types(dataset[0]))


def type_of(key):
    """("author", "writes", "paper") of "author/writes/paper"."""
    return tuple(key.split("/"))


class _HeteroLoader(Epochs):
    """Batches of several types. A batch is a dictionary: for each type of nodes, and for each type of edges as (type of sources,
    name, type of targets), a dictionary of arrays; fields of graphs, masks and num_graphs by name. One node of each type is kept
    for padding. Edges of padding join such nodes."""

    def __init__(self, dataset, options, over_size_strategy, add_pad_masks, exclude_keys, others):
        super().__init__(others)
        name = type(self).__name__
        if over_size_strategy.name != "Error":
            raise UnsupportedOp(f"over_size_strategy {over_size_strategy.name} with several types", where=name, expected="Error",
                                remedy="Raise the room")
        self.gives_pyg = not isinstance(dataset, GraphSet)
        if self.gives_pyg:
            from .pyg import from_pyg
            dataset = from_pyg(dataset, exclude_keys)
        self.graphs, self.add_pad_masks, self.exclude = dataset, add_pad_masks, set(exclude_keys)
        if options is not None and not isinstance(options.num_nodes, dict):
            raise ShapeError("room for one type", where=name, found=repr(options), expected="num_nodes and num_edges by type")
        self.fixed_size_options = options

    def _check_options(self):
        for what, room, types in (("nodes", self.fixed_size_options.num_nodes, self.graphs.node_ptr),
                                  ("edges", self.fixed_size_options.num_edges, self.graphs.edge_ptr)):
            if set(room) != set(types):
                raise ShapeError(f"room for other types of {what} than the graphs have", where=type(self).__name__,
                                 found=", ".join(sorted(room)), expected=", ".join(sorted(types)))

    def _made(self, nodes, edges, ptr, seeds, where):
        """A batch of rows of nodes by type, and by type of edges of (rows, ends as places of nodes); `ptr` by type of nodes."""
        room, batch = self.fixed_size_options, {}
        for what, found, space, kept in (("nodes", {key: len(rows) for key, rows in nodes.items()}, room.num_nodes, 1),
                                         ("edges", {key: len(rows) for key, (rows, _) in edges.items()}, room.num_edges, 0)):
            for key, count in found.items():
                if count + kept > space[key]:
                    raise Error("a batch does not fit its room", where=where, found=f"{count} {what} of '{key}'",
                                expected=f"at most {space[key] - kept}", remedy="Raise the room")
        for key, rows in nodes.items():
            count = room.num_nodes[key]
            made = self._fields(key, rows, count, "node")
            ends = padded(np.asarray(ptr[key], np.int64), room.num_graphs + 1, len(rows))
            ends[-1] = count
            made |= {"ptr": ends, "batch": np.repeat(np.arange(room.num_graphs), np.diff(ends)), "num_nodes": count}
            if self.add_pad_masks:
                made["nodes_mask"] = np.arange(count) < len(rows)
            if seeds is not None:
                made["n_id"] = padded(rows.astype(np.int64), count, -1)
                if seeds[0] == key:
                    made["batch_size"] = seeds[1]
            batch[key] = made
        for key, (rows, ends) in edges.items():
            count, (source, _, target) = room.num_edges[key], type_of(key)
            made = self._fields(key, rows, count, "edge")
            made["edge_index"] = np.stack([padded(ends[0].astype(np.int64), count, len(nodes[source])),
                                           padded(ends[1].astype(np.int64), count, len(nodes[target]))])
            if self.add_pad_masks:
                made["edges_mask"] = np.arange(count) < len(rows)
            if seeds is not None:
                made["e_id"] = padded(rows.astype(np.int64), count, -1)
            batch[type_of(key)] = made
        return batch | {"num_graphs": room.num_graphs}

    def _given(self, batch):
        if self.gives_pyg:
            from .pyg import batch_of
            return batch_of(batch)
        return batch

    def _fields(self, of, rows, count, per):
        made = {}
        for key, values in self.graphs.fields.items():
            level, _, name = key.rpartition(".")
            if level == of and name not in self.exclude and key not in self.exclude:
                made[name] = padded(values[rows], count, self.fixed_size_options.pad_value(per, name))
        return made


class HeteroDataLoader(_HeteroLoader):
    """Batches of batch_size - 1 whole graphs of several types, and one that is padding: FixedSizeDataLoader of such graphs."""

    def __init__(self, dataset, batch_size=2, shuffle=False, fixed_size_options=None, fixed_size_strategy=None,
                 over_size_strategy=None, add_pad_masks=True, exclude_keys=(), seed=0, **others):
        from ._loaders import FixedSizeOptions, FixedSizeStrategy, OverSizeStrategy
        super().__init__(dataset, fixed_size_options, over_size_strategy or OverSizeStrategy.Error, add_pad_masks, exclude_keys, others)
        if fixed_size_strategy == FixedSizeStrategy.StreamPack:
            raise UnsupportedOp("packing of graphs of several types in streams", where="FixedSizeDataLoader",
                                expected="FixedSizeStrategy.PadToMax")
        self._check_room(batch_size)
        self.fixed_size_options = fixed_size_options or FixedSizeOptions.from_dataset(self.graphs, batch_size)
        self._check_options()
        none = np.zeros(0, np.int32)
        counts = np.arange(len(self.graphs) + 1, dtype=np.int64)  # the order is that of graphs of one node
        self._packs = _ramet.GraphPacks(counts, np.zeros_like(counts), none, none, f"count:{batch_size - 1}", shuffle=shuffle,
                                        seed=seed)

    def batches(self, epoch):
        """How many batches an epoch has."""
        return self._packs.packs(epoch)

    def batch(self, epoch, number):
        """A batch, a pure function of the graphs, the options and both numbers; of PyTorch Geometric's graphs its Batch."""
        self._check_number(epoch, number)
        chosen = self._packs.pack(self._packs.first(epoch) + number)["graphs"]
        rows = lambda ptr: [np.arange(ptr[graph], ptr[graph + 1]) for graph in chosen]
        nodes, ptr = {}, {}
        for key, of in self.graphs.node_ptr.items():
            parts = rows(of)
            nodes[key], ptr[key] = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
        edges = {}
        for key, of in self.graphs.edge_ptr.items():
            parts, (source, _, target) = rows(of), type_of(key)
            numbers, graph = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
            ends = self.graphs.edge_index[key][:, numbers]
            edges[key] = numbers, np.stack([ends[0] + ptr[source][graph], ends[1] + ptr[target][graph]])
        made = self._made(nodes, edges, ptr, None, f"batch {number} of epoch {epoch}")
        room = self.fixed_size_options
        of_graphs = self._fields("graph", chosen, room.num_graphs, "graph")
        if self.add_pad_masks:
            of_graphs["graphs_mask"] = np.arange(room.num_graphs) < len(chosen)
        return self._given(made | of_graphs)


class HeteroPartLoader(_HeteroLoader):
    """Neighbours of `batch_size` nodes of one type of a graph of several types: FixedSizeNeighborLoader of such a graph.
    `num_neighbors`: counts for all types of edges, or by type of edges; `input_nodes`: the type, or (type, numbers or mask)."""

    def __init__(self, data, num_neighbors, input_nodes=None, fixed_size_options=None, batch_size=1, shuffle=False,
                 over_size_strategy=None, add_pad_masks=True, exclude_keys=(), seed=0, **others):
        from ramet.hetero import HeteroNeighborLoader
        from ._loaders import FixedSizeOptions, OverSizeStrategy
        super().__init__(data, fixed_size_options, over_size_strategy or OverSizeStrategy.Error, add_pad_masks, exclude_keys, others)
        if len(self.graphs) != 1:
            raise ShapeError("parts of several graphs", where="FixedSizeNeighborLoader", found=f"{len(self.graphs)} graphs", expected="one")
        sizes = {key: int(ptr[1]) for key, ptr in self.graphs.node_ptr.items()}
        kind, numbers = (input_nodes, None) if isinstance(input_nodes, str) else input_nodes or (None, None)
        if kind not in sizes:
            raise Error("no type of nodes to draw for", where="input_nodes", found=str(kind), expected=", ".join(sizes),
                        remedy="Give input_nodes = (type, numbers or mask)")
        numbers = np.arange(sizes[kind]) if numbers is None else numbers
        fanout = num_neighbors if isinstance(num_neighbors, dict) else {type_of(key): num_neighbors for key in self.graphs.edge_ptr}
        self._type, self._batch_size, self._shuffle = kind, batch_size, shuffle
        none = {key: 1 << 62 for key in (*sizes, *map(type_of, self.graphs.edge_ptr))}
        self._samples = HeteroNeighborLoader(
            {key: {"number": np.arange(size)} for key, size in sizes.items()},
            {type_of(key): index for key, index in self.graphs.edge_index.items()}, fanout, (kind, numbers), batch_size,
            shuffle=shuffle, seed=seed, room=none if fixed_size_options else None)
        if fixed_size_options is None:
            wider = lambda count: count + (count + 9) // 10 if shuffle else count
            room = self._samples.room
            self.fixed_size_options = FixedSizeOptions({key: wider(room[key]) + 1 for key in sizes},
                                                       {key: wider(room.get(type_of(key), 0)) for key in self.graphs.edge_ptr}, 2)
        self._check_options()

    def batches(self, epoch):
        """How many batches an epoch has."""
        return self._samples.batches

    def batch(self, epoch, number):
        """A batch, a pure function of the graph, the options and both numbers; of a HeteroData another one."""
        self._check_number(epoch, number)
        at = epoch * self._samples.batches + number
        nodes, ends, numbers = self._samples.sample_with_edges(at)
        none = np.zeros(0, np.int64)
        edges = {key: (numbers.get(type_of(key), none), ends.get(type_of(key), np.zeros((2, 0), np.int64)))
                 for key in self.graphs.edge_ptr}
        seeds = min(self._batch_size, len(self._samples.seeds) - number * self._batch_size)
        return self._given(self._made(nodes, edges, {key: [0, len(rows)] for key, rows in nodes.items()}, (self._type, seeds),
                                      f"batch {number} of epoch {epoch}"))
