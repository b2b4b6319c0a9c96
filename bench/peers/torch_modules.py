"""Trains modules of PyTorch with PyTorch and with Ramet, and compares losses and weights.

    bench/peers/torch_modules.py [NAME...] [--steps N] [--folder DIR] [--keep]

Each module is exported by torch.export, saved as a .pt2 file, and trained by `ramet train` from that file: SGD without
momentum, f32, the same batches in the same order. Random operators are switched off (dropout 0).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH = 4


@torch.library.custom_op("ramet::stop_gradient", mutates_args=())
def stop_gradient(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@stop_gradient.register_fake
def _(x):
    return torch.empty_like(x)


def mark(graph_module):
    """Replaces detach by stop_gradient, and stops what leaves a region without gradients."""
    stop = torch.ops.ramet.stop_gradient.default
    for node in list(graph_module.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in (torch.ops.aten.detach.default, torch.ops.aten.detach_.default):
            node.target = stop
        if "set_grad_enabled" in str(node.target) and node.args[0] is False:
            inner = getattr(graph_module, node.args[1].target)
            result = next(each for each in inner.graph.nodes if each.op == "output")
            values = []
            for value in result.args[0]:
                if isinstance(value, torch.fx.Node):
                    with inner.graph.inserting_before(result):
                        stopped = inner.graph.call_function(stop, (value,))
                    stopped.meta = dict(value.meta)
                    value = stopped
                values.append(value)
            result.args = (tuple(values),)
            inner.recompile()
    graph_module.recompile()


def traced(module, example):
    program = torch.export.export(module, (), example)
    mark(program.graph_module)
    return program.run_decompositions({})


class Loss(nn.Module):
    """A classifier of images with its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixels, labels):
        logits = self.model(pixels)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def without_dropout(module):
    for each in module.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
        if hasattr(each, "attention_dropout") and isinstance(each.attention_dropout, float):
            each.attention_dropout = 0.0
        if isinstance(each, nn.MultiheadAttention):
            each.dropout = 0.0
    return module


def images(size, classes=10, channels=3):
    def batch(generator):
        return {"pixels": torch.randn(BATCH, channels, size, size, generator=generator),
                "labels": torch.randint(0, classes, (BATCH,), generator=generator)}
    return batch


def tokens(length, vocabulary, causal):
    def batch(generator):
        ids = torch.randint(0, vocabulary, (BATCH, length), generator=generator)
        labels = ids.clone()
        if not causal:
            labels[torch.rand(ids.shape, generator=generator) > 0.3] = -100
        mask = torch.ones_like(ids)
        mask[0, length // 2:] = 0
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return batch


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.head = nn.Linear(8, 3)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, pixels, labels):
        y = pixels.mean((2, 3))
        for layer in self.layers:
            y = self.norm(torch.tanh(layer(y)))
        return {"loss": nn.functional.cross_entropy(self.head(y), labels)}


def torchvision(name, size, **options):
    def make():
        import torchvision
        return Loss(getattr(torchvision.models, name)(num_classes=10, **options)), images(size)
    return make


def transformers(kind, causal, **options):
    def make():
        import transformers
        config = transformers.AutoConfig.for_model(kind, **options)
        config._attn_implementation = "sdpa"
        config.use_cache = False  # caches are no outputs that torch.export knows
        auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
        return auto.from_config(config), tokens(16, options["vocab_size"], causal)
    return make


SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
MODULES = {
    "mlp": lambda: (Mlp(), images(4, 3, 8)),
    "resnet18": torchvision("resnet18", 32),
    "vit": lambda: vit(),
    "convnext_tiny": torchvision("convnext_tiny", 32),
    "mobilenet_v3_small": torchvision("mobilenet_v3_small", 32),
    "densenet121": torchvision("densenet121", 32),
    "swin_t": torchvision("swin_t", 32),
    "bert": transformers("bert", False, **SMALL, intermediate_size=64, max_position_embeddings=32,
                         hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    "gpt2": transformers("gpt2", True, vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0,
                         embd_pdrop=0.0, attn_pdrop=0.0),
    "llama": transformers("llama", True, **SMALL, intermediate_size=64, num_key_value_heads=2,
                          max_position_embeddings=32),
}


def vit():
    from torchvision.models.vision_transformer import VisionTransformer
    return Loss(VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)), images(32)


def save(path, name, module, example):
    """The module as a .pt2 file with both programs. Returns the names of its outputs."""
    from torch._export.serde.serialize import ExportedProgramSerializer, _dataclass_to_dict, EnumEncoder
    module.train()
    training = traced(module, example)
    module.eval()
    evaluation = traced(module, example)
    module.train()
    start = {key: value.clone() for key, value in module.state_dict().items()}
    with torch.no_grad():
        result = module(**example)
    module.load_state_dict(start)
    outputs = []
    torch.utils._pytree.tree_map_with_path(
        lambda key, _: outputs.append("".join(str(part) for part in key).replace("']['", ".").strip("[]'")), result)
    text = json.dumps(_dataclass_to_dict(ExportedProgramSerializer(None, None).serialize(evaluation).exported_program),
                      cls=EnumEncoder)
    options = {"name": name, "outputs": outputs}
    torch.export.save(training, path, extra_files={"ramet_evaluation.json": text, "ramet.json": json.dumps(options)})


def compare(name, steps, rate, folder, extra):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    module, batch = MODULES[name]()
    module = without_dropout(module).train()
    generator = torch.Generator().manual_seed(1)
    batches = [batch(generator) for _ in range(steps)]
    path = os.path.join(folder, name + ".pt2")
    begin = time.time()
    start = {key: value.clone() for key, value in module.state_dict().items()}
    save(path, name, module, batches[0])
    exported = time.time() - begin

    optimizer = torch.optim.SGD([each for each in module.parameters() if each.requires_grad], rate)
    losses = []
    for each in batches:
        optimizer.zero_grad()
        loss = module(**each)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    data = os.path.join(folder, name + ".npz")
    numpy.savez(data, **{key: numpy.concatenate([each[key].numpy() for each in batches]) for key in batches[0]})
    run = os.path.join(folder, f"{name}.{os.getpid()}.run")
    begin = time.time()
    command = [os.path.join(ROOT, "build", "ramet"), "train", path, "--run", run, "--json"]
    settings = {"data.train": data, "data.shuffle": "false", "train.steps": steps, "train.optimizer.kind": "sgd",
                "train.optimizer.weight_decay": 0, "train.optimizer.momentum": 0, "train.clip_norm": 0,
                "train.precision": "f32", "train.schedule.learning_rate": rate, "train.schedule.warmup_steps": 0,
                "train.schedule.kind": "constant", "train.checkpoint.every": steps}
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command + extra, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"{name:20} FAILED\n{done.stderr[-3000:]}", False
    ours = [json.loads(line)["loss"] for line in done.stdout.splitlines()
            if line.startswith("{") and "loss" in json.loads(line) and "step" in json.loads(line)][:steps]
    trained = time.time() - begin
    weights = os.path.join(folder, name + ".safetensors")
    subprocess.run([os.path.join(ROOT, "build", "ramet"), "export", run, "--out", weights], check=True,
                   capture_output=True)
    from safetensors.torch import load_file
    published = load_file(weights)
    worst, where = 0.0, ""
    state = module.state_dict()
    for key, value in published.items():
        moved = (state[key].float() - start[key].float()).norm().item()
        gap = (state[key].float() - value.float().reshape(state[key].shape)).norm().item()
        size = max(moved, 1e-3 * state[key].float().norm().item(), 1e-7)
        if gap / size > worst:
            worst, where = gap / size, key
    gap = max((abs(a - b) / abs(a) for a, b in zip(losses, ours)), default=float("inf"))
    good = len(ours) == steps and gap < 1e-4
    line = (f"{name:20} loss {losses[0]:.6f} -> {losses[-1]:.6f}, greatest relative difference {gap:.1e}; change of a "
            f"tensor differs by {worst:.1e} at most ({where}); {len(published)} tensors; export {exported:.1f} s, "
            f"ramet {trained:.1f} s")
    return line if good else line + f"\n  torch {losses}\n  ramet {ours}", good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--folder", default="")
    parser.add_argument("--set", action="append", default=[], help="further settings of ramet train")
    parser.add_argument("--layout", default="")
    arguments = parser.parse_args()
    extra = [word for setting in arguments.set for word in ("--set", setting)]
    if arguments.layout:
        extra += ["--layout", arguments.layout]
    with tempfile.TemporaryDirectory() as temporary:
        good = True
        for name in arguments.names or MODULES:
            try:
                line, fine = compare(name, arguments.steps, arguments.rate, arguments.folder or temporary, extra)
            except Exception as error:  # noqa: BLE001: one module that cannot be exported stops no other
                line, fine = f"{name:20} FAILED: {error}", False
            print(line, flush=True)
            good = good and fine
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
