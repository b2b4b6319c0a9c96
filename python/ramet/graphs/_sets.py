"""Sets of graphs as arrays of NumPy, and as files."""

import json
import os
import re
import struct

import numpy as np

from ramet.errors import Error, FormatError, ShapeError

from ._edges import check_ends, edge_list, whole

TYPES = {"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8, "F32": np.float32,
         "F64": np.float64, "BOOL": np.bool_, "F16": np.float16}
NODE, EDGE = "node", "edge"
NAME = re.compile("[A-Za-z0-9_-]{1,200}")


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


def _pointers(ptr, key):
    """Where the nodes, or the edges, of each graph begin, and behind them the end of the last."""
    found = whole(ptr, f"pointers of '{key}'")
    if found.ndim != 1 or not len(found) or found[0] != 0 or (np.diff(found) < 0).any():
        raise ShapeError("no list of where graphs begin", where=f"pointers of '{key}'", found=str(found.tolist())[:100],
                         expected="numbers [graphs + 1] from 0 on that do not descend")
    return found


class GraphSet:
    """Graphs as arrays. Graph g has nodes node_ptr[TYPE][g] to node_ptr[TYPE][g + 1] of all; so with edges. `edge_index`
    [2, edges] has sources and targets, which count from 0 in each graph. `fields` has arrays by key: "node.x" [nodes, ...],
    "edge.weight" [edges, ...], "graph.y" [graphs, ...]. A set of one type of nodes and one of edges calls them "node" and
    "edge"; keys of other types of edges are "SOURCE/NAME/TARGET". `missing` has the keys of fields of which a value may not be
    known: NaN there, where all other floats are finite.

    Everything is checked here: no number is cut, wrapped or left for a reader of the file to refuse."""

    def __init__(self, node_ptr, edge_ptr, edge_index, fields, missing=()):
        self.node_ptr = {key: _pointers(ptr, key) for key, ptr in node_ptr.items()}
        self.edge_ptr = {key: _pointers(ptr, key) for key, ptr in edge_ptr.items()}
        if bad := [key for key in self.node_ptr if not NAME.fullmatch(key) or key in (EDGE, "graph")]:
            raise Error("a type of nodes with a name that a set cannot have", where=f"'{bad[0]}'",
                        expected=f"letters, digits, '_' and '-', and neither '{EDGE}' nor 'graph'")
        lengths = {len(ptr) for ptr in (*self.node_ptr.values(), *self.edge_ptr.values())}
        if len(lengths) != 1 or set(self.edge_ptr) != set(edge_index):
            raise ShapeError("lists of nodes and edges of different numbers of graphs", where="graph set")
        self.edge_index = {key: self._edges(key, index) for key, index in edge_index.items()}
        self.fields = {key: np.asarray(values) for key, values in fields.items()}
        self.missing = frozenset(missing)
        if unknown := self.missing - set(self.fields):
            raise Error("missing values of a field that the set does not have", where="missing", found=", ".join(sorted(unknown)),
                        expected=", ".join(self.fields))
        for key, values in self.fields.items():
            self._check_field(key, values)

    def _edges(self, key, index):
        """The edges of a type, which are between nodes of their graphs."""
        names = key.split("/")
        ends = (NODE, NODE) if key == EDGE else (names[0], names[-1])
        if (key != EDGE and len(names) != 3) or any(end not in self.node_ptr for end in ends) or not all(map(NAME.fullmatch, names)):
            raise Error("no type of edges between types of nodes of the set", where=f"edges '{key}'",
                        expected=f"'{EDGE}' between nodes '{NODE}', or SOURCE/NAME/TARGET of nodes {', '.join(self.node_ptr)}")
        where, edges = f"edge_index of '{key}'", edge_list(index, f"edge_index of '{key}'")
        if edges.shape[1] != self.edge_ptr[key][-1]:
            raise ShapeError("another number of edges than the graphs have", where=where, found=str(list(edges.shape)),
                             expected=f"[2, {self.edge_ptr[key][-1]}]")
        for row, end in zip(edges, ends):
            check_ends(row, np.repeat(np.diff(self.node_ptr[end]), np.diff(self.edge_ptr[key])), where)
        return edges.astype(np.int32)

    def _check_field(self, key, values):
        count, where = self._count(key), f"field '{key}'"
        if not NAME.fullmatch(key.rpartition(".")[2]):
            raise Error("a name that a field cannot have", where=where, expected="letters, digits, '_' and '-'")
        if values.ndim == 0 or len(values) != count:
            raise ShapeError("a field of another length", where=where, found=str(list(values.shape)), expected=f"[{count}, ...]")
        if values.dtype not in map(np.dtype, TYPES.values()):
            raise ShapeError("a field of elements that a set cannot have", where=where, found=str(values.dtype),
                             expected=", ".join(np.dtype(kind).name for kind in TYPES.values()))
        if values.dtype.kind != "f":
            return
        bad = ~np.isfinite(values) & ~(np.isnan(values) if key in self.missing else False)
        if bad.any():
            place = np.argwhere(bad)[0]
            raise Error("a field has a value that is not finite", where=f"{where}, row {place[0]}", found=str(values[tuple(place)]),
                        expected="finite numbers", remedy="Remove it" if key in self.missing else
                        f"Remove it, or say that NaN means a value that is not known: missing=['{key}']")

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
    def of(cls, graphs, missing=()):
        """The set of some graphs. A graph is a dictionary with "edge_index" [2, edges], fields as "node.x", "edge.weight" and
        "graph.y" (the value of the graph itself), and "num_nodes" where no field of nodes tells it."""
        graphs = list(graphs)
        if not graphs:
            raise Error("a set without a graph", where="GraphSet.of")
        keys = sorted(set(graphs[0]) - {"edge_index", "num_nodes"})
        nodes, edges, index, parts = [0], [0], [], {key: [] for key in keys}
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
            index.append(edge_list(graph["edge_index"], f"graph {number}, edge_index"))
            nodes.append(nodes[-1] + int(whole(count, f"graph {number}, num_nodes")))
            edges.append(edges[-1] + index[-1].shape[1])
        fields = {key: np.concatenate(each) for key, each in parts.items()}
        return cls({NODE: nodes}, {EDGE: edges}, {EDGE: np.concatenate(index, 1)}, fields, missing)

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
                   {field(each): tensors[field(each)] for each in schema["fields"]},
                   [field(each) for each in schema["fields"] if each.get("missing")])

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
            missing = {"missing": True} if key in self.missing else {}
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
