"""Fine-tuning ONNX files that PyTorch's exporter wrote: PyTorch's losses, one hash on all layouts, weights back."""
import json
import pathlib
import tempfile
import unittest

from peers import needs, ramet

try:
    import numpy
    import onnx
    import torch
    import transformers
    from onnx import numpy_helper
except ImportError:
    onnx = None

STEPS, SAMPLES, ACCUMULATION, CLASSES = 30, 4, 2, 3
RATE = 0.02
RECIPE = """name = "tuned"
[model]
file = "{file}?{options}"
[data]
kind = "arrays"
train = "train.npz"
shuffle = false
[train]
steps = {steps}
accumulation = 2
lanes = 2
chunks = 2
precision = "f32"
clip_norm = 0
[train.optimizer]
kind = "sgd"
momentum = 0.9
weight_decay = 0
[train.schedule]
kind = "constant"
learning_rate = 0.02
warmup_steps = 0
[train.evaluation]
batches = 0
[system]
every = 0
"""
# What all models run on; tensor shards need axes of weights, which a model may lack.
LAYOUTS = ["", "p=2", "r=2", "p=2 r=2", "phases=2", "r=2 rts=optimizer offload=optimizer", "recompute=all",
           "p=2 recompute=layer"]


class Logits(torch.nn.Module if onnx else object):
    """A classifier of transformers as a function from tensors to logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(*inputs).logits


def bert():
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=16, hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=CLASSES,
        attn_implementation="eager")
    random = numpy.random.default_rng(2)
    rows = STEPS * ACCUMULATION * SAMPLES
    ids = random.integers(1, 60, (rows, 8))
    mask = (numpy.arange(8)[None] < random.integers(3, 9, (rows, 1))).astype(numpy.int64)
    return Logits(transformers.BertForSequenceClassification(config)), {"input_ids": ids, "attention_mask": mask}


def resnet():
    torch.manual_seed(1)
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12, 16, 24], depths=[2, 2, 2, 2],
                                       layer_type="basic", num_labels=CLASSES)
    model = transformers.ResNetForImageClassification(config)
    random = numpy.random.default_rng(2)
    for name, buffer in model.named_buffers():  # statistics that are not those of a new model
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    pixels = random.standard_normal((STEPS * ACCUMULATION * SAMPLES, 3, 32, 32)).astype(numpy.float32)
    return Logits(model), {"pixel_values": pixels}


def losses_of_torch(module, arrays, labels):
    """The loss of each step. Batch norms keep their statistics, as those of the file do."""
    module.eval()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9)
    made, first = [], 0
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(ACCUMULATION):
            rows = slice(first, first + SAMPLES)
            logits = module(*[torch.from_numpy(array[rows]) for array in arrays.values()])
            loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[rows])) / ACCUMULATION
            loss.backward()
            total += loss.item()
            first += SAMPLES
        optimizer.step()
        made.append(total)
    return made


@needs("onnx", "onnxruntime", "numpy", "torch", "transformers")
class Tuned(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def prepare(self, make, external=False):
        """Writes NAME.onnx and train.npz; returns the module and the arrays."""
        module, arrays = make()
        module.eval()
        name = make.__name__
        torch.onnx.export(module, tuple(torch.from_numpy(array[:SAMPLES]) for array in arrays.values()),
                          self.folder / f"{name}.onnx", input_names=list(arrays), output_names=["logits"], dynamo=True,
                          optimize=False, external_data=external, verbose=False)
        labels = numpy.random.default_rng(5).integers(0, CLASSES, len(next(iter(arrays.values()))))
        numpy.savez(self.folder / "train.npz", labels=labels, **arrays)
        return module, arrays, labels

    def train(self, name, run, steps=STEPS, layout="", threads=1, options=""):
        options = "loss=cross_entropy:logits:labels" + options
        (self.folder / "recipe.toml").write_text(RECIPE.format(file=f"{name}.onnx", options=options, steps=steps))
        out = ramet("train", "recipe.toml", "--run", run, "--json", "--threads", threads,
                    *(["--layout", layout] if layout else []), folder=self.folder)
        events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return ([event["loss"] for event in events if event.get("event") == "step"],
                next(event["weights_hash"] for event in reversed(events) if "weights_hash" in event))

    def follow(self, make):
        module, arrays, labels = self.prepare(make)
        ours, _ = self.train(make.__name__, "run")
        theirs = losses_of_torch(module, arrays, labels)
        self.assertEqual(len(ours), STEPS)
        numpy.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)
        self.assertGreater(max(abs(loss - theirs[0]) for loss in theirs), 1e-2, "the losses do not move")
        return module

    def one_hash(self, make, layouts=()):
        self.prepare(make)
        hashes = {}
        for number, layout in enumerate([*LAYOUTS, *layouts]):
            with self.subTest(layout=layout):
                hashes[layout] = self.train(make.__name__, f"run{number}", 3, layout)[1]
        hashes["two threads"] = self.train(make.__name__, "threads", 3, threads=2)[1]
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_bert_follows_pytorch(self):
        module = self.follow(bert)
        # The trained weights stand in the same file, and are PyTorch's.
        ramet("export", "run", "--out", "new.onnx", "--like", "bert.onnx", folder=self.folder)
        weights = dict(module.named_parameters())
        for tensor in self.expect_new_numbers_alone("bert.onnx", "new.onnx"):
            if tensor.name in weights:
                numpy.testing.assert_allclose(numpy_helper.to_array(tensor), weights[tensor.name].detach().numpy(),
                                              rtol=1e-2, atol=1e-3, err_msg=tensor.name)

    def expect_new_numbers_alone(self, before, after):
        """Two files of one size that differ in the numbers of initializers alone; returns those of the second."""
        sizes = [(self.folder / name).stat().st_size for name in (before, after)]
        self.assertEqual(*sizes)
        old, new = (onnx.load(self.folder / name, load_external_data=False) for name in (before, after))
        found = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in new.graph.initializer]
        changed = 0
        for first, second in zip(old.graph.initializer, new.graph.initializer):
            changed += first.raw_data != second.raw_data
            first.raw_data = second.raw_data = b""
        self.assertEqual(old, new)
        self.assertGreater(changed, 10)
        return found

    def test_resnet_follows_pytorch(self):
        self.follow(resnet)

    def test_bert_has_one_hash(self):
        self.one_hash(bert, ["t=2"])

    def test_resnet_has_one_hash(self):
        self.one_hash(resnet)

    def test_weights_go_back_into_external_data(self):
        self.prepare(bert, external=True)
        self.assertTrue((self.folder / "bert.onnx.data").exists())
        self.train("bert", "run", 2)
        (self.folder / "new").mkdir()
        ramet("export", "run", "--out", "new/bert.onnx", "--like", "bert.onnx", folder=self.folder)
        self.expect_new_numbers_alone("bert.onnx", "new/bert.onnx")  # small weights stand in the file itself
        before, after = ((self.folder / name).read_bytes() for name in ("bert.onnx.data", "new/bert.onnx.data"))
        self.assertEqual(len(before), len(after))
        touched = set()
        for tensor in onnx.load(self.folder / "bert.onnx", load_external_data=False).graph.initializer:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if entries:
                first = int(entries.get("offset", 0))
                touched.update(range(first, first + int(entries["length"])))
        self.assertNotEqual(before, after)
        self.assertTrue(all(a == b for i, (a, b) in enumerate(zip(before, after)) if i not in touched))


if __name__ == "__main__":
    unittest.main()
