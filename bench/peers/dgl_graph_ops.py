"""Times DGL's sums over neighbours and softmaxes over edges of one graph: the peer of build/bench/graph_ops. Prints a JSON
object for each op: the least of the times within a budget. Runs in an environment of its own, for DGL needs an old torch:

    pip install dgl==2.1.0 torch==2.2.0 torchdata==0.7.1 "numpy<2" pydantic pyyaml pandas safetensors

    python bench/peers/dgl_graph_ops.py SET.safetensors --seconds 0.3
"""

import argparse
import json
import time

import dgl
import torch
from dgl.nn.functional import edge_softmax
from safetensors.torch import load_file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dgl.use_libxsmm(True)
    fields = load_file(args.set)
    nodes, index = int(fields["node.ptr"][1]), fields["edge.index"]
    graph = dgl.graph((index[0].long(), index[1].long()), num_nodes=nodes).int()
    graph.create_formats_()

    def tell(op, width, call):
        best, end = 1e30, time.perf_counter() + args.seconds
        call()
        while time.perf_counter() < end or best == 1e30:
            start = time.perf_counter()
            call()
            best = min(best, time.perf_counter() - start)
        print(json.dumps({"op": op, "width": width, "ms": round(1e3 * best, 4)}), flush=True)

    edges = graph.num_edges()
    with torch.inference_mode():
        for width in (16, 32, 64, 128):
            x, weight = torch.randn(nodes, width), torch.rand(edges, 1)
            tell("sum", width, lambda: dgl.ops.copy_u_sum(graph, x))
            tell("weighted sum", width, lambda: dgl.ops.u_mul_e_sum(graph, x, weight))
        x, weight = torch.randn(nodes, 8, 8), torch.rand(edges, 8, 1)
        tell("sum of 8 heads", 64, lambda: dgl.ops.u_mul_e_sum(graph, x, weight))
        x, y = torch.randn(nodes, 32), torch.randn(nodes, 32)
        tell("dot", 32, lambda: dgl.ops.u_dot_v(graph, x, y))
        for heads in (1, 8):
            logits = torch.randn(edges, heads, 1)
            tell("softmax", heads, lambda: edge_softmax(graph, logits))


if __name__ == "__main__":
    main()
