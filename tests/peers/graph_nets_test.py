"""Networks on graphs beside PyTorch Geometric: from the same weights, on the same graph set, answers and losses."""

import json
import pathlib
import random
import tempfile
import unittest

from peers import needs, ramet

STEPS = 100
CLASSES = 3
HIDDEN = 8
CUTOFF = 3.0
# Gradients of a bias in front of a batch norm, and of some weights of attention, are nothing but rounding. Adam would
# scale them up to whole steps, were its epsilon smaller.
EPSILON = 1e-4
RATE = 0.01
# A larger step takes ReLUs of its narrow head over their corner, from where rounding grows.
RATES = {"gps": 0.003, "gps_hops": 0.003}

RECIPE = """name = "peer"
[model]
kind = "{kind}"
[model.graph]
hidden = {hidden}
heads = 2
dropout = 0
{model}
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
WITH_EDGES = OF_GRAPHS + '\nedge_features = "edge.e"'
OF_POINTS = 'features = "node.kind"\nlabel = "graph.weight"\nbatch = "count:24"'

# For each kind: what the recipe says of the data and of the model, the number of graphs, and changes of the set.
KINDS = {
    "gcn": (OF_NODES, "", 1, "self-loops,gcn"),
    "sage": (OF_NODES, "", 1, "self-loops"),
    "gat": (OF_NODES, "", 1, "self-loops"),
    "gatv2": (OF_NODES, "", 1, "self-loops"),
    "cluster_gcn": (OF_NODES, "diagonal = 0.5", 1, "no-loops"),
    "gin": (OF_GRAPHS, "", 24, ""),
    "gine": (WITH_EDGES, "", 24, ""),
    "pna": (OF_GRAPHS, 'readout = "mean"', 24, ""),
    "edge_conv": (OF_GRAPHS, "", 24, ""),
    "mpnn": (WITH_EDGES, "", 24, ""),
    "gps": (WITH_EDGES + '\npositions = "node.returns"', "position_size = 3", 24, "returns=4"),
    "gps_hops": (WITH_EDGES + '\npositions = "node.returns"\nhops = 2', "position_size = 3", 24, "returns=4"),
    "schnet": (OF_POINTS, f"cutoff = {CUTOFF}\ngaussians = 7", 24, f"radius={CUTOFF}"),
}


def write_tables(folder, graphs):
    """CSV tables of random graphs: the class of a node follows from its features, that of a graph from its size."""
    draw = random.Random(5)
    nodes = ["graph,node,kind," + ",".join(f"x{k}" for k in range(6)) + ",p0,p1,p2"]
    edges, sizes = ["graph,source,target,e0,e1"], ["graph,size,weight"]
    for graph in range(graphs):
        count = draw.randint(40, 60) if graphs == 1 else draw.randint(3, 9)
        kinds = [draw.randrange(CLASSES) for _ in range(count)]
        sizes.append(f"{graph},{'large' if count > 6 else 'small'},{sum(kinds) + 0.5 * count}")
        for node, kind in enumerate(kinds):
            row = [(0.5 if k == kind else 0) + draw.random() for k in range(6)] + [2 * draw.random() for _ in range(3)]
            nodes.append(f"{graph},{node},k{kind}," + ",".join(f"{value:.4f}" for value in row))
        for _ in range(3 * count):
            edges.append(f"{graph},{draw.randrange(count)},{draw.randrange(count)},{draw.random():.4f},{draw.random():.4f}")
    for name, lines in (("nodes", nodes), ("edges", edges), ("graphs", sizes)):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def join_columns(path):
    """Puts the columns x0, x1, ... of the set together as one field x, as a user of Python would; so with others."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, "pt") as file:
        schema = json.loads(file.metadata()["ramet.graphs"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    for letter, name, per in (("x", "x", "node"), ("p", "pos", "node"), ("e", "e", "edge")):
        columns = sorted(key for key in tensors if key in {f"{per}.{letter}{k}" for k in range(10)})
        if not columns:
            continue
        tensors[f"{per}.{name}"] = torch.stack([tensors.pop(key) for key in columns], 1).float()
        schema["fields"] = [field for field in schema["fields"] if f"{per}.{field['name']}" not in columns]
        schema["fields"].append({"name": name, "per": per, "of": per})
    save_file(tensors, path, {"ramet.graphs": json.dumps(schema)})
    return tensors


def layers_of(kind, width, tensors):
    """The layers of PyTorch Geometric, and what stands behind them."""
    import torch
    from torch import nn
    from torch_geometric import nn as geometric
    from torch_geometric.utils import degree

    def two(size):
        return nn.Sequential(nn.Linear(size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN))

    def normed(size):
        return nn.Sequential(nn.Linear(size, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN),
                             nn.BatchNorm1d(HIDDEN), nn.ReLU())

    plain = {"add_self_loops": False}
    if kind == "pna":
        degrees = degree(tensors["edge.index"].long()[1] + offsets(tensors), len(tensors["node.x"]), dtype=torch.long)
        scaled = {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification", "attenuation"],
                  "deg": torch.bincount(degrees)}
        return [geometric.PNAConv(size, HIDDEN, **scaled) for size in (width, HIDDEN)]
    made = {
        "gcn": lambda: [geometric.GCNConv(width, HIDDEN, normalize=False, **plain),
                        geometric.GCNConv(HIDDEN, CLASSES, normalize=False, **plain)],
        "sage": lambda: [geometric.SAGEConv(width, HIDDEN), geometric.SAGEConv(HIDDEN, CLASSES)],
        "gat": lambda: [geometric.GATConv(width, HIDDEN, 2, **plain), geometric.GATConv(2 * HIDDEN, CLASSES, **plain)],
        "gatv2": lambda: [geometric.GATv2Conv(width, HIDDEN, 2, **plain),
                          geometric.GATv2Conv(2 * HIDDEN, CLASSES, **plain)],
        "cluster_gcn": lambda: [geometric.ClusterGCNConv(width, HIDDEN, diag_lambda=0.5),
                                geometric.ClusterGCNConv(HIDDEN, CLASSES, diag_lambda=0.5)],
        "gin": lambda: [geometric.GINConv(normed(size), train_eps=True) for size in (width, HIDDEN)],
        "gine": lambda: [geometric.GINEConv(two(size), train_eps=True, edge_dim=2) for size in (width, HIDDEN)],
        "edge_conv": lambda: [geometric.EdgeConv(two(2 * size)) for size in (width, HIDDEN)],
        "mpnn": lambda: [],
        "gps": lambda: [geometric.GPSConv(HIDDEN, geometric.GINEConv(two(HIDDEN), train_eps=True, edge_dim=2), heads=2)
                        for _ in range(2)],
        "schnet": lambda: [],
    }
    return made[kind.removesuffix("_hops")]()


def offsets(tensors):
    """For each edge the number of its graph's first node."""
    import torch

    return torch.repeat_interleave(tensors["node.ptr"][:-1], tensors["edge.ptr"].diff())


def make_biased(attention, table, tensors):
    """An attention of PyTorch to whose scores a number is added by the fewest edges between the nodes."""
    import torch

    pointers, edges = tensors["node.ptr"], tensors["edge.index"].long()
    most = int(pointers.diff().max())
    hops = torch.zeros(len(pointers) - 1, most, most, dtype=torch.long)
    for graph, (first, last) in enumerate(zip(tensors["edge.ptr"][:-1], tensors["edge.ptr"][1:])):
        count = int(pointers[graph + 1] - pointers[graph])
        apart = torch.full((count, count), 9).fill_diagonal_(0)
        apart[edges[1, first:last], edges[0, first:last]] = torch.minimum(
            apart[edges[1, first:last], edges[0, first:last]], torch.ones(1, dtype=torch.long))
        for between in range(count):
            apart = torch.minimum(apart, apart[:, between, None] + apart[between])
        hops[graph, :count, :count] = 1 + apart.clamp(max=3)

    class Biased(torch.nn.MultiheadAttention):
        def forward(self, query, key, value, key_padding_mask=None, need_weights=False):
            bias = table(hops).permute(0, 3, 1, 2).reshape(-1, most, most)
            hidden = torch.zeros_like(key_padding_mask, dtype=query.dtype).masked_fill(key_padding_mask, -torch.inf)
            return super().forward(query, key, value, key_padding_mask=hidden, attn_mask=bias, need_weights=False)

    biased = Biased(attention.embed_dim, attention.num_heads, batch_first=True)
    biased.load_state_dict(attention.state_dict())
    return biased


def make_net(kind, tensors):
    """The network of PyTorch Geometric whose state_dict has the names of Ramet's weights."""
    import torch
    from torch import nn
    from torch_geometric import nn as geometric
    from torch_geometric.nn.models import SchNet

    width = tensors["node.x"].shape[1]
    pool = geometric.global_mean_pool if kind == "pna" else geometric.global_add_pool

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList(layers_of(kind, width, tensors))
            if kind == "gin":
                self.linears = nn.ModuleList(nn.Linear(size, 2) for size in (width, HIDDEN, HIDDEN))
            if kind in ("gine", "pna", "edge_conv", "mpnn"):
                self.lin = nn.Linear(HIDDEN, 2)
            if kind == "gine":
                self.norms = nn.ModuleList(geometric.BatchNorm(HIDDEN) for _ in range(2))
            if kind == "mpnn":
                self.lin0 = nn.Linear(width, HIDDEN)
                self.conv = geometric.NNConv(HIDDEN, HIDDEN, nn.Sequential(
                    nn.Linear(2, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN * HIDDEN)), aggr="add")
                self.gru = nn.GRUCell(HIDDEN, HIDDEN)

            if kind.startswith("gps"):  # as PyTorch Geometric's own example has it
                self.node_emb, self.pe_norm, self.pe_lin = nn.Linear(width, HIDDEN - 3), nn.BatchNorm1d(4), nn.Linear(4, 3)
                self.mlp = nn.Sequential(nn.Linear(HIDDEN, HIDDEN // 2), nn.ReLU(), nn.Linear(HIDDEN // 2, HIDDEN // 4),
                                         nn.ReLU(), nn.Linear(HIDDEN // 4, 2))
            if kind == "gps_hops":
                self.hops = nn.Embedding(5, 2)  # the same, 1 or 2 edges, and more
                for conv in self.convs:
                    conv.attn = make_biased(conv.attn, self.hops, tensors)

        def forward(self, x, edge_index, weight, features, batch):
            if kind.startswith("gps"):
                x = torch.cat([self.node_emb(x), self.pe_lin(self.pe_norm(tensors["node.returns"]))], 1)
                for conv in self.convs:
                    x = conv(x, edge_index, batch, edge_attr=features)
                return self.mlp(pool(x, batch))
            if kind == "gin":
                answer = self.linears[0](pool(x, batch))
                for conv, linear in zip(self.convs, self.linears[1:]):
                    x = conv(x, edge_index)
                    answer = answer + linear(pool(x, batch))
                return answer
            if kind == "mpnn":
                x = self.lin0(x).relu()
                for _ in range(2):
                    x = self.gru(self.conv(x, edge_index, features).relu(), x)
                return self.lin(pool(x, batch))
            more = (weight,) if kind == "gcn" else (features,) if kind == "gine" else ()
            if kind in ("gine", "pna", "edge_conv"):
                for i, conv in enumerate(self.convs):
                    x = conv(x, edge_index, *more)
                    x = (self.norms[i](x) if kind == "gine" else x).relu()
                return self.lin(pool(x, batch))
            x = self.convs[0](x, edge_index, *more)
            x = nn.functional.elu(x) if kind.startswith("gat") else x.relu()
            return self.convs[1](x, edge_index, *more)

    if kind != "schnet":
        return Net()

    class Filtered(SchNet):
        """SchNet on the edges of the set, with the categories of nodes in place of atomic numbers."""

        def __init__(self):
            edges = tensors["edge.index"].long() + offsets(tensors)
            super().__init__(HIDDEN, HIDDEN, 2, 7, CUTOFF, interaction_graph=lambda pos, batch: (
                edges, tensors["edge.distance"]))
            self.embedding = nn.Embedding(CLASSES, HIDDEN)

        def forward(self, x, edge_index, weight, features, batch):
            return super().forward(tensors["node.kind"].long(), tensors["node.pos"], batch)

    return Filtered()


def load_npz(path):
    import numpy

    with numpy.load(path) as file:
        return {name: file[name] for name in file.files}


@needs("torch", "torch_geometric", "safetensors")
class GraphNets(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def prepare(self, kind):
        _, _, graphs, changes = KINDS[kind]
        write_tables(self.folder, graphs)
        set_of = ["--out", "set.safetensors"]
        ramet("graphs", "prepare", "csv", "edges.csv", "--nodes", "nodes.csv", "--graphs", "graphs.csv", *set_of,
              folder=self.folder)
        tensors = join_columns(self.folder / "set.safetensors")
        if not changes:
            return tensors
        ramet("graphs", "prepare", "set", "set.safetensors", *set_of, "--apply", changes, folder=self.folder)
        return join_columns(self.folder / "set.safetensors")

    def train(self, kind, name, steps, rate):
        """The losses of a run, its weights at the end, and its answers."""
        from safetensors.torch import load_file

        data, model, _, _ = KINDS[kind]
        (self.folder / "recipe.toml").write_text(RECIPE.format(
            kind=kind.removesuffix("_hops"), data=data, model=model, steps=steps, rate=rate, epsilon=EPSILON, hidden=HIDDEN))
        printed = ramet("train", "recipe.toml", "--json", "--threads", "1", "--run-dir", name, folder=self.folder)
        events = [json.loads(line) for line in printed.splitlines()]
        losses = [event["loss"] for event in events if event["event"] == "step"]
        run = next(path for path in sorted((self.folder / name).iterdir()) if (path / "run.json").exists())
        ramet("export", str(run), "--out", f"{name}.safetensors", folder=self.folder)
        ramet("predict", str(run), "--out", f"{name}.npz", folder=self.folder)
        return losses, load_file(self.folder / f"{name}.safetensors"), load_npz(self.folder / f"{name}.npz")

    def labels(self, kind, tensors):
        """What the network learns, and the loss function."""
        import torch

        if kind == "schnet":
            weight = tensors["graph.weight"].double()
            targets = (weight - weight.mean()) / weight.std(correction=0)
            return targets.float()[:, None], torch.nn.functional.mse_loss
        name = "graph.size" if KINDS[kind][2] > 1 else "node.kind"
        return tensors[name].long(), torch.nn.functional.cross_entropy

    def compare(self, kind):
        import numpy
        import torch

        tensors = self.prepare(kind)
        _, first, answers = self.train(kind, "first", 1, 1e-30)  # the weights stay as they were drawn
        losses, last, _ = self.train(kind, "whole", STEPS, RATES.get(kind, RATE))
        self.assertEqual(len(losses), STEPS)
        net = make_net(kind, tensors)
        own = net.state_dict()
        for name, tensor in own.items():
            if name in first and not name.endswith(("running_mean", "running_var")):
                # What the first step made of a 0 goes back: a ReLU has a slope on one side of 0 alone.
                own[name] = torch.where(first[name].abs() > 1e-20, first[name], 0).reshape(tensor.shape)
        missing = {name for name, _ in net.named_parameters()} - set(first)
        self.assertEqual({name for name in missing if "conv.nn" not in name or kind != "schnet"}, set())
        net.load_state_dict(own)
        pointers, index = tensors["node.ptr"], tensors["edge.index"].long()
        batch = torch.repeat_interleave(torch.arange(len(pointers) - 1), pointers.diff())
        labels, loss_of = self.labels(kind, tensors)
        operands = (tensors["node.x"], index + offsets(tensors), tensors.get("edge.weight"), tensors.get("edge.e"), batch)
        with torch.inference_mode():
            evaluated = make_net(kind, tensors)  # with the running statistics that one step has moved
            evaluated.load_state_dict({name: first[name].reshape(tensor.shape) if name in first else tensor
                                       for name, tensor in own.items()})
            found = evaluated.eval()(*operands).numpy()
        if kind == "schnet":
            weight = tensors["graph.weight"].double()
            found = found * float(weight.std(correction=0)) + float(weight.mean())
        given = answers["values" if kind == "schnet" else "logits"]
        scale = max(1.0, float(numpy.abs(found).max()))
        self.assertLess(float(numpy.abs(given - found).max()), 1e-5 * scale, f"answers of {kind}")
        optimizer = torch.optim.Adam(net.parameters(), lr=RATES.get(kind, RATE), eps=EPSILON)
        for step, found in enumerate(losses):
            optimizer.zero_grad()
            loss = loss_of(net(*operands), labels)
            self.assertLess(abs(found - loss.item()), 1e-5 if step == 0 else 1e-4 * max(1, loss.item()),
                            f"{kind}, step {step}: {found} and {loss.item()}")
            loss.backward()
            optimizer.step()
        for name, tensor in net.state_dict().items():
            if name in last:
                self.assertLess((last[name].reshape(tensor.shape) - tensor).abs().max().item(), 2e-3, f"{kind}, {name}")
        self.assertLess(losses[-1], 0.9 * losses[0])


for each in KINDS:
    setattr(GraphNets, f"test_{each}", lambda self, kind=each: self.compare(kind))


if __name__ == "__main__":
    unittest.main()
