"""Trainer and TrainingArguments of ramet.transformers, against transformers.Trainer: the loop alone, over PyTorch's own steps."""

import json
import os
import tempfile
import unittest

from peers import ROOT, needs

try:
    import torch
    import torch_double
    import transformers
    torch_double.install()
    import ramet.transformers as rt
    from ramet.errors import Error
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
except ImportError:
    torch = None

LABELS, VOCABULARY, LENGTH = 3, 50, 10


def setUpModule():
    torch_double.install()


def tearDownModule():
    import sys
    sys.modules.pop("ramet.torch", None)
    if hasattr(sys.modules.get("ramet"), "torch"):
        del sys.modules["ramet"].torch


def samples(count, seed=0, length=LENGTH):
    random = torch.Generator().manual_seed(seed)
    numbers = torch.randint(5, VOCABULARY, (count, length), generator=random)
    return [{"input_ids": row.tolist(), "attention_mask": [1] * length, "labels": int(row.sum()) % LABELS} for row in numbers]


def classifier(seed=1, layers=1):
    torch.manual_seed(seed)
    return transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
        num_labels=LABELS, hidden_dropout_prob=0, attention_probs_dropout_prob=0))


def decoder(seed=1):
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, intermediate_size=32,
        max_position_embeddings=16, use_cache=False))


class Bag(torch.nn.Module if torch else object):
    """A module whose forward takes fewer inputs than the samples have."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embedding, self.classifier = torch.nn.Embedding(VOCABULARY, 8), torch.nn.Linear(8, LABELS)

    def forward(self, input_ids, labels=None):
        logits = self.classifier(self.embedding(input_ids).mean(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits} if labels is not None else {"logits": logits}


def accuracy(found):
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


@needs("torch", "transformers", "datasets")
class TrainerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def arguments(self, kind=None, **more):
        settings = {"output_dir": self.folder, "per_device_train_batch_size": 4, "per_device_eval_batch_size": 4, "learning_rate": 1e-3,
                    "num_train_epochs": 2, "logging_steps": 1, "save_strategy": "no", "disable_tqdm": True, "report_to": "none", "seed": 3}
        return (kind or rt.TrainingArguments)(**(settings | more))

    def losses(self, trainer):
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    def compare(self, model, data, micro_batches=1, **more):
        """Ours with micro-batches of 4, and transformers' with the whole step as one batch: its mean over a step of several
        micro-batches is not that of the whole step for every class."""
        ours = rt.Trainer(model(), self.arguments(gradient_accumulation_steps=micro_batches, **more), train_dataset=data)
        more["per_device_train_batch_size"] = 4 * micro_batches
        theirs = transformers.Trainer(model(), self.arguments(transformers.TrainingArguments, use_cpu=True, dataloader_drop_last=True, **more),
                                      train_dataset=data)
        for trainer in (ours, theirs):
            trainer.remove_callback(transformers.PrinterCallback)
        found, expected = self.losses(ours), self.losses(theirs)
        self.assertEqual(len(found), len(expected))
        for mine, other in zip(found, expected):
            self.assertAlmostEqual(mine, other, delta=2e-4 * abs(other) + 1e-4)
        for name, value in theirs.model.state_dict().items():
            torch.testing.assert_close(ours.model.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)
        rates = [[entry["learning_rate"] for entry in trainer.state.log_history if "loss" in entry] for trainer in (ours, theirs)]
        for mine, other in zip(*rates):
            self.assertAlmostEqual(mine, other, delta=1e-9)
        return ours, theirs

    def test_same_losses_weights_and_rates_as_transformers(self):
        self.compare(classifier, samples(24), warmup_steps=3, weight_decay=0.1)

    def test_same_with_accumulation_and_cosine_schedule(self):
        ours, _ = self.compare(classifier, samples(32), micro_batches=2, lr_scheduler_type="cosine", max_grad_norm=0.1)
        self.assertEqual(ours.state.global_step, 8)

    def test_same_with_label_smoothing(self):
        self.compare(classifier, samples(16), label_smoothing_factor=0.1)

    def test_causal_model_with_unequal_labels_over_micro_batches(self):
        data = samples(16)
        for i, sample in enumerate(data):
            sample["labels"] = [-100] * (i % 7) + sample["input_ids"][i % 7:]
        self.compare(decoder, data, micro_batches=2)
        self.compare(decoder, data, label_smoothing_factor=0.1)

    def test_datasets_columns_are_removed(self):
        import datasets
        rows = [sample | {"text": "x"} for sample in samples(12)]
        trainer = rt.Trainer(classifier(), self.arguments(max_steps=2), train_dataset=datasets.Dataset.from_list(rows))
        self.assertEqual(trainer.train().global_step, 2)

    def test_columns_that_the_module_does_not_take_are_removed_from_lists_and_data_sets_of_torch(self):
        class Set(torch.utils.data.Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, i):
                return samples(8)[i] | {"text": "x"}

        for data in (samples(8), [sample | {"text": "x"} for sample in samples(8)], Set()):
            self.compare(Bag, data, max_steps=2)
        with self.assertRaisesRegex(Error, "no column of the data set is an input of the model; found text"):
            rt.Trainer(Bag(), self.arguments(max_steps=1), train_dataset=[{"text": "x"}] * 4).train()

    def test_columns_that_the_collator_reads_stay(self):
        class Numbers(transformers.DefaultDataCollator):
            columns = ("text",)

            def __call__(self, rows):
                return super().__call__([{name: value for name, value in row.items() if name != "text"} | {"labels": len(row["text"]) % 2}
                                         for row in rows])

        import datasets
        rows = [{name: value for name, value in sample.items() if name != "labels"} | {"text": "x", "other": "y"} for sample in samples(8)]
        for data in (rows, datasets.Dataset.from_list(rows)):
            trainer = rt.Trainer(classifier(), self.arguments(max_steps=2), train_dataset=data, data_collator=Numbers())
            self.assertEqual(trainer.train().global_step, 2)

    def test_a_loss_function_gets_outputs_and_labels_as_in_transformers(self):
        def loss(outputs, labels, num_items_in_batch=None):
            return torch.nn.functional.cross_entropy(outputs.logits, labels, label_smoothing=0.3)

        class Theirs(transformers.Trainer):
            def __init__(self, *arguments, **more):
                super().__init__(*arguments, compute_loss_func=loss, **more)

        ours = rt.Trainer(classifier(), self.arguments(), train_dataset=samples(16), compute_loss_func=loss)
        found, expected = self.losses(ours), self.losses(Theirs(classifier(), self.arguments(transformers.TrainingArguments, use_cpu=True),
                                                                train_dataset=samples(16)))
        for mine, other in zip(found, expected, strict=True):
            self.assertAlmostEqual(mine, other, delta=2e-4 * other)

    def test_a_module_that_returns_tuples(self):
        def tuples():
            model = classifier()
            model.config.return_dict = False
            return model

        ours, theirs = self.compare(tuples, samples(16))
        data = samples(8, seed=5)
        torch.testing.assert_close(torch.tensor(ours.predict(data).predictions), torch.tensor(theirs.predict(data).predictions), rtol=1e-3, atol=1e-4)

    def test_optimizers_of_the_arguments(self):
        for name in ("adagrad", "rmsprop", "sgd"):
            self.compare(classifier, samples(16), optim=name, weight_decay=0.1)

    def test_the_pages_packing_gives_the_loss_of_sequences_apart(self):
        page = (ROOT / "docs" / "hugging-face.md").read_text(encoding="utf-8")
        names = {"torch": torch}
        exec(page[page.index("def pack("):].split("```")[0], names)
        sequences = [(sample["input_ids"][:3 + i % 5], [-100, *sample["input_ids"][1:3 + i % 5]]) for i, sample in enumerate(samples(8))]
        rows = names["pack"](sequences, LENGTH)
        self.assertLess(len(rows), len(sequences))
        torch.manual_seed(1)
        model = transformers.BertForMaskedLM(classifier().config).eval()
        with torch.no_grad():
            packed = model(**transformers.default_data_collator(rows)).loss
            apart = [(model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels])).loss, len(ids) - 1) for ids, labels in sequences]
        self.assertAlmostEqual(packed.item(), sum(loss.item() * count for loss, count in apart) / sum(count for _, count in apart), places=5)
        trainer = rt.Trainer(model, self.arguments(max_steps=1, per_device_train_batch_size=2), train_dataset=rows)
        self.assertEqual(trainer.train().global_step, 1)

    def test_iterable_dataset(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                yield from samples(9)

        trainer = rt.Trainer(classifier(), self.arguments(max_steps=5), train_dataset=Stream())
        self.assertEqual(trainer.train().global_step, 5)
        with self.assertRaisesRegex(Error, "an iterable data set has no length.*Set max_steps"):
            rt.Trainer(classifier(), self.arguments(), train_dataset=Stream()).train()

    def test_evaluation_and_prediction_with_a_last_incomplete_batch(self):
        data = samples(10, seed=5)
        theirs = transformers.Trainer(classifier(), self.arguments(transformers.TrainingArguments, use_cpu=True), eval_dataset=data,
                                      compute_metrics=accuracy)
        expected, predicted = theirs.evaluate(), theirs.predict(data)
        trainer = rt.Trainer(classifier(), self.arguments(max_steps=1), train_dataset=samples(8), eval_dataset=data, compute_metrics=accuracy)
        found = trainer.evaluate()
        self.assertAlmostEqual(found["eval_loss"], expected["eval_loss"], places=5)
        self.assertEqual(found["eval_accuracy"], expected["eval_accuracy"])
        ours = trainer.predict(data)
        self.assertEqual(ours.predictions.shape, (10, LABELS))
        torch.testing.assert_close(torch.tensor(ours.predictions), torch.tensor(predicted.predictions), rtol=1e-4, atol=1e-5)
        self.assertEqual(list(ours.label_ids), list(predicted.label_ids))
        trainer.train()
        self.assertIn("eval_loss", trainer.evaluate())
        unlabelled = [{name: value for name, value in sample.items() if name != "labels"} for sample in data]
        self.assertEqual(trainer.predict(unlabelled).predictions.shape, (10, LABELS))
        self.assertNotIn("test_loss", trainer.predict(unlabelled).metrics)

    def test_resume_gives_the_same_weights(self):
        data = samples(24)
        whole = rt.Trainer(classifier(), self.arguments(save_strategy="steps", save_steps=5), train_dataset=data)
        whole.train()
        again = rt.Trainer(classifier(seed=9), self.arguments(), train_dataset=data)
        again.train(resume_from_checkpoint=os.path.join(self.folder, "checkpoint-5"))
        for name, value in whole.model.state_dict().items():
            self.assertTrue(torch.equal(again.model.state_dict()[name], value), name)
        self.assertEqual(again.state.global_step, whole.state.global_step)
        with self.assertRaisesRegex(Error, "no checkpoint"):
            again.train(resume_from_checkpoint=self.folder)

    def test_checkpoints_are_limited_and_the_best_is_loaded(self):
        trainer = rt.Trainer(classifier(), self.arguments(eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2, save_total_limit=2,
                                                          load_best_model_at_end=True, metric_for_best_model="loss", learning_rate=3e-2),
                             train_dataset=samples(24), eval_dataset=samples(8, seed=8))
        trainer.train()
        kept = sorted(name for name in os.listdir(self.folder) if name.startswith("checkpoint"))
        self.assertLessEqual(len(kept), 2)
        self.assertIn(os.path.basename(trainer.state.best_model_checkpoint), kept)
        best = min(entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry)
        self.assertAlmostEqual(trainer.evaluate()["eval_loss"], best, places=5)
        loaded = transformers.BertForSequenceClassification.from_pretrained(trainer.state.best_model_checkpoint)
        self.assertTrue(torch.equal(loaded.classifier.weight, trainer.model.classifier.weight))

    def test_callbacks_see_events_and_flags_are_honoured(self):
        seen = []

        class Watch(transformers.TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                seen.append("step")
                if state.global_step == 3:
                    control.should_training_stop = True

            def on_log(self, args, state, control, logs=None, **kwargs):
                seen.append("log")

            def on_train_end(self, args, state, control, model=None, **kwargs):
                seen.append(type(model).__name__)

        trainer = rt.Trainer(classifier(), self.arguments(), train_dataset=samples(24), callbacks=[Watch()])
        trainer.train()
        self.assertEqual(trainer.state.global_step, 3)
        self.assertEqual(seen.count("step"), 3)
        self.assertEqual(seen[-1], "BertForSequenceClassification")

    def test_early_stopping(self):
        trainer = rt.Trainer(classifier(), self.arguments(eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1, num_train_epochs=10,
                                                          load_best_model_at_end=True, metric_for_best_model="accuracy", learning_rate=0.0),
                             train_dataset=samples(24), eval_dataset=samples(8), compute_metrics=accuracy,
                             callbacks=[transformers.EarlyStoppingCallback(early_stopping_patience=2)])
        trainer.train()
        self.assertEqual(trainer.state.global_step, 3)

    def test_save_model_is_read_by_transformers(self):
        trainer = rt.Trainer(classifier(), self.arguments(max_steps=2), train_dataset=samples(8))
        trainer.train()
        trainer.save_model(os.path.join(self.folder, "saved"))
        loaded = transformers.BertForSequenceClassification.from_pretrained(os.path.join(self.folder, "saved"))
        for name, value in trainer.model.state_dict().items():
            self.assertTrue(torch.equal(loaded.state_dict()[name], value), name)
        with open(os.path.join(self.folder, "saved", "training_args.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["max_steps"], 2)

    def test_shorter_batches_are_padded_and_longer_ones_refused(self):
        data = samples(4) + samples(4, length=6)
        trainer = rt.Trainer(classifier(), self.arguments(num_train_epochs=1, train_sampling_strategy="sequential"), train_dataset=data)
        ours = self.losses(trainer)
        theirs = self.losses(transformers.Trainer(classifier(), self.arguments(transformers.TrainingArguments, use_cpu=True, num_train_epochs=1,
                                                                               train_sampling_strategy="sequential"), train_dataset=data))
        for mine, other in zip(ours, theirs):
            self.assertAlmostEqual(mine, other, places=4)
        trainer = rt.Trainer(classifier(), self.arguments(train_sampling_strategy="sequential"), train_dataset=list(reversed(data)))
        with self.assertRaisesRegex(Error, 'input input_ids of a batch is longer than in the first batch.*padding="max_length"'):
            trainer.train()

    def test_a_data_set_smaller_than_a_step_is_refused(self):
        with self.assertRaisesRegex(Error, "the data set has no complete step.*found 3 samples; expected 4 samples or more"):
            rt.Trainer(classifier(), self.arguments(), train_dataset=samples(3)).train()
        with self.assertRaisesRegex(Error, "found 4 samples; expected 8 samples or more"):
            rt.Trainer(classifier(), self.arguments(gradient_accumulation_steps=2), train_dataset=samples(4)).train()

    def test_training_again_starts_a_schedule_of_its_own(self):
        trainer = rt.Trainer(classifier(), self.arguments(max_steps=2), train_dataset=samples(24))
        self.losses(trainer)
        self.losses(trainer)
        self.assertEqual([entry["learning_rate"] for entry in trainer.state.log_history if "loss" in entry], [1e-3, 5e-4])

    def test_prediction_sees_weights_that_changed(self):
        model, data = classifier(), samples(4)
        trainer = rt.Trainer(model, self.arguments())
        first = trainer.predict(data).predictions
        with torch.no_grad():
            model.classifier.bias += 1.0
        torch.testing.assert_close(torch.tensor(trainer.predict(data).predictions), torch.tensor(first) + 1.0)

    def test_own_optimizer_and_schedule(self):
        model = classifier()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        trainer = rt.Trainer(model, self.arguments(max_steps=5), train_dataset=samples(24), optimizers=(optimizer, schedule))
        trainer.train()
        rates = [entry["learning_rate"] for entry in trainer.state.log_history if "loss" in entry]
        self.assertEqual(rates, [0.1, 0.1, 0.05, 0.05, 0.025])

    def test_overridden_methods_that_are_never_called_are_refused(self):
        class Louder(rt.Trainer):
            def compute_loss(self, *arguments, **more):
                return 1000 * super().compute_loss(*arguments, **more)

        class Mixed:
            def get_train_dataloader(self):
                return None

        class Both(Mixed, Louder):
            def training_step(self, *_):
                return None

        with self.assertRaisesRegex(Error, "never calls; found Louder.compute_loss. Instead of compute_loss, pass compute_loss_func="):
            Louder(classifier(), self.arguments(), train_dataset=samples(4))
        with self.assertRaisesRegex(Error, "found Louder.compute_loss, Mixed.get_train_dataloader, Both.training_step. .*train_dataset= and data_coll"
                                           ".*ramet.torch.training_model"):
            Both(classifier(), self.arguments(), train_dataset=samples(4))

    def test_overridden_methods_that_are_called_have_their_effect(self):
        class Own(rt.Trainer):
            def create_optimizer(self):
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.25)
                return self.optimizer

            def log(self, logs, start_time=None):
                super().log({**logs, "own": 1}, start_time)

            def is_world_process_zero(self):  # for callers alone
                return True

        trainer = Own(classifier(), self.arguments(max_steps=2), train_dataset=samples(8))
        trainer.train()
        self.assertEqual([entry["learning_rate"] for entry in trainer.state.log_history if "loss" in entry], [0.25, 0.125])
        self.assertEqual(trainer.state.log_history[0]["own"], 1)

    def test_a_search_for_hyperparameters_is_refused(self):
        with self.assertRaisesRegex(Error, "a search for hyperparameters is not available.*make a Trainer for each trial"):
            rt.Trainer(classifier(), self.arguments()).hyperparameter_search(n_trials=2)

    def test_generation_is_refused(self):
        trainer = rt.Seq2SeqTrainer(decoder(), self.arguments(), eval_dataset=samples(4))
        with self.assertRaisesRegex(Error, "generation is not compiled.*call generate there"):
            trainer.evaluate(max_length=5)


@needs("torch", "transformers")
class ArgumentsTest(unittest.TestCase):
    def test_unknown_names_are_refused_together_with_the_closest(self):
        with self.assertRaisesRegex(Error, "learning_rat is unknown: did you mean learning_rate.*push_to_hub=True has no meaning here"):
            rt.TrainingArguments(learning_rat=1, push_to_hub=True)

    def test_names_without_meaning_are_taken_with_their_defaults(self):
        defaults = transformers.TrainingArguments(output_dir="x", use_cpu=True)
        self.assertEqual(rt.TrainingArguments.of_transformers(defaults), rt.TrainingArguments(output_dir="x"))
        given = transformers.TrainingArguments(output_dir="x", use_cpu=True, learning_rate=1e-3, bf16=False, eval_strategy="epoch")
        self.assertEqual(rt.TrainingArguments.of_transformers(given), rt.TrainingArguments(output_dir="x", learning_rate=1e-3, eval_strategy="epoch"))

    def test_every_name_of_transformers_is_known(self):
        import dataclasses
        from ramet.transformers.arguments import REFUSED
        known = {field.name for field in dataclasses.fields(rt.TrainingArguments)} | set(REFUSED)
        names = {field.name for field in dataclasses.fields(transformers.TrainingArguments) if field.init}
        names |= {field.name for field in dataclasses.fields(transformers.Seq2SeqTrainingArguments) if field.init}
        self.assertEqual(sorted(names - known), [])

    def test_faults(self):
        for settings, text in (({"optim": "lion_8bit"}, "the optimizer is unknown; found 'lion_8bit'; expected adamw_torch"),
                               ({"bf16": True, "fp16": True}, "two precisions"), ({"eval_strategy": "often"}, "eval_strategy is unknown"),
                               ({"adam_beta1": 1.0}, "adam_beta1 is out of range"), ({"per_device_train_batch_size": 0}, "not a number of samples"),
                               ({"train_sampling_strategy": "group_by_length"}, "pack sequences"),
                               ({"load_best_model_at_end": True}, "needs an evaluation at each save"),
                               ({"deepspeed": "x.json"}, "deepspeed='x.json' has no meaning here: places and parallelism")):
            with self.assertRaisesRegex(Error, text):
                rt.TrainingArguments(**settings)

    def test_precision(self):
        self.assertEqual([rt.TrainingArguments(**{name: True}).precision for name in ("bf16", "fp16", "do_train")], ["bf16", "f16", "f32"])


if __name__ == "__main__":
    unittest.main()
