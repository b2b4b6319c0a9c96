"""The other side of bench/predict_vs_onnxruntime.py: exports a model with random weights, or times onnxruntime.

    python bench/peers/onnx_side.py export resnet-50 FOLDER     # FOLDER/resnet-50.onnx
    python bench/peers/onnx_side.py time FOLDER/resnet-50.onnx --seconds 5 --threads 2
"""

import argparse
import json
import pathlib
import time

BATCHES = {"resnet-50": 16, "bert-base": 8}
LENGTH, WORDS = 128, 30522


def resnet():
    import torch
    import torchvision
    model = torchvision.models.resnet50(weights=None).eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    return model, (torch.randn(BATCHES["resnet-50"], 3, 224, 224),), ["x"], ["logits"]


def bert():
    import torch
    import transformers

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertModel(transformers.BertConfig(vocab_size=WORDS))

        def forward(self, ids, mask):
            return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state

    ids = torch.randint(0, WORDS, (BATCHES["bert-base"], LENGTH))
    return Hidden().eval(), (ids, torch.ones_like(ids)), ["ids", "mask"], ["hidden"]


def export(name, folder):
    import torch
    torch.manual_seed(1)
    model, inputs, input_names, output_names = {"resnet-50": resnet, "bert-base": bert}[name]()
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    torch.onnx.export(model, inputs, str(pathlib.Path(folder) / f"{name}.onnx"), dynamo=True, external_data=True,
                      input_names=input_names, output_names=output_names)


def inputs_of(session):
    """Random numbers, words, and masks that hide nothing."""
    import numpy
    random = numpy.random.default_rng(1)
    made = {}
    for value in session.get_inputs():
        if value.type == "tensor(float)":
            made[value.name] = random.standard_normal(value.shape).astype(numpy.float32)
        else:
            made[value.name] = numpy.ones(value.shape, "int64") if value.name == "mask" else random.integers(0, WORDS, value.shape)
    return made


def measure(path, seconds, threads):
    """All optimisations of graphs; as many threads as Ramet, each bound to one processor; inputs and outputs bound."""
    import os

    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    processors = sorted(os.sched_getaffinity(0))
    # Of the threads that the session makes; the first one is this thread. Processors count from 1 there.
    if threads > 1:
        options.add_session_config_entry("session.intra_op_thread_affinities", ";".join(str(p + 1) for p in processors[1:threads]))
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    ready = time.perf_counter() - start
    binding = session.io_binding()
    for name, value in inputs_of(session).items():
        binding.bind_cpu_input(name, value)
    for value in session.get_outputs():
        binding.bind_output(value.name)
    for _ in range(2):
        session.run_with_iobinding(binding)
    times = []
    while len(times) < 5 or sum(times) < seconds:
        start = time.perf_counter()
        session.run_with_iobinding(binding)
        times.append(time.perf_counter() - start)
    times.sort()
    print(json.dumps({"calls": len(times), "ready_ms": 1000 * ready, "p50_ms": 1000 * times[len(times) // 2], "least_ms": 1000 * times[0],
                      "onnxruntime": onnxruntime.__version__}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("export")
    command.add_argument("model", choices=list(BATCHES))
    command.add_argument("folder")
    command = commands.add_parser("time")
    command.add_argument("path")
    command.add_argument("--seconds", type=float, default=5)
    command.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.command == "export":
        export(args.model, args.folder)
    else:
        measure(args.path, args.seconds, args.threads)


if __name__ == "__main__":
    main()
