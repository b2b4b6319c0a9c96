"""Block-sparse weights beside PyTorch's: exported index triples are its sparse tensors, and imported modules become sparse."""

import os
import pathlib
import tempfile
import unittest

import peers
import torch_support
import torch
from torch import nn

import ramet
import ramet.torch as rt

try:
    from safetensors.torch import load_file
except ImportError:
    torch_support.skip_all("safetensors is not installed")

SPARSE = peers.RECIPE + """[sparse]
weights = "bert.encoder.*"
density = 0.3
block = {block}
"""


class Triples(unittest.TestCase):
    def test_exported_triples_build_the_sparse_tensors_of_torch(self):
        for block in (1, 4):
            with self.subTest(block=block), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                (folder / "sparse.toml").write_text(SPARSE.format(block=block))
                peers.ramet("train", "sparse.toml", "--run", "run", folder=folder)
                peers.ramet("export", "run", "--out", "dense.safetensors", folder=folder)
                peers.ramet("export", "run", "--out", "sparse.safetensors", "--sparse", folder=folder)
                dense, sparse = (load_file(folder / f"{name}.safetensors") for name in ("dense", "sparse"))
                names = [name.removesuffix(".values") for name in sparse if name.endswith(".values")]
                self.assertEqual(len(names), 12)
                self.assertEqual(set(dense) - set(names), {name for name in sparse if name in dense})
                build = torch.sparse_csr_tensor if block == 1 else torch.sparse_bsr_tensor
                for name in names:
                    made = build(sparse[name + ".crow_indices"], sparse[name + ".col_indices"], sparse[name + ".values"],
                                 size=tuple(sparse[name + ".shape"].tolist()), check_invariants=True)
                    self.assertTrue(torch.equal(made.to_dense(), dense[name]), name)
                    x = torch.randn(dense[name].shape[1], 8)
                    torch.testing.assert_close(made @ x, dense[name] @ x)


class Net(nn.Module):
    """An embedding, two layers and a convolution of 1 x 1."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(16, 32)
        self.up = nn.Linear(32, 64)
        self.mix = nn.Conv1d(64, 32, 1)
        self.down = nn.Linear(32, 8)

    def forward(self, words, y):
        h = torch.relu(self.up(self.words(words)))
        out = self.down(torch.relu(self.mix(h.transpose(1, 2))).mean(-1))
        return {"loss": nn.functional.mse_loss(out, y), "out": out}


class Modules(unittest.TestCase):
    def test_a_saved_module_becomes_sparse_and_trains_to_one_hash(self):
        module = torch_support.seeded(Net)
        generator = torch.Generator().manual_seed(3)
        rows = {"words": torch.randint(0, 16, (8, 5), generator=generator), "y": torch.randn(8, 8, generator=generator)}
        half = {name: value[:4] for name, value in rows.items()}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.pt2")
            rt.save(path, module, half, loss="loss", optimizer=torch.optim.AdamW(module.parameters(), lr=0.01))
            dense = ramet.load_torch(path)
        sparse = ramet.sparsify(dense, ["up.weight", "mix.weight", "down.weight"], density=0.25, block=(2, 2),
                                pattern="magnitude")
        for name, weight in (("up", module.up.weight), ("mix", module.mix.weight), ("down", module.down.weight)):
            self.assertEqual(sparse.shape_of(f"{name}.weight.values")[2:], (weight.numel() // 16, 2, 2))
        hashes, losses = set(), []
        for layout in ("", "r=2"):
            training = ramet.Training(sparse, layout=layout, micro_batches=2, lanes=2, threads=1)
            kept = ramet.SparseMatrix.from_cells(training.state("up.weight.values"), training.state("up.weight.index"), (64, 32))
            up = module.up.weight.detach().numpy()
            self.assertTrue((kept.dense()[kept.dense() != 0] == up[kept.dense() != 0]).all())
            steps = [training.step({name: value.numpy() for name, value in rows.items()}) for _ in range(10)]
            losses.append([step.loss for step in steps])
            hashes.add(training.weights_hash())
        self.assertEqual(len(hashes), 1)
        self.assertEqual(losses[0], losses[1])
        self.assertLess(losses[0][-1], losses[0][0])


if __name__ == "__main__":
    unittest.main()
