"""GCN, GraphSAGE, GAT and GIN beside PyTorch Geometric: from the same weights, on the same graph set, loss by loss."""

import json
import pathlib
import random
import tempfile
import unittest

from peers import needs, ramet

STEPS = 100
CLASSES = 3
# Gradients of a bias in front of a batch norm, and of some weights of attention, are nothing but rounding. Adam would
# scale them up to whole steps, were its epsilon smaller.
EPSILON = 1e-4

RECIPE = """name = "peer"
[model]
kind = "{kind}"
[model.graph]
hidden = 8
heads = 2
dropout = 0
[data]
kind = "graphs"
shuffle = false
[data.graphs]
set = "set.safetensors"
{data}
[train]
steps = {steps}
micro_batch = 1
precision = "f32"
clip_norm = 0
[train.optimizer]
kind = "adam"
beta2 = 0.999
epsilon = {epsilon}
weight_decay = 0
[train.schedule]
kind = "constant"
learning_rate = {rate}
[train.evaluation]
batches = 0
[system]
every = 0
"""

OF_NODES = 'features = "node.x"\nlabel = "node.kind"'
OF_GRAPHS = 'features = "node.x"\nlabel = "graph.size"\nbatch = "count:24"'


def write_tables(folder, graphs):
    """CSV tables of random graphs: the class of a node follows from its features, that of a graph from its size."""
    draw = random.Random(5)
    nodes, edges, sizes = ["graph,node,kind," + ",".join(f"x{k}" for k in range(6))], ["graph,source,target"], []
    for graph in range(graphs):
        count = draw.randint(40, 60) if graphs == 1 else draw.randint(3, 9)
        sizes.append(f"{graph},{'large' if count > 6 else 'small'}")
        for node in range(count):
            kind = draw.randrange(CLASSES)
            row = [(0.5 if k == kind else 0) + draw.random() for k in range(6)]
            nodes.append(f"{graph},{node},k{kind}," + ",".join(f"{value:.4f}" for value in row))
        for _ in range(3 * count):
            edges.append(f"{graph},{draw.randrange(count)},{draw.randrange(count)}")
    for name, lines in (("nodes", nodes), ("edges", edges), ("graphs", ["graph,size", *sizes])):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def join_features(path):
    """Puts the columns x0, x1, ... of the set together as one field x, as a user of Python would."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, "pt") as file:
        schema = json.loads(file.metadata()["ramet.graphs"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    columns = sorted(name for name in tensors if name.startswith("node.x"))
    tensors["node.x"] = torch.stack([tensors.pop(name) for name in columns], 1).float()
    schema["fields"] = [field for field in schema["fields"] if f"node.{field['name']}" not in columns]
    schema["fields"].append({"name": "x", "per": "node", "of": "node"})
    save_file(tensors, path, {"ramet.graphs": json.dumps(schema)})
    return schema, tensors


def make_net(kind, width):
    """The network of PyTorch Geometric whose state_dict has the names of Ramet's weights."""
    import torch
    from torch import nn
    from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_add_pool

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            if kind == "gcn":
                layers = [GCNConv(width, 8, add_self_loops=False, normalize=False),
                          GCNConv(8, CLASSES, add_self_loops=False, normalize=False)]
            elif kind == "sage":
                layers = [SAGEConv(width, 8), SAGEConv(8, CLASSES)]
            elif kind == "gat":
                layers = [GATConv(width, 8, 2, add_self_loops=False),
                          GATConv(16, CLASSES, 1, add_self_loops=False)]
            else:
                layers = [GINConv(nn.Sequential(nn.Linear(size, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8),
                                                nn.BatchNorm1d(8), nn.ReLU()), train_eps=True) for size in (width, 8)]
                self.linears = nn.ModuleList(nn.Linear(size, 2) for size in (width, 8, 8))
            self.convs = nn.ModuleList(layers)

        def forward(self, x, edge_index, weight, batch):
            if kind == "gin":
                answer = self.linears[0](global_add_pool(x, batch))
                for conv, linear in zip(self.convs, self.linears[1:]):
                    x = conv(x, edge_index)
                    answer = answer + linear(global_add_pool(x, batch))
                return answer
            more = (weight,) if kind == "gcn" else ()
            x = self.convs[0](x, edge_index, *more)
            return self.convs[1](torch.nn.functional.elu(x) if kind == "gat" else x.relu(), edge_index, *more)

    return Net()


@needs("torch", "torch_geometric", "safetensors")
class GraphNets(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def prepare(self, kind):
        write_tables(self.folder, 24 if kind == "gin" else 1)
        changes = [] if kind == "gin" else ["--apply", "self-loops,gcn" if kind == "gcn" else "self-loops"]
        ramet("graphs", "prepare", "csv", "edges.csv", "--nodes", "nodes.csv", "--graphs", "graphs.csv", "--out",
              "set.safetensors", *changes, folder=self.folder)
        return join_features(self.folder / "set.safetensors")

    def train(self, kind, name, steps, rate):
        """The losses of a run, and its weights at the end."""
        from safetensors.torch import load_file

        data = OF_GRAPHS if kind == "gin" else OF_NODES
        (self.folder / "recipe.toml").write_text(RECIPE.format(kind=kind, data=data, steps=steps, rate=rate,
                                                                       epsilon=EPSILON))
        printed = ramet("train", "recipe.toml", "--json", "--threads", "1", "--run-dir", name, folder=self.folder)
        events = [json.loads(line) for line in printed.splitlines()]
        losses = [event["loss"] for event in events if event["event"] == "step"]
        run = next(path for path in sorted((self.folder / name).iterdir()) if (path / "run.json").exists())
        ramet("export", str(run), "--out", f"{name}.safetensors", folder=self.folder)
        return losses, load_file(self.folder / f"{name}.safetensors")

    def compare(self, kind):
        import torch

        _, tensors = self.prepare(kind)
        _, first = self.train(kind, "first", 1, 1e-30)  # the weights stay as they were drawn
        losses, last = self.train(kind, "whole", STEPS, 0.01)
        self.assertEqual(len(losses), STEPS)
        net = make_net(kind, tensors["node.x"].shape[1])
        own = net.state_dict()
        for name, tensor in own.items():
            if name in first and not name.endswith(("running_mean", "running_var")):
                own[name] = first[name].reshape(tensor.shape)
        self.assertEqual({name for name, _ in net.named_parameters()} - set(first), set())
        net.load_state_dict(own)
        pointers, index = tensors["node.ptr"], tensors["edge.index"].long()
        batch = torch.repeat_interleave(torch.arange(len(pointers) - 1), pointers.diff())
        offset = torch.repeat_interleave(pointers[:-1], tensors["edge.ptr"].diff())
        labels = tensors["graph.size" if kind == "gin" else "node.kind"].long()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01, eps=EPSILON)
        for step, found in enumerate(losses):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(
                net(tensors["node.x"], index + offset, tensors.get("edge.weight"), batch), labels)
            self.assertLess(abs(found - loss.item()), 1e-5 if step == 0 else 1e-4 * max(1, loss.item()),
                            f"{kind}, step {step}: {found} and {loss.item()}")
            loss.backward()
            optimizer.step()
        for name, tensor in net.state_dict().items():
            if name in last:
                self.assertLess((last[name].reshape(tensor.shape) - tensor).abs().max().item(), 2e-3, f"{kind}, {name}")
        self.assertLess(losses[-1], 0.8 * losses[0])

    def test_gcn(self):
        self.compare("gcn")

    def test_sage(self):
        self.compare("sage")

    def test_gat(self):
        self.compare("gat")

    def test_gin(self):
        self.compare("gin")


if __name__ == "__main__":
    unittest.main()
