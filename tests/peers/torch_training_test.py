"""Training with ramet.torch beside PyTorch's own: losses, weights, states, schedulers, and what must not go wrong."""

import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
import zipfile

import torch_support
from torch_support import Net, Rows, batch, seeded
from torch_export_test import FUNCTIONS
import torch
from torch import nn

import ramet
import ramet.torch as rt

TINY = dict(threads=1)


def reference(module, optimizer, batches, micro_batches=1, scheduler=None, max_norm=0.0, micro=4):
    """Losses and norms of PyTorch's own steps, with gradient accumulation over micro-batches."""
    losses, norms = [], []
    module.train()
    for each in batches:
        optimizer.zero_grad()
        loss = 0.0
        for i in range(micro_batches):
            part = {name: value[i * micro:(i + 1) * micro] for name, value in each.items()}
            out = module(**part)["loss"] / micro_batches
            out.backward()
            loss += out.item()
        norms.append(nn.utils.clip_grad_norm_(module.parameters(), max_norm or 1e30).item())
        optimizer.step()
        if scheduler:
            scheduler.step()
        losses.append(loss)
    return losses, norms


def two(make=Net, seed=1):
    """Two modules with the same weights."""
    return seeded(make, seed), seeded(make, seed)


class Steps(unittest.TestCase):
    def assert_same_training(self, make_optimizer, make=Net, steps=6, micro_batches=1, max_norm=0.0, scheduler=None,
                             tolerance=2e-5, **options):
        theirs, mine = two(make)
        batches = [batch(4 * micro_batches, seed=i) for i in range(steps)]
        optimizer = make_optimizer(theirs)
        expected, norms = reference(theirs, optimizer, batches, micro_batches, scheduler and scheduler(optimizer), max_norm)
        optimizer = make_optimizer(mine)
        own_scheduler = scheduler and scheduler(optimizer)
        step = rt.training_model(mine, optimizer, example=batch(), loss="loss",
                                 options=rt.Options(micro_batches=micro_batches, max_grad_norm=max_norm, **(TINY | options)))
        for each, loss, norm in zip(batches, expected, norms):
            result = step(**each)
            if own_scheduler:
                own_scheduler.step()
            self.assertAlmostEqual(result.loss, loss, delta=tolerance * max(1, abs(loss)))
            self.assertAlmostEqual(result.grad_norm, norm, delta=1e-4 * max(1, norm))
        step.copy_to(mine)
        for name, value in theirs.state_dict().items():
            torch.testing.assert_close(mine.state_dict()[name], value, rtol=1e-4, atol=2e-5, msg=name)
        return step, mine, optimizer

    def test_optimizers_step_as_in_pytorch(self):
        for name, make in {
            "SGD": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
            "momentum": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01),
            "nesterov": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, nesterov=True),
            "Adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, weight_decay=0.1),
            "AdamW": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6),
            "RMSprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.01, alpha=0.9, momentum=0.5, centered=True),
            "Adagrad": lambda m: torch.optim.Adagrad(m.parameters(), lr=0.05, lr_decay=0.1, weight_decay=0.01,
                                                     initial_accumulator_value=0.1),
        }.items():
            with self.subTest(name):
                if name in ("RMSprop", "Adagrad") and not hasattr(ramet, name.capitalize()):
                    self.skipTest(f"this build has no {name}")
                self.assert_same_training(make)

    def test_micro_batches_are_accumulated_and_gradients_clipped(self):
        self.assert_same_training(lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), micro_batches=4, max_norm=0.5)

    def test_groups_have_their_own_options_and_schedules(self):
        def groups(module):
            return torch.optim.AdamW([
                {"params": module.first.parameters(), "lr": 0.02, "weight_decay": 0.0},
                {"params": module.last.parameters(), "betas": (0.7, 0.9)}], lr=0.005, weight_decay=0.2)

        def schedule(optimizer):
            return torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda i: 0.5 ** i, lambda i: min(1.0, 0.1 + i / 3)])
        step, _, _ = self.assert_same_training(groups, scheduler=schedule)
        self.assertEqual(set(step(**batch()).learning_rates), {"group0", "group1"})

    def test_schedulers_of_torch_work_unchanged(self):
        for make in (lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 6),
                     lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False),
                     lambda o: torch.optim.lr_scheduler.StepLR(o, 2)):
            self.assert_same_training(lambda m: torch.optim.Adam(m.parameters(), lr=0.02), scheduler=make)

    def test_batch_norm_has_pytorchs_statistics(self):
        step, mine, _ = self.assert_same_training(lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
                                                  make=lambda: Net(norm=True), micro_batches=2, steps=3, tolerance=1e-4)
        self.assertEqual(mine.norm.num_batches_tracked.item(), 6)
        self.assertEqual(mine.norm.num_batches_tracked.dtype, torch.int64)

    def test_the_same_bits_on_any_layout(self):
        found = set()
        for layout in ("", "r=2 rts=optimizer", "p=2"):
            module = seeded(lambda: Net(norm=True))
            step = rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=0.01), example=batch(), loss="loss",
                                     options=rt.Options(layout=layout, micro_batches=4, lanes=2, threads=2,
                                                        release_module=layout != "", parts=["first", "last"]))
            losses = tuple(step(**batch(16, seed=i)).loss for i in range(3))
            found.add((losses, step.weights_hash()))
        self.assertEqual(len(found), 1)


class Regions(unittest.TestCase):
    def test_gradients_of_regions_and_in_place_operations_are_those_of_pytorch(self):
        x = torch.tensor([0.3, -1.2, 2.0])[None]
        for function in FUNCTIONS:
            with self.subTest(function.__name__):
                theirs, mine = (Rows(lambda self, x, function=function: function(self, x[0]).square().sum()) for _ in range(2))
                value = theirs(x)
                value.backward()
                step = rt.training_model(mine, torch.optim.SGD(mine.parameters(), lr=1.0), example=x,
                                         options=rt.Options(**TINY))
                self.assertAlmostEqual(step(x).loss, value.item(), delta=1e-5 * max(1, abs(value.item())))
                after = step.state_dict()
                for name, each in theirs.named_parameters():
                    expected = each.detach() if each.grad is None else each.detach() - each.grad
                    torch.testing.assert_close(after[name], expected, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
                torch.testing.assert_close(after.get("b", theirs.b), theirs.b)

    def test_slices_are_assigned_and_views_changed_in_a_layer(self):
        class Sliced(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(6, 6)

            def forward(self, x):
                h = self.line(x)
                h[:, :2] = h[:, 2:4] * 2
                h[:, 5:].mul_(3)
                h.view(-1, 2, 3)[:, 1, 0] = 0.5
                h[x > 0.5] = 0.25
                return h.square().mean()

        theirs, mine = two(Sliced)
        x = batch()["x"]
        theirs(x).backward()
        step = rt.training_model(mine, torch.optim.SGD(mine.parameters(), lr=1.0), example=x, options=rt.Options(**TINY))
        step(x)
        for name, each in theirs.named_parameters():
            torch.testing.assert_close(step.state_dict()[name], each.detach() - each.grad, rtol=1e-5, atol=1e-6)


class Weights(unittest.TestCase):
    def test_tied_weights_stay_tied(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(11, 6)
                self.head = nn.Linear(6, 11, bias=False)
                self.head.weight = self.embed.weight

            def forward(self, ids):
                return nn.functional.cross_entropy(self.head(self.embed(ids)).flatten(0, 1), ids.roll(1, 1).flatten())

        theirs, mine = two(Tied)
        ids = torch.arange(12).reshape(2, 6) % 11
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            theirs(ids).backward()
            optimizer.step()
        step = rt.training_model(mine, torch.optim.SGD(mine.parameters(), lr=0.5), example={"ids": ids},
                                 options=rt.Options(**TINY))
        for _ in range(3):
            step(ids=ids)
        state = step.state_dict()
        self.assertTrue(torch.equal(state["embed.weight"], state["head.weight"]))
        step.copy_to(mine)
        self.assertIs(mine.head.weight, mine.embed.weight)
        torch.testing.assert_close(mine.embed.weight, theirs.embed.weight)

    def test_frozen_parameters_get_no_state_and_keep_their_bits(self):
        module = seeded(Net)
        module.first.weight.requires_grad_(False)
        before = module.first.weight.clone()
        optimizer = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=0.1)
        step = rt.training_model(module, optimizer, example=batch(), loss="loss", options=rt.Options(**TINY))
        step(**batch())
        self.assertNotIn("first.weight", step.trained)
        self.assertFalse([name for name in step._states if name.endswith("first.weight")])
        self.assertTrue(torch.equal(step.state_dict()["first.weight"], before))
        self.assertNotIn(None, step.optimizer_state_dict()["state"])

    def test_parameters_without_a_gradient_do_not_decay(self):
        class Unused(Net):
            def __init__(self):
                super().__init__()
                self.spare = nn.Parameter(torch.ones(3))

        module = seeded(Unused)
        step = rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.5), example=batch(),
                                 loss="loss", options=rt.Options(**TINY))
        step(**batch())
        self.assertTrue(torch.equal(step.state_dict()["spare"], torch.ones(3)))

    def test_the_module_changes_only_by_copy_to(self):
        module = seeded(lambda: Net(norm=True))
        before = {name: value.clone() for name, value in module.state_dict().items()}
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batch(), loss="loss",
                                 options=rt.Options(**TINY))
        step(**batch())
        for name, value in module.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        step.copy_to(module)
        self.assertFalse(torch.equal(module.first.weight, before["first.weight"]))
        out = module.eval()(**batch())["out"]
        torch.testing.assert_close(step.predict(**batch())["out"], out, rtol=1e-4, atol=1e-5)

    def test_a_released_module_gets_its_weights_back(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(11, 6)
                self.head = nn.Linear(6, 11, bias=False)
                self.frozen = nn.Parameter(torch.ones(6), requires_grad=False)
                self.spare = nn.Parameter(torch.full((3,), 2.0))
                self.head.weight = self.embed.weight

            def forward(self, ids):
                return nn.functional.cross_entropy(self.head(self.embed(ids) * self.frozen).flatten(0, 1), ids.flatten())

        ids = {"ids": torch.arange(12).reshape(2, 6) % 11}
        make = lambda module, **options: rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=0.1), example=ids,
                                                           options=rt.Options(**TINY, **options))
        kept, released = two(Tied)
        expected, step = make(kept), make(released, release_module=True)
        self.assertTrue(released.embed.weight.isnan().all())
        self.assertEqual(released.embed.weight.untyped_storage().nbytes(), 4)
        self.assertTrue(torch.equal(released.frozen, kept.frozen))
        for _ in range(2):
            self.assertEqual(step(**ids).loss, expected(**ids).loss)
        self.assertEqual(step.weights_hash(), expected.weights_hash())
        torch.testing.assert_close(step.state_dict(), expected.state_dict(), rtol=0, atol=0)
        with self.assertRaisesRegex(ramet.UnsupportedOp, "parameter 'embed.weight' was released .Options.release_module.: call copy_to"):
            make(released)
        step.copy_to(released)
        expected.copy_to(kept)
        self.assertIs(released.head.weight, released.embed.weight)
        torch.testing.assert_close(released.state_dict(), kept.state_dict(), rtol=0, atol=0)
        self.assertTrue(released.embed.weight.requires_grad)
        self.assertEqual(make(released)(**ids).loss, make(kept)(**ids).loss)
        # Where no program comes of it, the module has its weights again.
        with self.assertRaises(ramet.DoesNotFit):
            make(released, release_module=True, device_memory=4096)
        self.assertIs(released.head.weight, released.embed.weight)
        torch.testing.assert_close(released.state_dict(), kept.state_dict(), rtol=0, atol=0)

    def test_updates_in_the_backward_pass_have_the_same_bits(self):
        kept, early = two()
        make = lambda module, **options: rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=0.1), example=batch(),
                                                           loss="loss", options=rt.Options(**TINY, **options))
        expected, step = make(kept), make(early, update_in_backward=True)
        for i in range(3):
            mine, other = step(**batch(seed=i)), expected(**batch(seed=i))
            self.assertEqual((mine.loss, mine.grad_norm), (other.loss, other.grad_norm))
        self.assertEqual(step.weights_hash(), expected.weights_hash())
        with self.assertRaisesRegex(ramet.Error, "weights cannot be updated in the backward pass while gradients are clipped"):
            make(early, update_in_backward=True, max_grad_norm=1.0)

    def test_low_memory_has_the_same_bits(self):
        kept, low = two()
        make = lambda module, **options: rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=0.1), example=batch(),
                                                           loss="loss", options=rt.Options(**TINY, **options))
        expected, step = make(kept), make(low, memory="low")
        self.assertTrue(next(low.parameters()).isnan().all())
        for i in range(3):
            mine, other = step(**batch(seed=i)), expected(**batch(seed=i))
            self.assertEqual((mine.loss, mine.grad_norm), (other.loss, other.grad_norm))
        self.assertEqual(step.weights_hash(), expected.weights_hash())
        self.assertLess(step.plan.device_bytes[0], expected.plan.device_bytes[0])
        with self.assertRaisesRegex(ramet.Error, r"predict\(\): a program without predictions"):
            step.predict(**batch())
        step.copy_to(low)
        expected.copy_to(kept)
        torch.testing.assert_close(low.state_dict(), kept.state_dict(), rtol=0, atol=0)

    def test_low_memory_keeps_to_what_other_options_say(self):
        options = rt.Options(memory="low")
        self.assertEqual((options.update_in_backward, options.release_module, options.predicts, options.memory_share()),
                         (True, True, False, 0.7))
        for other in (dict(max_grad_norm=1.0), dict(micro_batches=2), dict(loss_scale=None)):
            self.assertFalse(rt.Options(memory="low", **other).update_in_backward)
        self.assertEqual(rt.Options(memory="low", device_memory="1GiB").memory_share(), 0)
        self.assertEqual(rt.Options().memory_share(), 0)
        with self.assertRaisesRegex(ramet.Error, "Options.memory: an option that has no such value"):
            rt.Options(memory="little")
        module = seeded(Net)
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batch(), loss="loss",
                                 options=rt.Options(memory="low", max_grad_norm=1.0, micro_batches=2, **TINY))
        self.assertTrue(step(**batch(8)).loss > 0)

    def test_memory_is_taken_while_the_module_is_exported(self):
        with ramet.MemoryReserve(1 << 12) as reserve:
            self.assertFalse(reserve.empty)
            module = seeded(Net)
            step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batch(), loss="loss",
                                     options=rt.Options(**TINY))
            self.assertTrue(reserve.empty)
        self.assertTrue(ramet.MemoryReserve(0).empty)
        self.assertGreater(ramet.trim_memory(), 0)
        self.assertTrue(step(**batch()).loss > 0)

    def test_predictions_may_be_left_out(self):
        module = seeded(Net)
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batch(), loss="loss",
                                 options=rt.Options(predicts=False, **TINY))
        self.assertTrue(step(**batch()).loss > step.evaluate(**batch()).loss)
        with self.assertRaisesRegex(ramet.Error, r"predict\(\): a program without predictions"):
            step.predict(**batch())

    def test_moments_of_bf16_go_on_in_torch_and_back(self):
        module, other = two()
        make = lambda m, optimizer: rt.training_model(m, optimizer, example=batch(), loss="loss",
                                                      options=rt.Options(moments="bf16", **TINY))
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
        step = make(module, optimizer)
        for i in range(3):
            step(**batch(seed=i))
        state = step.optimizer_state_dict()
        moment = state["state"][0]["exp_avg"]
        self.assertTrue(torch.equal(moment, moment.bfloat16().float()))
        self.assertTrue(moment.any())
        step.copy_to(other)
        again = torch.optim.AdamW(other.parameters(), lr=0.01)
        again.load_state_dict(copy.deepcopy(state))
        second = make(other, again)
        self.assertEqual(second.optimizer_state_dict()["state"][0]["exp_avg"].tolist(), moment.tolist())
        self.assertEqual(second(**batch()).loss, step(**batch()).loss)
        with self.assertRaisesRegex(ramet.Error, "Options.moments: an option that has no such value"):
            rt.Options(moments="f16")

    def test_states_go_on_in_torch_and_back(self):
        theirs, mine = two()
        make = lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.1)
        optimizer, own = make(theirs), make(mine)
        reference(theirs, optimizer, [batch(seed=i) for i in range(6)])
        step = rt.training_model(mine, own, example=batch(), loss="loss", options=rt.Options(**TINY))
        for i in range(3):
            step(**batch(seed=i))
        middle, state = step.state_dict(), step.optimizer_state_dict()
        # torch goes on
        mine.load_state_dict(middle)
        own.load_state_dict(copy.deepcopy(state))
        self.assertEqual({int(each["step"]) for each in own.state.values()}, {3})
        reference(mine, own, [batch(seed=i) for i in range(3, 6)])
        torch.testing.assert_close(mine.state_dict(), theirs.state_dict(), rtol=1e-4, atol=1e-5)
        # and another compiled program, from an optimizer that has stepped
        fresh = seeded(Net, 7)
        fresh.load_state_dict(middle)
        again = make(fresh)
        again.load_state_dict(copy.deepcopy(state))
        second = rt.training_model(fresh, again, example=batch(), loss="loss", options=rt.Options(**TINY))
        self.assertEqual(second.steps_done, 3)
        for i in range(3, 6):
            self.assertEqual(second(**batch(seed=i)).loss, step(**batch(seed=i)).loss)
        self.assertEqual(second.weights_hash(), step.weights_hash())

    def test_checkpoints_go_on_on_another_layout(self):
        def make(layout):
            module = seeded(lambda: Net(dropout=0.5))
            return rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=0.01), example=batch(), loss="loss",
                                     options=rt.Options(layout=layout, micro_batches=2, lanes=2, threads=2))
        first, second = make(""), make("r=2")
        with tempfile.TemporaryDirectory() as folder:
            first(**batch(8))
            path = first.save(folder)
            second.restore(path)
        self.assertEqual(second.steps_done, 1)
        self.assertEqual(first(**batch(8, seed=9)).loss, second(**batch(8, seed=9)).loss)
        self.assertEqual(first.weights_hash(), second.weights_hash())

    def test_load_state_dict_takes_what_state_dict_gave(self):
        module = seeded(lambda: Net(norm=True))
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batch(), loss="loss",
                                 options=rt.Options(**TINY))
        start, hash_of_start = step.state_dict(), step.weights_hash()
        step(**batch())
        self.assertNotEqual(step.weights_hash(), hash_of_start)
        step.load_state_dict(start)
        self.assertEqual(step.weights_hash(), hash_of_start)


class Losses(unittest.TestCase):
    def test_functions_and_indices_name_the_same_loss(self):
        found = []
        for loss in ("loss", 0, None, lambda out, given: nn.functional.mse_loss(out["out"], given["y"])):
            module = seeded(Net)
            step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batch(), loss=loss,
                                     options=rt.Options(**TINY))
            step(**batch())
            found.append(step(**batch()).loss)
        self.assertEqual(len(set(found)), 1, found)

    def test_a_mean_over_all_items_of_a_step(self):
        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(6, 5)

            def forward(self, x, labels):
                return nn.functional.cross_entropy(self.line(x), labels, ignore_index=-100)

        x, labels = torch.randn(8, 6), torch.tensor([0, 1, -100, -100, 2, 3, 4, 0])
        theirs, mine = two(Masked)
        expected = theirs(x, labels)
        expected.backward()
        norm = nn.utils.clip_grad_norm_(theirs.parameters(), 1e30).item()
        step = rt.training_model(mine, torch.optim.SGD(mine.parameters(), lr=0.1), example=(x[:4], labels[:4]),
                                 options=rt.Options(micro_batches=2, **TINY,
                                                    loss_mean=lambda out, given: (given[1] != -100).sum()))
        result = step(x, labels)
        self.assertAlmostEqual(result.loss, expected.item(), places=5)
        self.assertAlmostEqual(result.grad_norm, norm, places=5)


class Traps(unittest.TestCase):
    def make(self, **options):
        module = seeded(Net)
        return rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=0.01), example=batch(), loss="loss",
                                 options=rt.Options(**(TINY | options)))

    def test_the_last_batch_is_no_surprise(self):
        step = self.make(micro_batches=2)
        step(**batch(8))
        with self.assertRaises(ramet.ShapeError) as caught:
            step(**batch(5))
        self.assertEqual(str(caught.exception),
                         "step 2: an incomplete batch; found 5 samples; expected 8: 4 of the example's micro-batch x 2 "
                         "micro-batches. Leave the last batch out (DataLoader(drop_last=True)), or fill it up (Options.pad_last)")

    def test_a_step_that_is_not_finite_changes_nothing(self):
        step = self.make()
        step(**batch())
        before = step.weights_hash()
        bad = batch()
        bad["x"][1, 2] = float("nan")
        with self.assertRaisesRegex(ramet.Error, "not finite|nan|NaN"):
            step(**bad)
        self.assertEqual(step.weights_hash(), before)
        self.assertEqual(step.steps_done, 1)
        step(**batch())
        self.assertNotEqual(step.weights_hash(), before)

    def test_an_operator_of_torch_library_is_refused_by_its_name(self):
        @torch.library.custom_op("ramet_test::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        twice.register_fake(torch.empty_like)
        twice.register_autograd(lambda context, gradient: gradient * 2)
        module = Rows(lambda self, x: twice(self.w * x).sum())
        with self.assertRaisesRegex(ramet.UnsupportedOp, r"ramet_test\.twice"):
            rt.training_model(module, torch.optim.SGD(module.parameters(), lr=1.0), example=torch.ones(1, 3),
                              options=rt.Options(**TINY))

    def test_two_models_in_one_process(self):
        alone = [self.make()(**batch(seed=i)).loss for i in range(2)]
        first, second = self.make(), self.make()
        self.assertEqual([first(**batch(seed=0)).loss, second(**batch(seed=1)).loss], alone)

    def test_arrays_of_numpy_and_tensors_are_the_same(self):
        first, second = self.make(), self.make()
        arrays = {name: value.numpy() for name, value in batch().items()}
        self.assertEqual(first(**batch()).loss, second(**arrays).loss)
        strided = {name: torch.stack([value, value], -1)[..., 0] for name, value in batch().items()}
        self.assertEqual(first(**strided).loss, second(batch()).loss)

    def test_the_workers_of_a_loader_may_fork(self):
        class Samples(torch.utils.data.Dataset):
            def __len__(self):
                return 16

            def __getitem__(self, i):
                return {name: value[0] for name, value in batch(1, seed=i).items()}

        step = self.make()
        loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=2, multiprocessing_context="fork")
        self.assertEqual(len([step(**each).loss for each in loader]), 4)

    def test_a_forked_process_is_refused(self):
        step = self.make()
        child = os.fork()
        if child == 0:
            try:
                step(**batch())
            except ramet.Error as error:
                os._exit(0 if "a compiled program in a forked process" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        step(**batch())

    def test_control_c_leaves_whole_steps(self):
        # A process that a shell started in the background ignores the signal.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        step, twin = self.make(), self.make()
        ends = time.monotonic() + 60
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            while time.monotonic() < ends:
                step(**batch(seed=step.steps_done))
        for i in range(step.steps_done):
            twin(**batch(seed=i))
        self.assertEqual(step.weights_hash(), twin.weights_hash())

    def test_either_may_be_imported_first(self):
        program = ("import {first}\nimport {second}\nimport torch, ramet.torch as rt\nm = torch.nn.Linear(4, 1)\n"
                   "s = rt.training_model(m, torch.optim.SGD(m.parameters(), lr=0.1), example=(torch.ones(2, 4),), "
                   "loss=lambda out, given: out.square().mean(), options=rt.Options(threads=1))\n"
                   "print(s(torch.ones(2, 4)).step)")
        environment = dict(os.environ, PYTHONPATH=str(torch_support.BUILD / "python"))
        for first, second in (("torch", "ramet"), ("ramet", "torch")):
            done = subprocess.run([sys.executable, "-c", program.format(first=first, second=second)], env=environment,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)

    def test_a_program_that_does_not_fit_is_refused_before_training(self):
        with self.assertRaisesRegex(ramet.DoesNotFit, r"; Options\(device_memory=\d+\) or more$"):
            self.make(device_memory="2KiB")

    def test_the_memory_draws_itself(self):
        step = rt.training_model(*self.small(), example=batch(), loss="loss", options=rt.Options(**TINY))
        self.assertIn("<svg", step.memory._repr_html_())
        self.assertIn("device", str(step.memory))
        self.assertGreater(step.memory.device_bytes[0], 0)

    def test_recurrent_layers_are_exported_without_warnings(self):
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            class Recurrent(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.ModuleList([kind(6, 3, batch_first=True)])

                def forward(self, x, y):
                    return nn.functional.mse_loss(self.layers[0](x[:, None])[0][:, 0], y)

            module = Recurrent()
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batch(), options=rt.Options(**TINY))
            self.assertEqual([str(each.message) for each in said if "_flat_weights" in str(each.message)], [], kind.__name__)

    def test_other_threads_run_during_a_step(self):
        """The interpreter is released: a thread of Python counts while a step computes."""
        class Wide(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))

            def forward(self, x):
                return self.layers(x).square().mean()

        module, ticks, done = Wide(), [], threading.Event()
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=(torch.ones(512, 512),),
                                 options=rt.Options(**TINY))

        def tick():
            while not done.wait(0.001):
                ticks.append(time.perf_counter())

        thread = threading.Thread(target=tick)
        thread.start()
        try:
            began = time.perf_counter()
            step(torch.ones(512, 512))
            ended = time.perf_counter()
        finally:
            done.set()
            thread.join()
        inside = sorted(each for each in ticks if began < each < ended)
        self.assertGreater(len(inside), 5, f"of {ended - began} s")
        self.assertGreater(inside[-1] - inside[0], (ended - began) / 2)

    def test_samples_are_read_where_they_lie(self):
        """Tensors that are contiguous and of the example's type reach the engine as they are."""
        step = rt.training_model(*self.small(), example=batch(), loss="loss", options=rt.Options(**TINY))
        given = batch()
        feed, _ = step._tensors((), given, "a step")
        self.assertEqual({name: each.data_ptr() for name, each in feed.items()}, {name: each.data_ptr() for name, each in given.items()})
        arrays = {name: each.numpy() for name, each in given.items()}
        feed, _ = step._tensors((), arrays, "a step")
        self.assertEqual({name: each.data_ptr() for name, each in feed.items()}, {name: each.ctypes.data for name, each in arrays.items()})

    @staticmethod
    def small():
        module = seeded(Net)
        return module, torch.optim.SGD(module.parameters(), lr=0.1)

    def test_the_plan_tells_bytes_and_time(self):
        plan = self.make().plan
        self.assertGreater(plan.device_bytes[0], 0)
        self.assertGreater(plan.step_seconds, 0)
        self.assertIn("B", str(plan))

    def test_schedulers_do_not_warn(self):
        import warnings
        module = seeded(Net)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        step = rt.training_model(module, optimizer, example=batch(), loss="loss", options=rt.Options(**TINY))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            step(**batch())
            scheduler.step()

    def test_evaluation_has_no_dropout_and_changes_nothing(self):
        module = seeded(lambda: Net(dropout=0.5))
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batch(), loss="loss",
                                 options=rt.Options(**TINY))
        before = step.weights_hash()
        expected = module.eval()(**batch(8))["loss"].item()
        self.assertAlmostEqual(step.evaluate(**batch(8)).loss, expected, places=5)
        self.assertEqual(step.weights_hash(), before)


class Inference(unittest.TestCase):
    def test_outputs_have_the_modules_structure_for_any_number_of_samples(self):
        module = seeded(lambda: Net(norm=True)).eval()
        predict = rt.inference_model(module, example={"x": batch()["x"], "y": batch()["y"]},
                                     options=rt.Options(threads=1))
        for samples in (4, 8):
            given = batch(samples)
            out = predict(**given)
            self.assertEqual(list(out), ["loss", "out"])
            torch.testing.assert_close(out["out"], module(**given)["out"], rtol=1e-4, atol=1e-5)

    def test_a_tuple_and_a_tensor(self):
        line = seeded(lambda: nn.Linear(6, 2)).eval()
        predict = rt.inference_model(line, example=batch()["x"], options=rt.Options(threads=1))
        for samples in (1, 3, 9):
            x = batch(samples)["x"]
            torch.testing.assert_close(predict(x), line(x), rtol=1e-4, atol=1e-5)


class Files(unittest.TestCase):
    def test_a_report_names_operators_and_refuses_none(self):
        report = rt.supported(Net(norm=True, dropout=0.1), batch())
        self.assertTrue(report, str(report))
        self.assertGreater(report.operators["aten.linear"], 1)

    def test_a_saved_module_has_both_programs_and_what_ramet_reads(self):
        module = seeded(Net)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.pt2")
            rt.save(path, module, batch(), loss="loss", optimizer=torch.optim.AdamW(module.parameters(), lr=0.01))
            with zipfile.ZipFile(path) as archive:
                files = {name.split("/", 1)[1]: name for name in archive.namelist()}
                about = json.loads(archive.read(files["extra/ramet.json"]))
                evaluation = json.loads(archive.read(files["extra/ramet_evaluation.json"]))
                recipe = archive.read(files["extra/ramet_recipe.toml"]).decode().splitlines()
                training = json.loads(archive.read(files["models/model.json"]))
        self.assertEqual(about["loss"], "loss")
        self.assertEqual(about["outputs"], ["loss", "out"])
        self.assertEqual(set(about["trained"]), {name for name, _ in module.named_parameters()})
        self.assertIn('train.optimizer.kind = "adamw"', recipe)
        self.assertIn("train.schedule.learning_rate = 0.01", recipe)
        self.assertEqual(training["schema_version"]["major"], evaluation["schema_version"]["major"])


if __name__ == "__main__":
    unittest.main()
