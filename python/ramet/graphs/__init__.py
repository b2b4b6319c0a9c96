"""Graphs in Python: sets of graphs as arrays, batches of one size, and message passing of one's own.

    graphs = ramet.graphs.GraphSet.of([{"node.x": x, "edge_index": edges, "graph.y": y}, ...])
    for batch in ramet.graphs.FixedSizeDataLoader(graphs, batch_size=33, shuffle=True):
        batch["x"], batch["edge_index"], batch["nodes_mask"]

    graph = ramet.graphs.Graph(m, nodes=2708, edges=13264)
    message = ramet.relu(graph.of_sources(x) + graph.of_targets(x))   # one row an edge
    x = graph.sum(message)                                            # one row a node
    x = ramet.graphs.gps(m, graph, x, graph_of, "convs.0", lambda x, name: ramet.graphs.gine(m, graph, x, edges, name, 64))

    options = ramet.graphs.GraphNetOptions("gin", features=["node.x"], label="graph.y", batch="count:32")
    model, data = ramet.graphs.graph_net(options, graphs), ramet.Data.graphs(options, graphs)

    options = ramet.graphs.KnowledgeOptions("rotate", entities, relations, margin=6, group=128, negatives=256)
    model, data = ramet.graphs.knowledge_model(options), ramet.Data.triples(options, triples)

`ramet.graphs.pyg` takes and gives the objects of PyTorch Geometric. docs/graphs.md explains the order of edges, on which
sums depend.
"""
from ramet._ramet import (GraphNetOptions, KnowledgeOptions, graph_answers, graph_net, graph_net_kinds, knowledge_answers,
                          knowledge_model, knowledge_ranks, score_functions)

from ._loaders import (FixedSizeClusterLoader, FixedSizeDataLoader, FixedSizeNeighborLoader, FixedSizeOptions, FixedSizeStrategy,
                       OverSizeStrategy, StreamPackingSampler)
from ._layers import batch_norm_of_nodes, gine, gps
from ._messages import Graph, RelationGraph, lists, relation_lists
from ._sets import GraphSet, read_set

__all__ = ["FixedSizeClusterLoader", "FixedSizeDataLoader", "FixedSizeNeighborLoader", "FixedSizeOptions", "FixedSizeStrategy",
           "Graph", "GraphNetOptions", "GraphSet", "KnowledgeOptions", "OverSizeStrategy", "RelationGraph", "StreamPackingSampler",
           "batch_norm_of_nodes", "gine", "gps", "graph_answers", "graph_net", "graph_net_kinds", "knowledge_answers", "knowledge_model",
           "knowledge_ranks", "lists", "read_set", "relation_lists", "score_functions"]
