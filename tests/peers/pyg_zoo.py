"""Layers of PyTorch Geometric, unchanged, on one small graph: what the tests of PyTorch modules on graphs train."""

import torch
from torch_geometric import nn as geometric

NODES, FEATURES, HIDDEN, CLASSES, EDGE_FEATURES, RELATIONS = 24, 6, 8, 3, 4, 3


def graph(nodes=NODES, edges=70, seed=3):
    """A directed graph in no order of edges, with duplicates; its last node has no edges."""
    draw = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, nodes - 1, (2, edges), generator=draw)
    return {"edge_index": edge_index, "edge_weight": torch.rand(edges, generator=draw) + 0.1,
            "edge_attr": torch.randn(edges, EDGE_FEATURES, generator=draw),
            "edge_type": torch.randint(0, RELATIONS, (edges,), generator=draw),
            "batch": torch.arange(nodes) * 3 // nodes,
            "pos": torch.randn(nodes, 3, generator=draw),
            "neg_edge_index": torch.randint(0, nodes, (2, edges), generator=draw)}


def mlp(inputs, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, outputs))


def histogram():
    return torch.bincount(torch.bincount(graph()["edge_index"][1], minlength=NODES))


F, H, E, R = FEATURES, HIDDEN, EDGE_FEATURES, RELATIONS
# For each layer: how it is made, and what it takes beside the features of nodes and edge_index.
LAYERS = {
    "GCNConv": (lambda: geometric.GCNConv(F, H), ("edge_weight",)),
    "GCNConv-cached": (lambda: geometric.GCNConv(F, H, cached=True), ()),
    "SAGEConv": (lambda: geometric.SAGEConv(F, H), ()),
    "SAGEConv-max": (lambda: geometric.SAGEConv(F, H, aggr="max", project=True), ()),
    "GATConv": (lambda: geometric.GATConv(F, H // 2, heads=2, edge_dim=E), ("edge_attr",)),
    "GATv2Conv": (lambda: geometric.GATv2Conv(F, H // 2, heads=2), ()),
    "GINConv": (lambda: geometric.GINConv(mlp(F, H), train_eps=True), ()),
    "GINEConv": (lambda: geometric.GINEConv(mlp(F, H), edge_dim=E), ("edge_attr",)),
    "PNAConv": (lambda: geometric.PNAConv(F, H, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"],
                                          histogram()), ()),
    "EdgeConv": (lambda: geometric.EdgeConv(mlp(2 * F, H)), ()),
    "NNConv": (lambda: geometric.NNConv(F, H, mlp(E, F * H)), ("edge_attr",)),
    "TransformerConv": (lambda: geometric.TransformerConv(F, H // 2, heads=2, edge_dim=E, beta=True), ("edge_attr",)),
    "ChebConv": (lambda: geometric.ChebConv(F, H, K=3), ("edge_weight",)),
    "SGConv": (lambda: geometric.SGConv(F, H, K=2), ("edge_weight",)),
    "APPNP": (lambda: geometric.Sequential("x, edge_index, edge_weight", [
        (geometric.Linear(F, H), "x -> x"), (geometric.APPNP(K=3, alpha=0.1), "x, edge_index, edge_weight -> x")]), ("edge_weight",)),
    "TAGConv": (lambda: geometric.TAGConv(F, H), ("edge_weight",)),
    "ARMAConv": (lambda: geometric.ARMAConv(F, H, num_stacks=2, num_layers=2), ("edge_weight",)),
    "GraphConv": (lambda: geometric.GraphConv(F, H), ("edge_weight",)),
    "LEConv": (lambda: geometric.LEConv(F, H), ("edge_weight",)),
    "GENConv": (lambda: geometric.GENConv(F, H, learn_t=True, edge_dim=E), ("edge_attr",)),
    "GENConv-power": (lambda: geometric.GENConv(F, H, aggr="powermean", learn_p=True), ()),
    "MFConv": (lambda: geometric.MFConv(F, H, max_degree=4), ()),
    "FiLMConv": (lambda: geometric.FiLMConv(F, H), ()),
    "SuperGATConv": (lambda: geometric.SuperGATConv(F, H // 2, heads=2), ("neg_edge_index",)),
    "ResGatedGraphConv": (lambda: geometric.ResGatedGraphConv(F, H, edge_dim=E), ("edge_attr",)),
    "GatedGraphConv": (lambda: geometric.GatedGraphConv(H, num_layers=2), ("edge_weight",)),
    "CGConv": (lambda: geometric.CGConv(F, dim=E, batch_norm=True), ("edge_attr",)),
    "GPSConv": (lambda: geometric.Sequential("x, edge_index, batch", [
        (geometric.Linear(F, H), "x -> x"),
        (geometric.GPSConv(H, geometric.GINConv(mlp(H, H)), heads=2), "x, edge_index, batch -> x")]), ("batch",)),
    "RGCNConv": (lambda: geometric.RGCNConv(F, H, R, num_bases=2), ("edge_type",)),
    "FastRGCNConv": (lambda: geometric.FastRGCNConv(F, H, R), ("edge_type",)),
    "RGATConv": (lambda: geometric.RGATConv(F, H // 2, R, heads=2, num_blocks=None, num_bases=2), ("edge_type",)),
    "ClusterGCNConv": (lambda: geometric.ClusterGCNConv(F, H, diag_lambda=0.5), ()),
    "GeneralConv": (lambda: geometric.GeneralConv(F, H, in_edge_channels=E), ("edge_attr",)),
    "GMMConv": (lambda: geometric.GMMConv(F, H, dim=E, kernel_size=2), ("edge_attr",)),
    "DirGNNConv": (lambda: geometric.DirGNNConv(geometric.SAGEConv(F, H)), ()),
    "LGConv": (lambda: geometric.Sequential("x, edge_index", [
        (geometric.Linear(F, H), "x -> x"), (geometric.LGConv(), "x, edge_index -> x")]), ()),
    "WLConvContinuous": (lambda: geometric.Sequential("x, edge_index", [
        (geometric.Linear(F, H), "x -> x"), (geometric.WLConvContinuous(), "x, edge_index -> x")]), ()),
    "PointGNNConv": (lambda: geometric.PointGNNConv(mlp(F, 3), mlp(F + 3, H), mlp(H, F)), ("pos",)),
}


class Network(torch.nn.Module):
    """One layer over a fixed graph, and a classifier of nodes."""

    def __init__(self, name):
        super().__init__()
        make, takes = LAYERS[name]
        self.layer, self.takes = make(), takes
        for key, value in graph().items():
            self.register_buffer(key, value)
        self.last = torch.nn.LazyLinear(CLASSES)

    def forward(self, x, y):
        beside = {key: getattr(self, key) for key in self.takes}
        out = self.last(torch.tanh(self.layer(x, edge_index=self.edge_index, **beside)))
        return {"loss": torch.nn.functional.cross_entropy(out, y), "out": out}


def make(name, seed=1):
    torch.manual_seed(seed)
    module = Network(name)
    with torch.no_grad():
        module(**batch())
    for each in module.modules():
        if hasattr(each, "_cached_edge_index"):
            each._cached_edge_index = None
    return module


def batch(seed=2):
    draw = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(NODES, FEATURES, generator=draw), "y": torch.randint(0, CLASSES, (NODES,), generator=draw)}
