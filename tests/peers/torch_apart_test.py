"""torch.export in a fork, as Options(memory="low") has it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import torch_support
from peers import needs

import torch

import ramet
import ramet.torch as rt
from ramet.torch import _apart


def local_module():
    """A module of a class that no other process could import, with constants of its own."""
    scale = 0.5

    class Local(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(6, 6)
            self.register_buffer("shift", torch.arange(6.0), persistent=False)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            y = self.inner(x) * scale + self.shift + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            if self.training:
                self.seen += 1
            return {"y": y, "size": y.abs().mean()}

    torch.manual_seed(3)
    return Local()


class Reads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 6)

    def forward(self, x):
        return self.inner(x).sum() if x.sum() > 0 else self.inner(x).mean()


class Fails(Reads):
    def forward(self, x):
        return self.inner(x[:, :5]).sum()


def compiled(module, memory, loss=None, **options):
    return rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=1e-2), {"x": torch.ones(4, 6)}, loss=loss,
                             options=rt.Options(threads=2, memory=memory, **options))


SCRIPT = """
import sys, torch, ramet.torch as rt
module = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.GELU(), torch.nn.Linear(6, 1))
step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), (torch.ones(4, 6),), loss=lambda y, batch: y.mean(),
                         options=rt.Options(threads=2, memory=sys.argv[1]))
step(torch.ones(4, 6))
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
import json
print(json.dumps({"anonymous": int(status["RssAnon"].split()[0]) // 1024, "modules": len(sys.modules),
                  "export": "torch.export._trace" in sys.modules}))
"""


@needs("torch", "ramet")
@unittest.skipUnless(sys.platform == "linux", "needs fork")
class ExportApart(unittest.TestCase):
    """What torch.export imports and keeps is not in a process that has memory="low"."""

    def test_what_export_imports_is_not_in_the_process(self):
        def run(memory):
            done = subprocess.run([sys.executable, "-c", SCRIPT, memory], capture_output=True, text=True, check=True,
                                  env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
            return json.loads(done.stdout.splitlines()[-1])
        whole, low = run(""), run("low")
        self.assertTrue(whole["export"])
        self.assertFalse(low["export"])
        self.assertLess(low["modules"] + 300, whole["modules"])
        self.assertLess(low["anonymous"] + 15, whole["anonymous"])  # MiB

    def test_local_classes_and_functions_train_the_same(self):
        weight = 2.0

        def run(memory, **options):
            step = compiled(local_module(), memory, loss=lambda outputs, batch: outputs["y"].square().mean() * weight,
                            outputs=["y"], **options)
            results = [step(x=torch.full((4, 6), float(i))) for i in range(3)]
            return [each.loss for each in results], results[-1].outputs["y"], results[-1].metrics, step.weights_hash()
        with mock.patch.object(_apart, "result_of", side_effect=_apart.result_of) as forked:
            low = run("low")
            forked.assert_called_once()
            losses, outputs, metrics, weights = run("")
            forked.assert_called_once()
        self.assertEqual((low[0], low[2], low[3]), (losses, metrics, weights))
        self.assertTrue(torch.equal(low[1], outputs))
        self.assertEqual(low[1].dtype, outputs.dtype)
        with mock.patch.object(os, "fork", side_effect=OSError):  # a system that gives no more processes
            self.assertEqual(run("low")[3], weights)

    def test_errors_are_the_same(self):
        for module, options in ((Reads(), {}), (Fails(), {}), (local_module(), {"loss": "no such"}), (local_module(), {"outputs": ["z"]}),
                                (torch.nn.ReLU(), {})):
            with self.subTest(type(module).__name__):
                found = []
                for memory in ("", "low"):
                    with self.assertRaises(ramet.Error) as raised:
                        rt.training_model(module, None, (torch.ones(4, 6),), loss=options.get("loss"), options=rt.Options(
                            memory=memory, outputs=options.get("outputs", ())))
                    found.append((type(raised.exception), str(raised.exception), type(raised.exception.__cause__)))
                self.assertEqual(found[1], found[0])

    def test_a_fork_gives_its_result_or_nothing(self):
        self.assertEqual(_apart.result_of(lambda: {"a": [1, os.getpid() != os.getppid()]}), {"a": [1, True]})
        self.assertEqual(_apart.result_of(lambda: bytes(1 << 24)), bytes(1 << 24))
        self.assertIsNone(_apart.result_of(lambda: 1 // 0))
        self.assertIsNone(_apart.result_of(lambda: lambda: 0))  # no pickle
        self.assertIsNone(_apart.result_of(lambda: os.kill(os.getpid(), signal.SIGKILL)))
        lock = threading.Lock()
        with lock, mock.patch.object(_apart, "STUCK_SECONDS", 0.2):
            self.assertIsNone(_apart.result_of(lock.acquire))
        with self.assertRaises(ChildProcessError):  # none is left behind
            os.waitpid(-1, os.WNOHANG)

    def test_what_the_fork_prints_is_printed_once(self):
        script = ("import sys; from ramet.torch import _apart; print('before'); "
                  "print(_apart.result_of(lambda: print('inside') or 5)); print('after')")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                              env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.stdout.split(), ["before", "inside", "5", "after"])

    def test_a_fork_ends_with_an_interrupted_process(self):
        with mock.patch.object(_apart, "_wait", side_effect=KeyboardInterrupt), contextlib.suppress(KeyboardInterrupt):
            _apart.result_of(lambda: threading.Event().wait())
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)


if __name__ == "__main__":
    unittest.main()
