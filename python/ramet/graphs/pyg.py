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


def from_pyg(data, exclude_keys=()):
    """A set of graphs of Data, HeteroData, a Batch, a Dataset, or a list of such graphs. An attribute with a row for each node
    (edge) in every graph is a field of nodes (edges), any other one of the graphs, which must have one row then."""
    graphs = data.to_data_list() if isinstance(data, Batch) else [data] if isinstance(data, (Data, HeteroData)) else \
        [data[i] for i in range(len(data))]
    if not graphs or not all(isinstance(each, (Data, HeteroData)) for each in graphs):
        raise Error("no graphs of PyTorch Geometric", where="from_pyg", found=type(data).__name__,
                    expected="Data, HeteroData, a Batch, a Dataset or a list of graphs")
    exclude = set(exclude_keys)
    if isinstance(graphs[0], HeteroData):
        return _from_hetero(graphs, exclude)
    for number, graph in enumerate(graphs):
        _check_edges(graph, f"graph {number}")
    nodes, edges = [graph.num_nodes for graph in graphs], [graph.edge_index.shape[1] for graph in graphs]
    fields = _fields_of(graphs, NODE, lambda graph: graph.num_nodes, exclude, [(EDGE, lambda graph: graph.edge_index.shape[1])])
    index = torch.cat([graph.edge_index for graph in graphs], 1).cpu().numpy()
    return GraphSet({NODE: _ptr(nodes)}, {EDGE: _ptr(edges)}, {EDGE: index}, _joined(fields))


def _from_hetero(graphs, exclude):
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
    return GraphSet(node_ptr, edge_ptr, index, _joined(fields))


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


def batch_of(arrays):
    """The Batch of PyTorch Geometric of a dictionary that a loader of ramet.graphs gives."""
    tensors = {key: torch.from_numpy(value) if hasattr(value, "dtype") else value for key, value in arrays.items()}
    graphs = tensors.pop("num_graphs")
    batch = Batch(**tensors)
    batch._num_graphs = graphs
    batch.num_nodes = tensors["batch"].shape[0]
    return batch


def with_arrays(batch, arrays):
    """The batch with more attributes, of arrays."""
    for key, value in arrays.items():
        batch[key] = torch.from_numpy(value) if hasattr(value, "dtype") else value
    return batch


def hetero_batch_of(arrays, graphs):
    """The Batch of HeteroData of a dictionary by type that a loader of ramet.graphs gives."""
    batch = Batch(_base_cls=HeteroData)
    for kind, of_kind in arrays.items():
        with_arrays(batch[kind], of_kind)
    batch._num_graphs = graphs
    return batch


def inputs_of(batch):
    """The tensors of a Data or a Batch as one sample of a compiled program: with a first dimension of 1. Numbers stay."""
    return {key: value[None] if isinstance(value, torch.Tensor) else value for key, value in batch.to_dict().items()
            if isinstance(value, (torch.Tensor, int, float, bool))}


class OfBatch(torch.nn.Module):
    """A module that takes a Batch, as a module of the tensors that `inputs_of` gives: what ramet.torch compiles. One micro-batch
    is one Batch, and all of them have one size."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, **inputs):
        tensors = {key: value[0] if isinstance(value, torch.Tensor) else value for key, value in inputs.items()}
        batch = Batch(**tensors) if "ptr" in tensors else Data(**tensors)
        if "ptr" in tensors:
            batch._num_graphs = tensors["ptr"].shape[0] - 1
        return self.module(batch)
