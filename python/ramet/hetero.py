"""Networks on graphs with several types of nodes and edges, and batches of fixed size for them.

    graph = HeteroGraph(m, nodes={"author": 400, "paper": 900}, edges={("author", "writes", "paper"): 2000})
    x = hetero_sage(m, graph, {"author": a, "paper": p}, "layer.0", 64)   # by type of nodes

    loader = HeteroNeighborLoader(fields, edges, fanout={("author", "writes", "paper"): [10, 5]}, seeds=("paper", numbers),
                                  batch=512, labels=labels)
    graph = loader.graph(m)
    data = loader.data()

An edge type is (type of sources, name, type of targets). A node sums over the edges that end in it, in the order of their
sources, and a layer sums over the edge types in the order in which the graph has them: the same bits on every layout.
"""
import hashlib

import numpy as np

from ramet import _ramet as ops
from ramet.errors import ShapeError
from ramet.graphs import Graph, lists
from ramet.graphs._edges import whole

ALL = np.iinfo(np.int64).max  # more edges than a node has

__all__ = ["HeteroGraph", "hetero_sage", "hetero_gat", "HeteroNeighborLoader", "hetero_of_set"]


def name_of(edge_type):
    """"author/writes/paper", as graph sets have it."""
    return "/".join(edge_type)


class HeteroGraph:
    """The edges of a graph with several types as inputs of the model `m`: `nodes` has the room for each type of nodes,
    `edges` that for each edge type. The inputs of an edge type have names like "author/writes/paper.source"."""

    def __init__(self, m, nodes, edges, samples=1):
        self.nodes, self.samples = dict(nodes), samples
        for each in edges:
            if unknown := [kind for kind in (each[0], each[2]) if kind not in self.nodes]:
                raise ShapeError("edges of a type of nodes without room", where=f"HeteroGraph: edges {name_of(each)}",
                                 found=f"no '{unknown[0]}' in nodes", expected=", ".join(self.nodes),
                                 remedy=f"Give nodes={{'{unknown[0]}': count, ...}}")
        self.edges = {each: Graph(m, nodes[each[2]], room, samples, name_of(each) + ".", sources=nodes[each[0]])
                      for each, room in edges.items()}

    def arrays(self, edge_index):
        """The arrays of the inputs for one sample: `edge_index` has [2, count] sources and targets of each edge type."""
        found = {}
        for each, edges in self.edges.items():
            found |= lists(edge_index[each], self.nodes[each[2]], edges.edges, name_of(each) + ".", self.nodes[each[0]])[0]
        return found


def _convolve(graph, x, name, conv):
    """conv(edge type, its edges, name) for each edge type whose sources have rows, summed by the type of targets."""
    sums = {}
    for each, edges in graph.edges.items():
        if each[0] in x and each[2] in x:
            found = conv(each, edges, f"{name}.{name_of(each)}")
            sums[each[2]] = found if each[2] not in sums else sums[each[2]] + found
    return sums


def hetero_sage(m, graph, x, name, out):
    """A GraphSAGE layer (Hamilton et al., arXiv 1706.02216) for each edge type: the transformed mean of the sources and
    the transformed target, as PyTorch Geometric's HeteroConv of SAGEConv. `x`: rows [samples, nodes, features] by type;
    the result has the types that edges end in."""
    def conv(each, edges, name):
        source, target = x[each[0]], x[each[2]]
        into = m.weight(name + ".lin_l.weight", [out, source.shape[-1]], ops.Init.fan_in())
        own = m.weight(name + ".lin_r.weight", [out, target.shape[-1]], ops.Init.fan_in())
        bias = m.weight(name + ".lin_l.bias", [out])
        mean = edges.neighbor_mean(source)
        return ops.linear(mean, into, bias) + ops.matmul(target, own, transpose_b=True)
    return _convolve(graph, x, name, conv)


def hetero_gat(m, graph, x, name, out, heads=1, slope=0.2):
    """A graph attention layer (Velickovic et al., arXiv 1710.10903) for each edge type, each with its own softmax, as
    PyTorch Geometric's HeteroConv of GATConv without self loops. The result has heads * out features."""
    def conv(each, edges, name):
        def moved(side, rows):
            weight = m.weight(f"{name}.lin_{side}.weight", [heads * out, rows.shape[-1]], ops.Init.fan_in())
            product = ops.matmul(rows, weight, transpose_b=True)
            vector = m.weight(f"{name}.att_{side}", [heads, out], ops.Init.fan_in())
            apart = ops.reshape(product, [*rows.shape[:2], heads, out])
            return product, ops.reduce_sum(apart * vector, [3])
        source, of_source = moved("src", x[each[0]])
        _, of_target = moved("dst", x[each[2]])
        shares = edges.softmax(ops.leaky_relu(edges.of_sources(of_source) + edges.of_targets(of_target), slope))
        return edges.neighbor_sum(source, shares) + m.weight(name + ".bias", [heads * out])
    return _convolve(graph, x, name, conv)


def hetero_of_set(tensors, schema=None):
    """Fields of nodes by type and edges by edge type of a graph set with one graph (ramet.graphs.read_set): what
    HeteroNeighborLoader takes."""
    edges = {tuple(name[:-len(".index")].split("/")): tensors[name] for name in tensors
             if name.endswith(".index") and name.count("/") == 2}
    types = {each for source, _, target in edges for each in (source, target)}
    fields = {each: {name[len(each) + 1:]: tensors[name] for name in tensors
                     if name.startswith(each + ".") and not name.endswith(".ptr")} for each in sorted(types)}
    return fields, edges


def _mixed(numbers):
    """Random 64-bit words of whole numbers: splitmix64."""
    with np.errstate(over="ignore"):
        z = np.asarray(numbers, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


class HeteroNeighborLoader:
    """Batches of a large graph with several types: `batch` seeds of one type, and around them up to fanout[edge type][h]
    edges of each edge type into each node of hop h, drawn without replacement. Batch i is a pure function of the data, the
    options and i.

    `fields`: {type: {name: array [nodes, ...]}}, one or more for each type; `edges`: {edge type: [2, count]}; `seeds`:
    (type, numbers or mask). A fan-out of -1 takes all edges. `labels`: of all nodes of that type; the input "labels" has those of the seeds, and -1 for other
    nodes. The room of each type is the exact maximum over the batches of `epochs`, unless `room` = {type or edge type:
    count} is given: a batch that does not fit is refused with an error that names the type. Seeds come in a new order in
    every epoch with `shuffle`."""

    def __init__(self, fields, edges, fanout, seeds, batch, labels=None, epochs=1, shuffle=True, seed=0, room=None):
        self.fields = {each: {name: np.asarray(array) for name, array in of.items()} for each, of in fields.items()}
        self.sizes = {each: self._size(each, of) for each, of in self.fields.items()}
        self.type, self.seeds = seeds[0], self._numbers(*seeds)
        self.labels = None if labels is None else np.asarray(labels, np.int32)
        self.batch, self.shuffle, self.seed = batch, shuffle, seed
        self.hops = max(len(each) for each in fanout.values())
        self.fanout = {each: [ALL if count < 0 else count for count in counts] + [0] * (self.hops - len(counts))
                       for each, counts in fanout.items()}
        self._check(edges, batch)
        self.edges = {}
        for each in fanout:
            source, target = whole(edges[each], f"edges {name_of(each)}")
            order = np.lexsort((source, target))
            pointers = np.searchsorted(target[order], np.arange(self.sizes[each[2]] + 1))
            self.edges[each] = source[order], pointers, order
        self.batches = -(-len(self.seeds) // batch)
        self.room = dict(room) if room else self._largest(epochs)

    @staticmethod
    def _size(kind, fields):
        """How many nodes a type has: rows of its fields."""
        found = {name: len(array) if array.ndim else 0 for name, array in fields.items()}
        if len(set(found.values())) != 1:
            raise ShapeError("fields of different lengths" if found else "a type of nodes without a field",
                             where=f"HeteroNeighborLoader: nodes '{kind}'", found=", ".join(f"{name} {count}" for name, count in found.items()),
                             expected="one row for each node in one or more fields",
                             remedy=f"Nodes without features can have their numbers: fields['{kind}'] = {{'number': np.arange(count)}}")
        return next(iter(found.values()))

    def _hash(self):
        """A hash of all that a batch is made of, beside the options."""
        made = hashlib.sha256()
        parts = {f"field {kind}.{name}": array for kind, of in self.fields.items() for name, array in of.items()}
        parts |= {f"edges {name_of(each)} {i}": array for each, of in self.edges.items() for i, array in enumerate(of)}
        parts |= {f"seeds {self.type}": self.seeds} | ({} if self.labels is None else {"labels": self.labels})
        for name, array in parts.items():
            made.update(f"{name} {array.dtype} {array.shape};".encode())
            made.update(np.ascontiguousarray(array).data)
        return made.hexdigest()

    def _numbers(self, kind, seeds):
        """The seeds as numbers of nodes: numbers already, or a mask of all nodes of their type."""
        if kind not in self.sizes:
            raise ValueError(f"the seeds are of '{kind}', which has no field; fields are of {', '.join(self.sizes)}")
        seeds = np.asarray(seeds)
        if seeds.dtype != bool:
            return whole(seeds, f"seeds of '{kind}'")
        if seeds.shape != (self.sizes[kind],):
            raise ValueError(f"the mask of seeds is {list(seeds.shape)}, and there are {self.sizes[kind]} nodes of '{kind}'")
        return np.flatnonzero(seeds)

    def _check(self, edges, batch):
        for each in self.fanout:
            if each not in edges:
                raise ValueError(f"the graph has no edges {name_of(each)}")
            ends = np.asarray(edges[each])
            if ends.ndim != 2 or len(ends) != 2:
                raise ValueError(f"the edges {name_of(each)} are {list(ends.shape)}, and not [2, count]")
            for row, kind in ((0, each[0]), (1, each[2])):
                if kind not in self.sizes:
                    raise ValueError(f"nodes '{kind}' of the edges {name_of(each)} have no field")
                if ends.shape[1] and not 0 <= ends[row].min() <= ends[row].max() < self.sizes[kind]:
                    raise ValueError(f"an edge {name_of(each)} has a node that there is not among {self.sizes[kind]} of '{kind}'")
        if batch < 1 or not len(self.seeds) or not 0 <= self.seeds.min() <= self.seeds.max() < self.sizes[self.type]:
            raise ValueError(f"{len(self.seeds)} seeds in batches of {batch} are not among {self.sizes[self.type]} nodes of '{self.type}'")

    def _largest(self, epochs):
        room = {each: 1 for each in (*self.sizes, *self.edges)}
        for i in range(epochs * self.batches):
            nodes, edges = self.sample(i)
            for each, found in (*((each, len(of)) for each, of in nodes.items()), *((each, of.shape[1]) for each, of in edges.items())):
                room[each] = max(room[each], found)
        return room

    def _seeds_of(self, i):
        epoch, at = divmod(i, self.batches)
        order = np.arange(len(self.seeds))
        if self.shuffle:
            order = np.argsort(_mixed(_mixed(_mixed(self.seed) + np.uint64(epoch)) ^ _mixed(order)), kind="stable")
        return self.seeds[order[at * self.batch:(at + 1) * self.batch]]

    def sample(self, i):
        """Batch i: the numbers of its nodes by type, seeds first, and its edges by edge type, [2, count] places of their
        ends among these."""
        return self.sample_with_edges(i)[:2]

    def sample_with_edges(self, i):
        """The same, and the numbers of the edges by edge type, as the loader was given them."""
        nodes = {each: np.zeros(0, np.int64) for each in self.sizes}
        place = {each: np.full(size, -1, np.int64) for each, size in self.sizes.items()}
        chosen, numbers = {each: [] for each in self.edges}, {each: [] for each in self.edges}
        fresh = {each: np.zeros(0, np.int64) for each in self.sizes}

        def add(kind, numbers):
            numbers = numbers[place[kind][numbers] < 0]
            place[kind][numbers] = len(nodes[kind]) + np.arange(len(numbers))
            nodes[kind] = np.concatenate([nodes[kind], numbers])
            return numbers

        fresh[self.type] = add(self.type, self._seeds_of(i))
        for hop in range(self.hops):
            found = {each: [] for each in self.sizes}
            for number, (each, (source, pointers, order)) in enumerate(self.edges.items()):
                at, target = self._draw(i, hop, number, each, fresh[each[2]], pointers)
                chosen[each].append(np.stack([source[at], target]))
                numbers[each].append(order[at])
                found[each[0]].append(source[at])
            fresh = {each: add(each, np.unique(np.concatenate(of)) if of else np.zeros(0, np.int64)) for each, of in found.items()}
        edges = {}
        for each, of in chosen.items():
            source, target = np.concatenate(of, axis=1)
            edges[each] = np.stack([place[each[0]][source], place[each[2]][target]])
        return nodes, edges, {each: np.concatenate(of) for each, of in numbers.items()}

    def _draw(self, i, hop, number, each, targets, pointers):
        """Edges into the nodes `targets`: those of the least random words of each node."""
        counts = pointers[targets + 1] - pointers[targets]
        of = np.repeat(np.arange(len(targets)), counts)
        at = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(pointers[targets], counts)
        with np.errstate(over="ignore"):
            key = _mixed(_mixed(_mixed(self.seed) + np.uint64(i)) + np.uint64(hop * len(self.edges) + number))
        order = np.lexsort((_mixed(key ^ _mixed(at)), of))
        of, at = of[order], at[order]
        rank = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = rank < self.fanout[each][hop]
        return at[kept], targets[of[kept]]

    def graph(self, m):
        """The edges of a batch as inputs of the model `m`."""
        return HeteroGraph(m, {each: self.room[each] for each in self.sizes}, {each: self.room[each] for each in self.edges})

    def inputs(self, m):
        """The fields as inputs of the model, {type: {name: tensor [1, room, ...]}}, and the input "labels" or None."""
        made = {each: {name: m.input(f"{each}.{name}", str(array.dtype).replace("float", "f").replace("uint", "u").replace("int", "i"),
                                     [1, self.room[each], *array.shape[1:]]) for name, array in of.items()}
                for each, of in self.fields.items()}
        return made, None if self.labels is None else m.input("labels", "i32", [1, self.room[self.type]])

    def arrays(self, i):
        """Batch i as the arrays of all inputs."""
        nodes, edges = self.sample(i)
        for each, found in (*((each, len(of)) for each, of in nodes.items()), *((each, of.shape[1]) for each, of in edges.items())):
            if found > self.room[each]:
                kind = each if isinstance(each, str) else name_of(each)
                raise ValueError(f"batch {i} has {found} of '{kind}', and there is room for {self.room[each]}")
        made = {}
        for each, of in self.fields.items():
            for name, array in of.items():
                rows = np.zeros((1, self.room[each], *array.shape[1:]), array.dtype)
                rows[0, :len(nodes[each])] = array[nodes[each]]
                made[f"{each}.{name}"] = rows
        if self.labels is not None:
            labels = np.full((1, self.room[self.type]), -1, np.int32)
            seeds = min(self.batch, len(self._seeds_of(i)))
            labels[0, :seeds] = self.labels[nodes[self.type][:seeds]]
            made["labels"] = labels
        for each, of in edges.items():
            made |= lists(of, self.room[each[2]], self.room[each], name_of(each) + ".", self.room[each[0]])[0]
        return made

    def data(self):
        """Samples for ramet.Training: sample i is batch i."""
        def fill(first, count):
            made = [self.arrays(i) for i in range(first, first + count)]
            return {name: np.concatenate([each[name] for each in made]) for name in made[0]}
        options = f"{self.batch} {self.seed} {self.shuffle} {sorted(self.room.items(), key=str)} {self.fanout}"
        return ops.Data.source(fill, samples=self.batches, identity=f"hetero {options} {self._hash()}")
