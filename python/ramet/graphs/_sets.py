"""Sets of graphs as arrays of NumPy, and as files."""

import json
import os
import struct

import numpy as np

from ramet.errors import Error, FormatError, ShapeError

TYPES = {"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8, "F32": np.float32,
         "F64": np.float64, "BOOL": np.bool_, "F16": np.float16}
NODE, EDGE = "node", "edge"


def read_set(path):
    """The tensors of a graph set (`ramet graphs prepare`) as NumPy arrays, by name, and its schema."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    schema = json.loads(header.pop("__metadata__")["ramet.graphs"])
    tensors = {name: np.frombuffer(data[slice(*entry["data_offsets"])], TYPES[entry["dtype"]]).reshape(entry["shape"])
               for name, entry in header.items() if entry["dtype"] in TYPES}
    return tensors, schema


def _write(path, tensors, metadata):
    """A safetensors file, replaced whole or not at all."""
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    header, at = {"__metadata__": metadata}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{path}.tmp", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())
    os.replace(f"{path}.tmp", path)


class GraphSet:
    """Graphs as arrays. Graph g has nodes node_ptr[TYPE][g] to node_ptr[TYPE][g + 1] of all; so with edges. `edge_index`
    [2, edges] has sources and targets, which count from 0 in each graph. `fields` has arrays by key: "node.x" [nodes, ...],
    "edge.weight" [edges, ...], "graph.y" [graphs, ...]. A set of one type of nodes and one of edges calls them "node" and
    "edge"; keys of other types of edges are "SOURCE/NAME/TARGET"."""

    def __init__(self, node_ptr, edge_ptr, edge_index, fields):
        self.node_ptr = {key: np.asarray(ptr, np.int64) for key, ptr in node_ptr.items()}
        self.edge_ptr = {key: np.asarray(ptr, np.int64) for key, ptr in edge_ptr.items()}
        self.edge_index = {key: np.asarray(index, np.int32).reshape(2, -1) for key, index in edge_index.items()}
        self.fields = {key: np.asarray(values) for key, values in fields.items()}
        self._check()

    def _check(self):
        lengths = {len(ptr) for ptr in (*self.node_ptr.values(), *self.edge_ptr.values())}
        if len(lengths) != 1 or set(self.edge_ptr) != set(self.edge_index):
            raise ShapeError("lists of nodes and edges of different numbers of graphs", where="graph set")
        for key, values in self.fields.items():
            count = self._count(key)
            if values.ndim == 0 or len(values) != count:
                raise ShapeError("a field of another length", where=f"field '{key}'", found=str(list(values.shape)),
                                 expected=f"[{count}, ...]")

    def _count(self, key):
        of = key.rpartition(".")[0]
        if of == "graph":
            return len(self)
        ptr = self.node_ptr.get(of, self.edge_ptr.get(of))
        if ptr is None:
            raise Error("a field of nothing that the set has", where=f"field '{key}'",
                        expected="graph.NAME, " + ", ".join(f"{each}.NAME" for each in (*self.node_ptr, *self.edge_ptr)))
        return int(ptr[-1])

    def __len__(self):
        return len(next(iter(self.node_ptr.values()))) - 1

    @property
    def homogeneous(self):
        """Whether there is one type of nodes and one of edges."""
        return list(self.node_ptr) == [NODE] and list(self.edge_ptr) == [EDGE]

    @classmethod
    def of(cls, graphs):
        """The set of some graphs. A graph is a dictionary with "edge_index" [2, edges], fields as "node.x", "edge.weight" and
        "graph.y" (the value of the graph itself), and "num_nodes" where no field of nodes tells it."""
        graphs = list(graphs)
        if not graphs:
            raise Error("a set without a graph", where="GraphSet.of")
        keys = sorted(set(graphs[0]) - {"edge_index", "num_nodes"})
        nodes, edges, parts = [0], [0], {key: [] for key in keys}
        for number, graph in enumerate(graphs):
            if sorted(set(graph) - {"edge_index", "num_nodes"}) != keys:
                raise Error("graphs with different fields", where=f"graph {number}", found=", ".join(sorted(graph)),
                            expected=", ".join(keys))
            for key in keys:
                parts[key].append(np.asarray(graph[key])[None] if key.startswith("graph.") else np.asarray(graph[key]))
            of_nodes = [len(parts[key][-1]) for key in keys if key.startswith("node.")]
            count = graph.get("num_nodes", of_nodes[0] if of_nodes else None)
            if count is None or any(each != count for each in of_nodes):
                raise ShapeError("the number of nodes is not known, or fields of nodes differ", where=f"graph {number}",
                                 remedy="Give num_nodes, or a field such as node.x")
            nodes.append(nodes[-1] + int(count))
            edges.append(edges[-1] + np.asarray(graph["edge_index"]).reshape(2, -1).shape[1])
        index = np.concatenate([np.asarray(graph["edge_index"]).reshape(2, -1) for graph in graphs], 1)
        return cls({NODE: nodes}, {EDGE: edges}, {EDGE: index}, {key: np.concatenate(each) for key, each in parts.items()})

    @classmethod
    def open(cls, path):
        """The set in a file that `ramet graphs prepare` or `save` wrote."""
        tensors, schema = read_set(path)
        edges = ["/".join(each) if each != ["node", "edge", "node"] else EDGE for each in schema["edges"]]
        field = lambda each: (each.get("of") or "graph") + "." + each["name"]
        if absent := [field(each) for each in schema["fields"] if field(each) not in tensors]:
            raise FormatError("fields of types that NumPy does not have", where=str(path), found=", ".join(absent))
        return cls({each: tensors[f"{each}.ptr"] for each in schema["nodes"]}, {each: tensors[f"{each}.ptr"] for each in edges},
                   {each: tensors[f"{each}.index"] for each in edges},
                   {field(each): tensors[field(each)] for each in schema["fields"]})

    def save(self, path):
        """Writes a file that recipes, `ramet graphs` and `open` read. Its edges are in the global edge order."""
        tensors, per = {}, {"graph": "graph"} | {each: "node" for each in self.node_ptr} | {each: "edge" for each in self.edge_ptr}
        for key, ptr in self.node_ptr.items():
            tensors[f"{key}.ptr"] = ptr
        order = {}
        for key, ptr in self.edge_ptr.items():
            source, target = self.edge_index[key]
            order[key] = np.lexsort((source, target, np.repeat(np.arange(len(self)), np.diff(ptr))))
            tensors[f"{key}.ptr"], tensors[f"{key}.index"] = ptr, self.edge_index[key][:, order[key]]
        fields = []
        for key, values in sorted(self.fields.items()):
            of, _, name = key.rpartition(".")
            tensors[key] = values[order[of]] if of in order else values
            missing = {"missing": True} if values.dtype.kind == "f" and np.isnan(values).any() else {}
            fields.append({"name": name, "per": per[of]} | ({} if of == "graph" else {"of": of}) | missing)
        types = [["node", "edge", "node"] if key == EDGE else key.split("/") for key in self.edge_ptr]
        schema = {"version": 1, "graphs": len(self), "nodes": list(self.node_ptr), "edges": types, "fields": fields}
        _write(path, tensors, {"ramet.graphs": json.dumps(schema)})

    def graph(self, number):
        """One graph, as `of` takes it."""
        if not self.homogeneous:
            raise Error("a set of several types", where="GraphSet.graph", remedy="ramet.graphs.pyg.from_set gives HeteroData")
        rows = {NODE: slice(*self.node_ptr[NODE][number:number + 2]), EDGE: slice(*self.edge_ptr[EDGE][number:number + 2])}
        made = {"edge_index": self.edge_index[EDGE][:, rows[EDGE]], "num_nodes": rows[NODE].stop - rows[NODE].start}
        for key, values in self.fields.items():
            of = key.rpartition(".")[0]
            made[key] = values[number] if of == "graph" else values[rows[of]]
        return made
