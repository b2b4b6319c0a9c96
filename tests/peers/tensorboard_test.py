"""TensorBoard reads our event files, and we read those of TensorBoard and PyTorch."""

import math
import pathlib
import tempfile
import unittest

import peers


def accumulated(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
    events.Reload()
    return events


@peers.needs("tensorboard")
class TensorBoard(peers.PointsTestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.trained = peers.train(cls.folder, "--export", "tensorboard")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def check(self, events):
        expected = peers.points_of(self.trained)
        self.assertEqual(set(events.Tags()["scalars"]), set(expected))
        for name, points in expected.items():
            got = [(event.step, event.value) for event in events.Scalars(name)]
            self.assert_same_points(points, got, name, as_single=True)
            self.assertTrue(all(event.wall_time > 1.7e9 for event in events.Scalars(name)))

    def test_reads_what_is_exported(self):
        peers.ramet("runs", "export", self.trained, "--format", "tensorboard", "--out", "events", folder=self.folder)
        events = accumulated(self.folder / "events" / self.trained.name)
        self.check(events)
        self.assertIn("config/text_summary", [tag if tag.endswith("text_summary") else tag + "/text_summary"
                                              for tag in events.Tags()["tensors"]])
        self.assertIn("train.steps", str(events.Tensors("config")[0].tensor_proto))

    def test_reads_what_training_writes(self):
        self.check(accumulated(self.trained / "tensorboard"))

    def test_shows_the_configuration(self):
        from tensorboard.plugins.hparams import plugin_data_pb2

        events = accumulated(self.trained / "tensorboard")
        content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        data = plugin_data_pb2.HParamsPluginData.FromString(content)
        self.assertEqual(data.session_start_info.hparams["train.steps"].number_value, 6)
        self.assertEqual(data.session_start_info.hparams["model.kind"].string_value, "bert")

    @peers.needs("torch")
    def test_files_of_pytorch_are_imported(self):
        import torch
        from torch.utils.tensorboard import SummaryWriter

        for new_style in (False, True):
            with self.subTest(new_style=new_style):
                logs = self.folder / f"torch-{new_style}"
                values = [1.5, 0.1, math.inf, -math.inf, math.nan, 1e-30]
                with SummaryWriter(str(logs / "a" / "b")) as writer:
                    for step, value in enumerate(values):
                        writer.add_scalar("train/loss", value, 10 * step, walltime=1.6e9 + step, new_style=new_style)
                    writer.add_text("note", "some *text*", 3)
                    writer.add_histogram("weights", torch.arange(100.0), 4)
                    writer.add_image("picture", torch.zeros(3, 4, 5), 5)
                lines = peers.imported(self.folder, logs)
                self.assertEqual([line["event"] for line in lines], ["imported"])
                self.assertEqual(lines[0]["remarks"], [])
                self.assertEqual(lines[0]["media"], 3)
                points = peers.points_of(self.folder / lines[0]["path"])
                self.assert_same_points([(10 * step, value) for step, value in enumerate(values)], points["train/loss"],
                                        as_single=True)
                again = peers.imported(self.folder, logs)
                self.assertEqual([line["event"] for line in again], ["already there"])

    @peers.needs("torch")
    def test_hyperparameters_of_pytorch_are_imported(self):
        from torch.utils.tensorboard import SummaryWriter

        logs = self.folder / "hparams"
        with SummaryWriter(str(logs)) as writer:
            writer.add_hparams({"lr": 0.25, "layers": 3, "on": True, "name": "x"}, {"best": 0.5}, run_name="one")
        lines = [line for line in peers.imported(self.folder, logs) if line["points"] > 0]
        self.assertEqual(len(lines), 1)
        run = self.folder / lines[0]["path"]
        self.assertEqual(peers.config_of(run), {"lr": 0.25, "layers": 3, "on": True, "name": "x"})
        self.assertEqual(peers.points_of(run)["best"], [(0, 0.5)])


if __name__ == "__main__":
    unittest.main()
