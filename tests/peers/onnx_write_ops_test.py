"""SchNet, knowledge graphs, paths in them, cut graphs, sparse weights and caches as ONNX files, beside onnxruntime."""
import unittest

from onnx_support import END, SIZES, TEXT, WriterTestCase
from peers import needs, ramet

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError:
    onnx = None

CUTOFF = 5.0
SCHNET = """kind = "schnet"
[model.graph]
layers = 2
hidden = 16
gaussians = 8
cutoff = 5
filter_points = {points}
[data]
kind = "graphs"
[data.graphs]
set = "set.safetensors"
features = "node.z"
label = "graph.y"
batch = "count:4"
""" + END.format(batch=1)
KNOWLEDGE = """kind = "{kind}"
[model.knowledge]
width = 8
{model}
[data]
kind = "triples"
[data.triples]
set = "set.safetensors"
group = 4
negatives = 4
{data}
""" + END.format(batch=2)
PATHS = """kind = "nbfnet"
[model.paths]
layers = 2
message = "{message}"
aggregate = "{aggregate}"
[model.knowledge]
width = 8
[data]
kind = "triples"
[data.triples]
set = "set.safetensors"
group = 4
negatives = 4
""" + END.format(batch=2)
CUT = """kind = "{kind}"
[model.graph]
hidden = 8
heads = 2
dropout = 0
[data]
kind = "graphs"
[data.graphs]
set = "set.safetensors"
features = "node.x"
label = "node.y"
batch = "cut"
""" + END.format(batch=4)
SPARSE = '[sparse]\nweights = "{weights}"\ndensity = 0.5\nblock = 4\n'
BERT = 'kind = "bert"\n' + SIZES + "intermediate = 48\n" + TEXT
GPT2 = 'kind = "gpt2"\n' + SIZES + TEXT


def write_molecules(folder, molecules=12, atoms=6):
    random = numpy.random.default_rng(1)
    (folder / "qm9").mkdir()
    arrays = {"z": random.integers(1, 9, molecules * atoms).astype(numpy.uint8),
              "pos": random.uniform(0, 4, (molecules * atoms, 3)).astype(numpy.float32),
              "ptr": numpy.arange(molecules + 1) * atoms, "y": random.standard_normal((molecules, 1))}
    for name, array in arrays.items():
        numpy.save(folder / "qm9" / f"{name}.npy", array)
    ramet("graphs", "prepare", "qm9", "qm9", "--out", "set.safetensors", "--apply", f"radius={CUTOFF}", folder=folder)


def write_triples(folder, entities=30, relations=3):
    random = numpy.random.default_rng(1)
    (folder / "triples").mkdir()
    for part, count in (("train", 90), ("valid", 12), ("test", 12)):
        lines = [f"e{a}\tr{r}\te{b}\n" for a, r, b in random.integers(0, (entities, relations, entities), (count, 3))]
        (folder / "triples" / f"{part}.txt").write_text("".join(lines))
    ramet("graphs", "prepare", "triples", "triples", "--out", "set.safetensors", folder=folder)


def write_graph(folder, nodes=16, edges=60):
    random = numpy.random.default_rng(1)
    numpy.savez(folder / "graph.npz", edge_index=numpy.ascontiguousarray(numpy.unique(random.integers(0, nodes, (2, edges)), axis=1)),
                x=random.standard_normal((nodes, 6)).astype(numpy.float32), y=random.integers(0, 3, nodes))
    ramet("graphs", "prepare", "npz", "graph.npz", "--out", "set.safetensors", "--apply", "self-loops,gcn,contiguous=4",
          folder=folder)


def ends(counts):
    """Where each row's items end, with 0 in front: [samples, rows + 1]."""
    counts = numpy.asarray(counts)
    return numpy.concatenate([numpy.zeros((len(counts), 1), counts.dtype), numpy.cumsum(counts, 1)], 1)


def shapes_of(path):
    return {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in onnx.load(path, load_external_data=False).graph.input}


@needs("onnx", "onnxruntime", "numpy")
class WrittenOps(WriterTestCase):
    def export(self, run, *options):
        path = self.folder / "model.onnx"
        ramet("export", run, "--out", path, *options, folder=self.folder)
        return path

    def ops_of(self, path):
        """Ops of Ramet that the file has as functions."""
        return {function.name.rsplit("_", 1)[0] for function in onnx.load(path).functions}

    def pairs(self, shapes):
        """Some pairs for each atom, fewer than there is room for."""
        random = numpy.random.default_rng(4)
        name = next(name for name in shapes if name.endswith("pair_ptr"))
        prefix = name[:-len("pair_ptr")]
        samples, rows, room = shapes[name][0], shapes[name][1] - 1, shapes[prefix + "pair_second"][1]
        counts = numpy.minimum(random.integers(0, 4, (samples, rows)), max(1, room // (2 * rows)))
        given = {name: ends(counts), prefix + "pair_second": random.integers(0, rows, (samples, room)),
                 prefix + "pair.distance": random.uniform(0, CUTOFF, (samples, room))}
        graphs = next((name for name in shapes if name.endswith("graph_ptr")), None)
        if graphs:
            count = shapes[graphs][1] - 1
            given[graphs] = ends(numpy.full((samples, count), rows // count))
        return given | {next(name for name in shapes if name.endswith("node.z")): 9}

    def test_schnet(self):
        write_molecules(self.folder)
        for points in (0, 64):
            run = self.train(f"schnet{points}", SCHNET.format(points=points))
            for program in ((), ("--program", "evaluate")):
                with self.subTest(points=points, program=program):
                    path = self.export(run, *program)
                    self.assertIn("table_filter_sum" if points else "network_filter_sum", self.ops_of(path))
                    self.check(path, self.pairs(shapes_of(path)))

    def test_knowledge_graphs(self):
        write_triples(self.folder)
        models = {"transe": "norm = 1", "transh": "", "distmult": "", "rotate": "norm = 2", "pairre": "norm = 1", "triplere": "norm = 2",
                  "boxe": "", "interht": "norm = 1"}
        for kind, model in models.items():
            run = self.train(kind, KNOWLEDGE.format(kind=kind, model=model, data=""))
            for program in ("predict", "evaluate") if kind == "boxe" else ("predict",):
                with self.subTest(kind, program=program):
                    path = self.export(run, "--program", program)
                    self.assertEqual("pair_distance" in self.ops_of(path), kind != "distmult")
                    bounds = {name: 3 if name == "relation" else 30 for name in shapes_of(path)}
                    self.check(path, bounds)

    def test_ranks_of_answers(self):
        write_triples(self.folder)
        path = self.export(self.train("transe", KNOWLEDGE.format(kind="transe", model="", data="")), "--program", "rank")
        shapes, given = shapes_of(path), {"relation": 3, "head": 30, "tail": 30}
        for side in ("tail", "head"):
            samples, triples = shapes[f"{side}_known_ptr"][0], shapes[f"{side}_known_ptr"][1] - 1
            given[f"{side}_known_ptr"] = ends(numpy.full((samples, triples), min(1, shapes[f"{side}_known"][1] // triples)))
            given[f"{side}_known"] = numpy.random.default_rng(1).integers(0, 30, shapes[f"{side}_known"])
        self.check(path, given)

    def test_messages_along_paths(self):
        write_triples(self.folder)
        for message, aggregate in (("distmult", "pna"), ("transe", "sum"), ("rotate", "pna")):
            with self.subTest(message):
                run = self.train(message, PATHS.format(message=message, aggregate=aggregate))
                path = self.export(run)
                self.assertIn("path_statistics" if aggregate == "pna" else "path_sum", self.ops_of(path))
                shapes = shapes_of(path)
                samples, rows, room = shapes["ptr"][0], shapes["ptr"][1] - 1, shapes["source"][1]
                counts = numpy.random.default_rng(2).integers(0, room // rows + 1, (samples, rows))  # the last places hold no edge
                self.check(path, {"entity": rows, "source": rows, "relation": 6, "edge_relation": 6, "ptr": ends(counts)})

    def test_entities_in_shards(self):
        write_triples(self.folder)
        run = self.train("transe", KNOWLEDGE.format(kind="transe", model="shards = 2", data=""))
        path = self.export(run, "--program", "evaluate")
        self.assertIn("halo_rows", self.ops_of(path))
        self.check(path, {name: 3 if name == "relation" else 2 if name == "real" else 15 for name in shapes_of(path)})

    def test_cut_graphs(self):
        write_graph(self.folder)
        random = numpy.random.default_rng(2)
        for kind in ("gcn", "gat"):
            with self.subTest(kind):
                path = self.export(self.train(kind, CUT.format(kind=kind)))
                self.assertIn("halo_sum", self.ops_of(path))
                shapes, given = shapes_of(path), {}
                for name, shape in shapes.items():
                    if name.endswith("ptr"):  # the last places hold no edge
                        rows = shape[1] - 1
                        room = shapes[name[:-len("ptr")] + "index"][1] if name[:-len("ptr")] + "index" in shapes else rows
                        given[name] = ends(numpy.full((shape[0], rows), (room - 1) // rows))
                    if name.endswith("index"):  # own rows, and some of other clusters behind them
                        given[name] = random.integers(0, 6, shape)
                self.check(path, given)

    def test_sparse_weights_are_dense_or_as_they_are_stored(self):
        for name, recipe, weights in (("bert", BERT, "bert.encoder.*.dense.weight"),
                                      ("gpt2", GPT2, "transformer.h.*.mlp.*")):
            with self.subTest(name):
                run = self.train(name, recipe + SPARSE.format(weights=weights))
                outputs = []
                for options in ((), ("--sparse",)):
                    path = self.export(run, *options)
                    self.assertEqual("sparse_matmul" in self.ops_of(path), bool(options))
                    outputs.append(self.check(path)[1])
                for key, value in outputs[0].items():
                    numpy.testing.assert_allclose(outputs[1][key], value, rtol=1e-4, atol=1e-5)
                # A model file keeps the stored form.
                ramet("export", run, "--out", "model.ramet", folder=self.folder)
                ramet("export", "model.ramet", "--out", "again.onnx", folder=self.folder)
                self.assertIn("sparse_matmul", self.ops_of(self.folder / "again.onnx"))

    def test_texts_are_continued_with_caches(self):
        run = self.train("gpt2", GPT2)
        whole = self.export(run)
        session = onnxruntime.InferenceSession(str(whole), providers=["CPUExecutionProvider"])
        words = numpy.random.default_rng(1).integers(0, 96, session.get_inputs()[0].shape).astype(numpy.int32)
        samples, length = words.shape
        expected = session.run(None, {session.get_inputs()[0].name: words})[0].reshape(samples, length, -1)
        given = {"input_ids": 96, "first": numpy.array([5, 0]), "last": numpy.array([0, 0])}
        path = self.export(run, "--program", "decode 1")
        self.check(path, given)
        self.check(self.export(run, "--program", "decode 16"), given | {"last": numpy.array([10, 3])})
        # Token by token, with what comes out as the next caches.
        path = self.export(run, "--program", "decode 1")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_outputs()]
        caches = {value.name: numpy.zeros(value.shape, numpy.float32) for value in session.get_inputs()
                  if value.name + ".next" in names}
        self.assertEqual(len(caches), 4)  # keys and values of two layers
        for position in range(length):
            told = {"first": numpy.full(samples, position, numpy.int32), "last": numpy.zeros(samples, numpy.int32)}
            found = dict(zip(names, session.run(None, {"input_ids": words[:, position:position + 1], **told, **caches})))
            numpy.testing.assert_allclose(found["logits"], expected[:, position, :found["logits"].shape[1]], rtol=1e-3, atol=1e-4)
            caches = {name: found[name + ".next"] for name in caches}


if __name__ == "__main__":
    unittest.main()
