"""Objects of PyTorch Geometric in and out: Data, HeteroData, Batch and Dataset as sets of graphs, and batches as Batch."""

import itertools

import numpy as np
import torch
from torch_geometric.data import Batch, Data, HeteroData

from ramet.errors import Error, UnsupportedOp

from ._sets import EDGE, NODE, GraphSet

INDEX = "edge_index"


def _array(key, value):
    if isinstance(value, (bool, int, float)):
        value = torch.tensor(value)
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.dtype == torch.bfloat16 or \
            value.dtype.is_complex:
        raise UnsupportedOp("an attribute that is no dense tensor of numbers", where=f"'{key}'",
                            found=str(getattr(value, "dtype", type(value).__name__)), remedy=f"Leave it out: exclude_keys=['{key}']")
    return value.detach().cpu().numpy()


def _check_edges(store, where):
    if "adj_t" in store or "adj" in store:
        raise UnsupportedOp("edges as a sparse matrix", where=f"{where}.adj_t",
                            remedy="Give edge_index: leave the transform ToSparseTensor out")
    if INDEX not in store:
        raise Error("a graph without edge_index", where=where)


def _fields_of(stores, of, count, exclude, others=()):
    """The arrays of some attributes by name, with what each has one value for: `of` for those with `count(store)` rows in every
    graph, of the levels in `others` likewise, else the graph."""
    found = {}
    for key in stores[0].keys():
        if key in exclude or key in (INDEX, "num_nodes", "ptr", "batch"):
            continue
        if any(key not in store for store in stores):
            raise Error("graphs with different attributes", where=f"'{key}'", remedy=f"Leave it out: exclude_keys=['{key}']")
        if "index" in key or key == "face":
            raise UnsupportedOp("an attribute of numbers of nodes", where=f"'{key}'", remedy=f"Leave it out: exclude_keys=['{key}']")
        arrays = [_array(key, store[key]) for store in stores]
        levels = [(of, count), *others] if "edge" not in key else [*others, (of, count)]
        per = next((level for level, rows in levels if all(each.ndim and len(each) == rows(store)
                                                           for each, store in zip(arrays, stores))), None)
        if per is None:
            per = "graph"
            arrays = [each[None] if each.ndim == 0 else each for each in arrays]
            if any(len(each) != 1 for each in arrays):
                raise UnsupportedOp("an attribute with neither a row for each node, nor for each edge, nor one row", where=f"'{key}'",
                                    found=str(list(arrays[0].shape)), remedy=f"Leave it out: exclude_keys=['{key}']")
        found[f"{per}.{key}"] = arrays
    return found


def _joined(fields):
    try:
        return {key: np.concatenate(arrays) for key, arrays in fields.items()}
    except ValueError as error:
        shapes = {key: sorted({each.shape[1:] for each in arrays}) for key, arrays in fields.items()}
        raise Error("an attribute of different shapes", where=", ".join(key for key, each in shapes.items() if len(each) > 1),
                    remedy="Give all graphs the same number of features") from error


def _ptr(counts):
    return list(itertools.accumulate(counts, initial=0))


def _set(node_ptr, edge_ptr, index, fields, missing):
    """The set of these arrays. Labels `y` are the one attribute of which NaN means, unasked, that the value is not known."""
    fields = _joined(fields)
    labels = [key for key, values in fields.items() if key.endswith(".y") and values.dtype.kind == "f" and np.isnan(values).any()]
    return GraphSet(node_ptr, edge_ptr, index, fields, {*missing, *labels})


def from_pyg(data, exclude_keys=(), missing=()):
    """A set of graphs of Data, HeteroData, a Batch, a Dataset, or a list of such graphs. An attribute with a row for each node
    (edge) in every graph is a field of nodes (edges), any other one of the graphs, which must have one row then. `missing`: keys of
    fields, such as "node.x", where NaN means that a value is not known; that of labels `y` may be missing without it."""
    graphs = data.to_data_list() if isinstance(data, Batch) else [data] if isinstance(data, (Data, HeteroData)) else \
        [data[i] for i in range(len(data))]
    if not graphs or not all(isinstance(each, (Data, HeteroData)) for each in graphs):
        raise Error("no graphs of PyTorch Geometric", where="from_pyg", found=type(data).__name__,
                    expected="Data, HeteroData, a Batch, a Dataset or a list of graphs")
    exclude = set(exclude_keys)
    if isinstance(graphs[0], HeteroData):
        return _from_hetero(graphs, exclude, missing)
    for number, graph in enumerate(graphs):
        _check_edges(graph, f"graph {number}")
    nodes, edges = [graph.num_nodes for graph in graphs], [graph.edge_index.shape[1] for graph in graphs]
    fields = _fields_of(graphs, NODE, lambda graph: graph.num_nodes, exclude, [(EDGE, lambda graph: graph.edge_index.shape[1])])
    index = torch.cat([graph.edge_index for graph in graphs], 1).cpu().numpy()
    return _set({NODE: _ptr(nodes)}, {EDGE: _ptr(edges)}, {EDGE: index}, fields, missing)


def _from_hetero(graphs, exclude, missing):
    first, node_ptr, edge_ptr, index, fields = graphs[0], {}, {}, {}, {}
    for graph in graphs:
        if graph.node_types != first.node_types or graph.edge_types != first.edge_types:
            raise Error("graphs with different types", where="from_pyg", found=str(graph.metadata()), expected=str(first.metadata()))
    for kind in first.node_types:
        if set(kind) & set("/.") or kind in (EDGE, "graph"):
            raise Error("a type of nodes with a name that a set cannot have", where=f"'{kind}'", expected="no '/' or '.'")
        node_ptr[kind] = _ptr(graph[kind].num_nodes for graph in graphs)
        fields |= _fields_of([graph[kind] for graph in graphs], kind, lambda store: store.num_nodes, exclude)
    for kind in first.edge_types:
        stores, key = [graph[kind] for graph in graphs], "/".join(kind)
        for store in stores:
            _check_edges(store, key)
        edge_ptr[key] = _ptr(store.edge_index.shape[1] for store in stores)
        index[key] = torch.cat([store.edge_index for store in stores], 1).cpu().numpy()
        fields |= _fields_of(stores, key, lambda store: store.edge_index.shape[1], exclude)
    fields |= _fields_of([graph._global_store for graph in graphs], "graph", lambda store: 1, exclude) if first._global_store else {}
    return _set(node_ptr, edge_ptr, index, fields, missing)


def to_pyg(graphs, number=0):
    """Graph `number` of a set as Data, or as HeteroData where the set has several types."""
    data = Data() if graphs.homogeneous else HeteroData()
    place = (lambda key: data) if graphs.homogeneous else (lambda key: data[tuple(key.split("/")) if "/" in key else key])
    rows = {key: slice(*ptr[number:number + 2]) for key, ptr in (graphs.node_ptr | graphs.edge_ptr).items()}
    for key, ptr in graphs.node_ptr.items():
        place(key).num_nodes = int(ptr[number + 1] - ptr[number])
    for key, index in graphs.edge_index.items():
        place(key).edge_index = torch.from_numpy(index[:, rows[key]].astype("int64"))
    for key, values in graphs.fields.items():
        of, _, name = key.rpartition(".")
        value = torch.from_numpy(values[number:number + 1 if of == "graph" else 0].copy() if of == "graph" else values[rows[of]].copy())
        setattr(data if of == "graph" else place(of), name, value)
    return data


def _tensors(arrays):
    return {key: torch.from_numpy(value) if hasattr(value, "dtype") else value for key, value in arrays.items()}


def batch_of(arrays, levels=None):
    """What PyTorch Geometric has in place of a dictionary that a loader of ramet.graphs gives: a Batch of whole graphs; Data or
    HeteroData of a sample of one graph. `levels`: whether an array has rows of "node", "edge" or "graph"; without it the numbers of
    rows tell."""
    if any(isinstance(value, dict) for value in arrays.values()):
        return _hetero_batch_of(arrays)
    tensors = _tensors(arrays)
    graphs, nodes = tensors.pop("num_graphs"), len(tensors["batch"])
    if "n_id" in tensors:
        return Data(**tensors, num_nodes=nodes)
    batch = Batch(**tensors)
    batch._num_graphs, batch.num_nodes = graphs, nodes
    rows = {NODE: tensors["ptr"], EDGE: _ends(tensors["batch"], tensors["edge_index"], graphs), "graph": torch.arange(graphs + 1)}
    batch._slice_dict = {key: rows[levels[key] if levels and key in levels else _level(key, value, rows)]
                         for key, value in tensors.items() if key not in ("ptr", "batch")}
    batch._inc_dict = {key: rows[NODE][:-1] if key == INDEX else torch.zeros(graphs, dtype=torch.int64) for key in batch._slice_dict}
    batch._store._num_nodes = rows[NODE].diff().tolist()
    return batch


def _ends(graph_of_target, edge_index, graphs):
    """Where the edges of each graph begin and end; edges stand in the order of the graphs."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(graph_of_target[edge_index[1]], minlength=graphs).cumsum(0)])


def _level(key, tensor, rows):
    count = tensor.shape[1 if key == INDEX else 0]
    named_first = sorted(rows, key=lambda level: level not in key)
    return next(level for level in named_first if count == rows[level][-1])


def _hetero_batch_of(arrays):
    types = {key: _tensors(value) for key, value in arrays.items() if isinstance(value, dict)}
    of_graphs = _tensors({key: value for key, value in arrays.items() if key not in types})
    graphs = of_graphs.pop("num_graphs")
    if any("n_id" in of for of in types.values()):
        return _of_types(HeteroData(), types, of_graphs)
    batch = _of_types(Batch(_base_cls=HeteroData), types, of_graphs)
    batch._num_graphs, batch._slice_dict, batch._inc_dict = graphs, {}, {}
    none = torch.zeros(graphs, dtype=torch.int64)
    for key, of in types.items():
        batch._slice_dict[key], batch._inc_dict[key] = {}, {}
        if isinstance(key, tuple):
            source, target = types[key[0]], types[key[2]]
            rows = _ends(target["batch"], of[INDEX], graphs)
            moved = torch.stack([source["ptr"][:-1], target["ptr"][:-1]], 1)[:, :, None]
        else:
            rows, moved = of["ptr"], none
            batch[key]._num_nodes = rows.diff().tolist()
        for name in of:
            if name not in ("ptr", "batch", "num_nodes"):
                batch._slice_dict[key][name], batch._inc_dict[key][name] = rows, moved if name == INDEX else none
    for name in of_graphs:
        batch._slice_dict[name], batch._inc_dict[name] = torch.arange(graphs + 1), none
    return batch


def _of_types(data, types, of_graphs):
    for kind, of_kind in types.items():
        data[kind].update(of_kind)
    for key, value in of_graphs.items():
        data[key] = value
    return data


def inputs_of(batch):
    """The tensors of a Data, a HeteroData or a Batch as one sample of a compiled program: with a first dimension of 1. Numbers stay.
    Each of several types has a dictionary; that of a type of edges is under "author/writes/paper"."""
    one = lambda of: {key: value[None] if isinstance(value, torch.Tensor) else value for key, value in of.items()
                      if isinstance(value, (torch.Tensor, int, float, bool))}
    made = batch.to_dict()
    if isinstance(batch, HeteroData):
        made = one(made.pop("_global_store")) | {key if isinstance(key, str) else "/".join(key): one(of) for key, of in made.items()}
    else:
        made = one(made)
    return made | ({"num_graphs": batch.num_graphs} if isinstance(batch, Batch) else {})


class OfBatch(torch.nn.Module):
    """A module that takes a Data, a HeteroData or a Batch, as a module of the tensors that `inputs_of` gives: what ramet.torch
    compiles. One micro-batch is one batch, and all of them have one size."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, **inputs):
        rows = lambda of: {key: value[0] if isinstance(value, torch.Tensor) else value for key, value in of.items()}
        types = {tuple(key.split("/")) if "/" in key else key: rows(of) for key, of in inputs.items() if isinstance(of, dict)}
        others = rows({key: value for key, value in inputs.items() if not isinstance(value, dict)})
        graphs, base = others.pop("num_graphs", None), HeteroData if types else Data
        batch = _of_types(base() if graphs is None else Batch(_base_cls=base), types, others)
        if graphs is not None:
            batch._num_graphs = graphs
        return self.module(batch)
