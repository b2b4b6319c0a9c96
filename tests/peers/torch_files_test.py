"""Modules in files of torch.export, trained by ramet.load_torch and by the program alone; arrays that nobody copies."""

import json
import pathlib
import tempfile
import unittest

import torch_support
from torch_support import Net, batch, seeded
from peers import needs, ramet as program
import numpy as np
import torch
from torch import nn

import ramet
import ramet.torch as rt

RECIPE = """[model]
file = "blocks.pt2"
[data]
kind = "arrays"
train = "train.npz"
held_out = "held_out.npz"
[train]
steps = 6
accumulation = 2
lanes = 2
chunks = 2
precision = "f32"
[train.schedule]
learning_rate = 0.01
"""


class Blocks(nn.Module):
    """A list of Sequentials, which are the parts of the model."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3))
        self.head = nn.Linear(6, 3)

    def forward(self, x, y):
        for block in self.blocks:
            x = x + block(x)
        out = self.head(x)
        return {"loss": nn.functional.mse_loss(out, y), "out": out}


class FilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_loaded_file_trains_as_the_module(self):
        module = seeded(lambda: Net(norm=True))
        rt.save(self.folder / "net.pt2", module, batch(), loss="loss")
        model = ramet.load_torch(self.folder / "net.pt2")
        training = ramet.Training(model, optimizer=ramet.Sgd(), schedule=ramet.Schedule(learning_rate=0.1), threads=1)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        module.train()
        for i in range(4):
            loss = module(**batch(seed=i))["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            result = training.step({name: value.numpy() for name, value in batch(seed=i).items()}, rate=0.1)
            self.assertAlmostEqual(result.loss, loss.item(), delta=2e-5 * loss.item())
        for name, value in module.state_dict().items():
            np.testing.assert_allclose(np.asarray(training.state(name)).reshape(value.shape), value, rtol=1e-4, atol=1e-6, err_msg=name)

    def told(self, *arguments):
        return json.loads(program(*arguments, "--json", folder=self.folder).splitlines()[-1])

    @needs("safetensors")
    def test_the_program_alone_trains_plans_simulates_and_predicts(self):
        from safetensors.torch import load_file

        module = seeded(Blocks)
        rt.save(self.folder / "blocks.pt2", module, batch(), loss="loss")
        for name, samples in (("train", 64), ("held_out", 16)):
            np.savez(self.folder / f"{name}.npz", **{key: value.numpy() for key, value in batch(samples, seed=samples).items()})
        (self.folder / "blocks.toml").write_text(RECIPE)
        plan = self.told("plan", "blocks.toml", "--no-time", "--layout", "p=3")
        self.assertGreater(plan["planned_bytes"], 0)
        simulated = self.told("simulate", "blocks.toml", "--machine", "bow-pod16", "--layout", "p=2")
        self.assertGreater(simulated["samples_per_second"], 0, simulated)
        trained = {layout: self.told("train", "blocks.toml", "--threads", "2", "--run", f"run{i}", "--layout", layout)
                   for i, layout in enumerate(("p=1", "p=3", "p=2 r=2 rts=optimizer", "t=2"))}
        self.assertEqual(len({each["weights_hash"] for each in trained.values()}), 1, trained)
        self.assertEqual(len({each["held_out_loss"] for each in trained.values()}), 1, trained)
        program("predict", "run0", "--in", "held_out.npz", "--out", "out.npz", folder=self.folder)
        program("export", "run0", "--out", "trained.safetensors", folder=self.folder)
        module.load_state_dict(load_file(self.folder / "trained.safetensors"))
        with torch.no_grad():
            expected = module.eval()(**batch(16, seed=16))
        np.testing.assert_allclose(np.load(self.folder / "out.npz")["out"], expected["out"], rtol=1e-4, atol=1e-5)
        self.assertAlmostEqual(trained["p=1"]["held_out_loss"], expected["loss"].item(), delta=1e-4)


    def test_the_program_trains_by_the_optimizer_and_the_options_of_the_file(self):
        """Losses of the program, with a recipe that says nothing of training, and of training_model."""
        options = rt.Options(micro_batches=2, lanes=2, max_grad_norm=0.5, seed=7, threads=1)
        data = batch(8 * 4, seed=3)
        np.savez(self.folder / "train.npz", **{key: value.numpy() for key, value in data.items()})
        for name, make in (("adamw", lambda m: torch.optim.AdamW(m.parameters(), lr=0.01)),
                           ("groups", lambda m: torch.optim.SGD([{"params": m.blocks.parameters(), "weight_decay": 0.1},
                                                                 {"params": m.head.parameters(), "lr": 0.02, "momentum": 0.5}],
                                                                lr=0.05, momentum=0.9)),
                           ("rmsprop", lambda m: torch.optim.RMSprop(m.parameters(), lr=0.003, alpha=0.9, centered=True))):
            with self.subTest(name):
                module = seeded(Blocks)
                rt.save(self.folder / f"{name}.pt2", module, batch(), loss="loss", optimizer=make(module), options=options)
                step = rt.training_model(module, make(module), batch(), loss="loss", options=options)
                expected = [step(**{key: value[i * 8:i * 8 + 8] for key, value in data.items()}).loss for i in range(4)]
                (self.folder / f"{name}.toml").write_text(f'model.file = "{name}.pt2"\n[data]\nkind = "arrays"\ntrain = "train.npz"\n'
                                                          "shuffle = false\n[train]\nsteps = 4\n")
                trained = self.told("train", f"{name}.toml", "--threads", "1", "--run", name)
                self.assertEqual(trained["weights_hash"], step.weights_hash(), trained)
                self.assertEqual(np.float32(trained["loss"]), np.float32(expected[-1]), trained)
                other = self.told("train", f"{name}.toml", "--threads", "1", "--run", f"{name}2", "--set", "train.schedule.learning_rate=0.5")
                self.assertNotEqual(other["weights_hash"], step.weights_hash(), "what the recipe says comes first")

    def test_options_for_prediction_alone(self):
        rt.save(self.folder / "predict.pt2", nn.Linear(6, 3), (torch.ones(4, 6),), loss="none", options=rt.Options(seed=1))
        self.assertTrue(ramet.load_torch(self.folder / "predict.pt2"))
        with self.assertRaisesRegex(ramet.Error, "options: no options; found dict"):
            rt.save(self.folder / "predict.pt2", seeded(Blocks), batch(), options={"micro_batches": 2})


class OnlyDlpack:
    """An array of nobody's library."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class ArraysTest(unittest.TestCase):
    def training(self, data):
        m = ramet.ModelBuilder("line")
        x, y = m.input("x", "f32", [4, 2]), m.input("y", "f32", [4])
        predicted = ramet.reshape(x @ m.weight("w", [2, 1], ramet.Init.ones()), [4])
        m.output("predicted", predicted)
        m.loss(ramet.mse_loss(predicted, y))
        return ramet.Training(m.build(), optimizer=ramet.Sgd(), schedule=ramet.Schedule(learning_rate=0.1), threads=1, train=data, steps=1)

    def loss(self, data):
        return self.training(data).fit(progress=False).losses[0][1]

    def test_data_are_read_where_they_are(self):
        for wrap in (lambda tensor: tensor, lambda tensor: tensor.numpy(), OnlyDlpack):
            x, y = torch.arange(8.0).reshape(4, 2), torch.ones(4)
            data = ramet.Data.arrays({"x": wrap(x), "y": wrap(y)}, shuffle=False)
            first = self.loss(data)
            x *= 2
            self.assertNotEqual(self.loss(data), first)
            self.assertEqual(self.loss(data), self.loss(ramet.Data.arrays({"x": x.clone(), "y": y.clone()}, shuffle=False)))

    def test_results_have_one_address(self):
        training = self.training(ramet.Data.arrays({"x": torch.ones(4, 2), "y": torch.ones(4)}))
        samples = {"x": np.ones((4, 2), np.float32), "y": np.ones(4, np.float32)}
        predicted = training.predict(samples)["predicted"]
        self.assertEqual(torch.from_dlpack(predicted).data_ptr(), predicted.ctypes.data)
        self.assertEqual(np.from_dlpack(predicted).ctypes.data, predicted.ctypes.data)
        predicted = training.predict({name: torch.from_numpy(value) for name, value in samples.items()})["predicted"]
        self.assertIsInstance(predicted, torch.Tensor)
        self.assertEqual(np.from_dlpack(predicted).ctypes.data, predicted.data_ptr())


if __name__ == "__main__":
    unittest.main()
