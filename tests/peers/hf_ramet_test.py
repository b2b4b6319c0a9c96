"""ramet.transformers compiled by Ramet itself: the same losses, weights and predictions as PyTorch's."""

import os
import subprocess
import sys
import tempfile
import unittest

import torch_support  # noqa: F401  (finds the built package, or skips everything)
from peers import ROOT, needs

try:
    import torch
    import transformers
    import ramet
    import ramet.transformers as rt
    from hf_trainer_test import LABELS, accuracy, classifier, decoder, samples
    sys.modules.pop("ramet.torch", None)  # the double that hf_trainer_test installs for itself
    if hasattr(sys.modules["ramet"], "torch"):
        del sys.modules["ramet"].torch
    torch.set_num_threads(1)
except ImportError:
    torch = None


def autocast_trainer(dtype):
    class Autocast(transformers.Trainer):
        def compute_loss(self, *arguments, **more):
            with torch.autocast("cpu", dtype=dtype):
                return super().compute_loss(*arguments, **more)

    return Autocast


@needs("torch", "transformers", "ramet")
class RametTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def arguments(self, kind=None, **more):
        settings = {"output_dir": self.folder, "per_device_train_batch_size": 4, "per_device_eval_batch_size": 4, "learning_rate": 1e-3,
                    "num_train_epochs": 2, "logging_steps": 1, "save_strategy": "no", "disable_tqdm": True, "report_to": "none", "seed": 3}
        return (kind or rt.TrainingArguments)(**(settings | more))

    def losses(self, trainer):
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    def compare(self, model, data, micro_batches, both=None, **ours):
        """Ours with micro-batches of 4, and transformers' with whole steps. `both`: arguments of both."""
        mine = rt.Trainer(model(), self.arguments(gradient_accumulation_steps=micro_batches, **ours, **(both or {})), train_dataset=data)
        other = transformers.Trainer(model(), self.arguments(transformers.TrainingArguments, use_cpu=True, dataloader_drop_last=True,
                                                             per_device_train_batch_size=4 * micro_batches, **(both or {})), train_dataset=data)
        for found, expected in zip(self.losses(mine), self.losses(other), strict=True):
            self.assertAlmostEqual(found, expected, delta=1e-4 * expected)
        for name, value in other.model.state_dict().items():
            if not name.endswith("key.bias"):  # it cancels in the softmax, so its gradient is rounding alone
                torch.testing.assert_close(mine.model.state_dict()[name], value, rtol=1e-3, atol=1e-4, msg=name)
        return mine

    def test_classifier(self):
        data = samples(10, seed=5)
        trainer = self.compare(classifier, samples(24), 1)
        trainer.compute_metrics = accuracy
        other = transformers.Trainer(trainer.model, self.arguments(transformers.TrainingArguments, use_cpu=True), compute_metrics=accuracy)
        found, expected = trainer.evaluate(data), other.evaluate(data)
        self.assertAlmostEqual(found["eval_loss"], expected["eval_loss"], delta=1e-4)
        self.assertEqual(found["eval_accuracy"], expected["eval_accuracy"])
        torch.testing.assert_close(torch.tensor(trainer.predict(data).predictions), torch.tensor(other.predict(data).predictions), rtol=1e-3, atol=1e-4)

    def test_optimizers_of_the_arguments(self):
        for name in ("adafactor", "adagrad", "rmsprop"):
            with self.subTest(name):
                self.compare(classifier, samples(16), 1, both={"optim": name, "weight_decay": 0.1})

    def test_parts_of_the_arguments(self):
        kinds = {"layout": "p=2", "parts": ["module.bert.encoder.layer.*"]}
        self.compare(lambda: classifier(layers=2), samples(16), 1, **kinds)
        with self.assertRaisesRegex(ramet.Error, "no module has a path of this pattern"):
            rt.Trainer(classifier(), self.arguments(parts="encoder.block.*"), train_dataset=samples(8)).train()

    def test_decoder_with_unequal_micro_batches(self):
        data = samples(16)
        for i, sample in enumerate(data):
            sample["labels"] = [-100] * (i % 7) + sample["input_ids"][i % 7:]
        self.compare(decoder, data, 2)

    def test_16_bit_training_falls_as_under_autocast(self):
        data, types = samples(32), {"bf16": torch.bfloat16, "fp16": torch.float16}
        settings = {"num_train_epochs": 12, "learning_rate": 3e-3}
        for model in (classifier, decoder):
            for sample in data:
                sample["labels"] = sample["input_ids"] if model is decoder else sum(sample["input_ids"]) % LABELS
            exact = self.losses(rt.Trainer(model(), self.arguments(**settings), train_dataset=data))
            for name, dtype in types.items():
                # A classifier that learns its samples by heart has steps of a small loss, where a rounding error is a large share.
                tolerance = 0.03 if model is classifier else 1e-3
                with self.subTest(f"{model.__name__} {name}"):
                    autocast = autocast_trainer(dtype)(model(), self.arguments(transformers.TrainingArguments, use_cpu=True, **settings),
                                                       train_dataset=data)
                    found, expected = self.losses(rt.Trainer(model(), self.arguments(**settings, **{name: True}), train_dataset=data)), \
                        self.losses(autocast)
                    self.assertEqual(len(found), len(expected))
                    self.assertNotEqual(found, exact)
                    for mine, other, single in zip(found, expected, exact):
                        self.assertAlmostEqual(mine, single, delta=tolerance * single)
                    mean_of_last = [sum(each[-8:]) / 8 for each in (found, expected)]
                    self.assertLess(mean_of_last[0], 0.9 * found[0])
                    self.assertAlmostEqual(*mean_of_last, delta=0.06 * mean_of_last[1])

    def test_prediction_before_training(self):
        model, data = classifier().eval(), samples(10, seed=5)
        found = rt.Trainer(model, self.arguments()).predict(data)
        with torch.no_grad():
            outputs = model(**transformers.default_data_collator(data))
        torch.testing.assert_close(torch.tensor(found.predictions), outputs.logits, rtol=1e-4, atol=1e-5)
        self.assertAlmostEqual(found.metrics["test_loss"], float(outputs.loss), places=5)

    def test_resume_gives_the_same_bits(self):
        data = samples(24)

        def run(model, resume=None, **more):
            trainer = rt.Trainer(model, self.arguments(**more), train_dataset=data)
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train(resume_from_checkpoint=resume)
            return trainer.model.state_dict()

        whole = run(classifier(), save_strategy="steps", save_steps=5)
        again = run(classifier(seed=9), resume=os.path.join(self.folder, "checkpoint-5"))
        for name, value in whole.items():
            self.assertTrue(torch.equal(again[name], value), name)

    def test_layouts_have_the_same_bits(self):
        def run(layout):
            trainer = rt.Trainer(classifier(), self.arguments(layout=layout, lanes=2, gradient_accumulation_steps=2), train_dataset=samples(24))
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
            return trainer.model.state_dict()

        one, two = run(""), run("r=2 rts=optimizer")
        for name, value in one.items():
            self.assertTrue(torch.equal(two[name], value), name)
        self.assertEqual(one["classifier.weight"].shape[0], LABELS)

    def test_some_cells_of_the_table(self):
        done = subprocess.run([sys.executable, str(ROOT / "bench" / "hf_table.py"), "--json", os.path.join(self.folder, "table.json"), "--steps", "3",
                               "--only", "DistilBERT: masked", "BART: summarisation", "ViT: image", "Wav2Vec2: audio", "Mixtral: causal", "Flan-T5: translation",
                               "CLIP: contrastive", "UNet2DCondition: one"],
                              capture_output=True, text=True, check=False, cwd=ROOT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "8 equal", done.stdout)


if __name__ == "__main__":
    unittest.main()
