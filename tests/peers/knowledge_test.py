"""TransE, DistMult, ComplEx and RotatE beside PyTorch Geometric: from the same weights, with the same negatives, loss by loss."""

import json
import pathlib
import random
import tempfile
import unittest

from peers import needs, ramet

STEPS, BATCH, SEED = 100, 32, 5
WIDTH = 12
RATE = 0.01

RECIPE = """name = "peer"
[model]
kind = "{kind}"
[model.knowledge]
width = {width}
deviation = 0.3
{model}
[data]
kind = "triples"
shuffle = false
[data.triples]
set = "set.safetensors"
sides = "tails"
negatives = 1
[train]
steps = {steps}
micro_batch = {batch}
seed = {seed}
precision = "f32"
clip_norm = 0
[train.optimizer]
kind = "adam"
beta2 = 0.999
epsilon = 1e-6
weight_decay = 0
[train.schedule]
kind = "constant"
learning_rate = {rate}
[train.evaluation]
batches = 0
[system]
every = 0
"""

# Of each model: the recipe's options, and those of PyTorch Geometric's class.
MODELS = {
    "transe": ('loss = "margin"\nmargin = 1\nnorm = 1', {"margin": 1.0, "p_norm": 1.0}),
    "distmult": ('loss = "margin"\nmargin = 1', {"margin": 1.0}),
    "complex": ('loss = "log-sigmoid"', {}),
    "rotate": ('loss = "log-sigmoid"\nmargin = 1.5\nnorm = 2', {"margin": 1.5}),
}

MASK = (1 << 64) - 1


def mix(x):
    """SplitMix64's finaliser."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def philox(counter, key):
    """Philox 4x32 with 10 rounds (Salmon et al., SC'11)."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def negative_tail(sample, known, entities):
    """The first negative of a sample: by its rank among the entities that are no known answer."""
    sampling = 9
    key = mix(mix((SEED + 0x9E3779B97F4A7C15 * sampling) & MASK))
    word = philox((0, 0, 0, 2 * sample), (key & 0xFFFFFFFF, key >> 32))[0]
    others = [entity for entity in range(entities) if entity not in known]
    return others[word * len(others) >> 32]


def write_triples(folder):
    draw = random.Random(3)
    for part, count in (("train", 300), ("valid", 40)):
        (folder / f"{part}.txt").write_text("".join(
            f"e{draw.randrange(50)}\tr{draw.randrange(4)}\te{draw.randrange(50)}\n" for _ in range(count)))


@needs("torch", "torch_geometric", "safetensors")
class KnowledgeGraphs(unittest.TestCase):
    def setUp(self):
        from safetensors import safe_open

        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        write_triples(self.folder)
        ramet("graphs", "prepare", "triples", ".", "--out", "set.safetensors", folder=self.folder)
        with safe_open(self.folder / "set.safetensors", "pt") as file:
            index, relation, split = (file.get_tensor(f"edge.{name}") for name in ("index", "relation", "split"))
            self.entities = int(file.get_tensor("node.ptr")[-1])
        train = split == 0
        self.triples = list(zip(index[0][train].tolist(), relation[train].tolist(), index[1][train].tolist()))
        self.tails = {}
        for head, relation, tail in self.triples:
            self.tails.setdefault((head, relation), set()).add(tail)

    def train(self, kind, name, steps, rate):
        """The losses of a run, and its weights at the end."""
        from safetensors.torch import load_file

        (self.folder / "recipe.toml").write_text(RECIPE.format(
            kind=kind, width=WIDTH, model=MODELS[kind][0], steps=steps, batch=BATCH, seed=SEED, rate=rate))
        printed = ramet("train", "recipe.toml", "--json", "--threads", "1", "--run-dir", name, folder=self.folder)
        events = [json.loads(line) for line in printed.splitlines()]
        run = next(path for path in sorted((self.folder / name).iterdir()) if (path / "run.json").exists())
        ramet("export", str(run), "--out", f"{name}.safetensors", folder=self.folder)
        return [event["loss"] for event in events if event["event"] == "step"], load_file(
            self.folder / f"{name}.safetensors")

    def batch(self, step):
        """Heads, relations, tails and wrong tails of a step."""
        import torch

        rows = []
        for sample in range(step * BATCH, (step + 1) * BATCH):
            head, relation, tail = self.triples[sample % len(self.triples)]
            rows.append((head, relation, tail, negative_tail(sample, self.tails[head, relation], self.entities)))
        return torch.tensor(rows).T

    def compare(self, kind):
        import torch
        from torch_geometric.nn import kge

        net = {"transe": kge.TransE, "distmult": kge.DistMult, "complex": kge.ComplEx, "rotate": kge.RotatE}[kind](
            self.entities, 4, WIDTH, **MODELS[kind][1])
        _, first = self.train(kind, "first", 1, 1e-30)  # the weights stay as they were drawn
        losses, last = self.train(kind, "whole", STEPS, RATE)
        self.assertEqual(len(losses), STEPS)

        def parts(weights):
            """The tables under the names of PyTorch Geometric."""
            tables = {}
            for name, table in (("node_emb", weights["entities.weight"]), ("rel_emb", weights["relations.weight"])):
                tables[f"{name}.weight"] = table[:, :WIDTH]
                if table.shape[1] > WIDTH:
                    tables[f"{name}_im.weight"] = table[:, WIDTH:]
            return tables

        self.assertEqual(set(parts(first)), set(net.state_dict()))
        net.load_state_dict(parts(first))
        optimizer = torch.optim.Adam(net.parameters(), lr=RATE, eps=1e-6)
        for step, found in enumerate(losses):
            head, relation, tail, wrong = self.batch(step)
            optimizer.zero_grad()
            right, worse = net(head, relation, tail), net(head, relation, wrong)
            if kind in ("transe", "distmult"):
                loss = torch.nn.functional.margin_ranking_loss(right, worse, torch.ones_like(right), margin=net.margin)
            else:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    torch.cat([right, worse]), torch.cat([torch.ones_like(right), torch.zeros_like(worse)]))
            self.assertLess(abs(found - loss.item()), 1e-5 if step == 0 else 1e-4 * max(1, loss.item()),
                            f"{kind}, step {step}: {found} and {loss.item()}")
            loss.backward()
            optimizer.step()
        for name, table in parts(last).items():
            self.assertLess((table - net.state_dict()[name]).abs().max().item(), 2e-3, f"{kind}, {name}")
        self.assertLess(losses[-1], 0.9 * losses[0])

    def test_transe(self):
        self.compare("transe")

    def test_distmult(self):
        self.compare("distmult")

    def test_complex(self):
        self.compare("complex")

    def test_rotate(self):
        self.compare("rotate")


if __name__ == "__main__":
    unittest.main()
