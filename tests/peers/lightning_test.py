"""Trainings of Lightning itself, logged by ramet.track: its numbers are those of a run."""

import json
import tempfile
import unittest
import warnings

import torch_support  # noqa: F401  (finds the built package, or skips everything)
from peers import needs, ramet
import torch

import ramet.track as track


def line():
    """A module of Lightning, and its data."""
    import lightning.pytorch as pl

    class Line(pl.LightningModule):
        def __init__(self, rate=0.1):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(3, 1)

        def training_step(self, batch, index):
            loss = (self.layer(batch[0]) - batch[1]).square().mean()
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, index):
            self.log("held_out_loss", (self.layer(batch[0]) - batch[1]).square().mean())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=self.hparams.rate)

    x = torch.randn(32, 3, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    return Line(), torch.utils.data.DataLoader(data, batch_size=8)


@needs("torch", "lightning", "ramet")
class LightningTest(unittest.TestCase):
    def test_a_training_is_a_run(self):
        import lightning.pytorch as pl

        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logger = track.LightningLogger("line", folder=folder)
            module, data = line()
            trainer = pl.Trainer(max_epochs=3, logger=logger, log_every_n_steps=1, enable_checkpointing=False, enable_progress_bar=False,
                                 enable_model_summary=False, accelerator="cpu", default_root_dir=folder)
            trainer.fit(module, data, data)
            shown = json.loads(ramet("runs", "show", logger.experiment.path, "--json", folder=folder).splitlines()[-1])
        self.assertEqual(shown["status"], "done", shown)
        self.assertEqual(shown["name"], "line")
        self.assertEqual(logger.version, shown["id"])
        text = json.dumps(shown)
        for word in ("last_train_loss", "last_held_out_loss"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
