"""Block-sparse matrices and layers in Python."""
import unittest

import numpy as np

import ramet


def matrix(rows=8, columns=12, seed=1):
    random = np.random.default_rng(seed)
    return np.where(random.random((rows, columns)) < 0.3, random.standard_normal((rows, columns)), 0).astype(np.float32)


class Formats(unittest.TestCase):
    def test_every_format_comes_back(self):
        dense = matrix()
        for block in ((1, 1), (2, 2), (4, 3)):
            sparse = ramet.SparseMatrix.from_dense(dense, block=block)
            np.testing.assert_array_equal(sparse.dense(), dense)
            self.assertEqual(sparse.block, block)
            row, column, values = sparse.triplets()
            self.assertEqual(values.shape, (sparse.stored_blocks, *block))
            self.assertEqual(ramet.SparseMatrix.from_coo(row, column, values, dense.shape, block=block), sparse)
            self.assertEqual(ramet.SparseMatrix.from_csr(*sparse.bsr(), dense.shape, block=block), sparse)
            self.assertEqual(ramet.SparseMatrix.from_cells(*sparse.cells(), cell=dense.shape), sparse)
            elements = sparse.with_block((1, 1))
            self.assertEqual(ramet.SparseMatrix.from_coo(*sparse.coo(), dense.shape), elements)
            self.assertEqual(ramet.SparseMatrix.from_csr(*sparse.csr(), dense.shape), elements)
            self.assertEqual(ramet.SparseMatrix.from_csc(*sparse.csc(), dense.shape), elements)

    def test_refusals_are_of_their_own_types(self):
        with self.assertRaises(ramet.ShapeError):
            ramet.SparseMatrix.from_dense(matrix(), block=(3, 3))
        with self.assertRaises(ramet.FormatError) as caught:
            ramet.SparseMatrix.from_coo([0, 9], [0, 0], [1.0, 2.0], (8, 8))
        self.assertIn("row of entry 1", caught.exception.where)


class Layers(unittest.TestCase):
    def test_a_product_is_that_of_the_dense_matrix(self):
        weight, x = matrix(), np.random.default_rng(2).standard_normal((4, 12)).astype(np.float32)
        values, index = ramet.SparseMatrix.from_dense(weight, block=(2, 2)).cells()
        m = ramet.ModelBuilder("product")
        a = m.input("x", "f32", [4, 12])
        stored = m.weight("stored", values.shape, ramet.Init.numbers(values))
        pattern = m.state("pattern", "i32", index.shape, "constant", ramet.Init.numbers(index))
        y = ramet.sparse_matmul(a, stored, pattern, 8, 12)
        m.loss(ramet.reduce_mean(y * y))
        m.output("y", y)
        np.testing.assert_allclose(ramet.Predictor(m.build(), threads=1).predict({"x": x})["y"], x @ weight.T, atol=1e-5)

    def test_a_layer_trains_to_the_same_bits_on_two_layouts(self):
        x = np.random.default_rng(3).standard_normal((16, 16)).astype(np.float32)
        hashes = set()
        for layout in ("", "t=2"):
            m = ramet.ModelBuilder("layer")
            a = m.input("x", "f32", [16, 16])
            h = ramet.relu(ramet.sparse_linear_layer(m, a, "up", 32, density=0.25, block=(4, 4), cells=(2, 1), rows="mlp"))
            y = ramet.sparse_linear_layer(m, h, "down", 16, density=0.25, block=(4, 4), cells=(1, 2), columns="mlp")
            m.loss(ramet.reduce_mean(y * y))
            m.axis_units("mlp", 2)
            training = ramet.Training(m.build(), layout=layout, chunks=2, threads=1)
            for _ in range(2):
                training.step({"x": x})
            hashes.add(training.weights_hash())
        self.assertEqual(len(hashes), 1)

    def test_rows_softmax_and_attention_are_those_of_the_dense_matrix(self):
        random = np.random.default_rng(6)
        table = ramet.SparseMatrix.from_dense(matrix(), block=(2, 2))
        values, index = table.cells()
        numbers = np.array([3, 0, 3, 7], np.int32)
        rows = random.standard_normal((4, 12)).astype(np.float32)
        q, k, v = (random.standard_normal((4, size, 5)).astype(np.float32) for size in (8, 12, 12))
        m = ramet.ModelBuilder("rows")
        stored = m.weight("stored", values.shape, ramet.Init.numbers(values))
        pattern = m.state("pattern", "i32", index.shape, "constant", ramet.Init.numbers(index))
        n, r = m.input("numbers", "i32", [4]), m.input("rows", "f32", [4, 12])
        queries, keys, width = (m.input(name, "f32", list(a.shape)) for name, a in (("q", q), ("k", k), ("v", v)))
        made = {"gathered": ramet.sparse_gather(n, stored, pattern, 8, 12),
                "added": ramet.sparse_scatter_add(n, r, pattern, 8, 12, 2, 2),
                "softmax": ramet.sparse_softmax(stored, pattern, 8, 12, "lower"),
                "attention": ramet.sparse_attention(queries, keys, width, pattern, 8, 12, 2, 2, 0.5)}
        m.loss(ramet.reduce_mean(made["gathered"]))
        for name, tensor in made.items():
            m.output(name, tensor)
        found = ramet.Predictor(m.build(), threads=1).run(
            "predict", {"numbers": numbers, "rows": rows, "q": q, "k": k, "v": v})

        def dense(cells):
            return ramet.SparseMatrix.from_cells(cells, index, (8, 12)).dense()

        whole, mask = table.dense(), dense(np.ones_like(values)) > 0
        np.testing.assert_array_equal(found["gathered"], whole[numbers])
        sums = np.zeros((8, 12), np.float32)
        np.add.at(sums, numbers, rows)
        np.testing.assert_allclose(dense(found["added"]), sums * mask, rtol=1e-6)

        def softmax(scores, kept):
            shares = np.where(kept, np.exp(scores), 0)
            return shares / np.maximum(shares.sum(-1, keepdims=True), 1e-30)

        np.testing.assert_allclose(dense(found["softmax"]), softmax(whole, mask & np.tri(8, 12, dtype=bool)), atol=1e-6)
        np.testing.assert_allclose(found["attention"], softmax(0.5 * q @ k.swapaxes(1, 2), mask) @ v, atol=1e-5)

    def test_products_of_several_matrices(self):
        random = np.random.default_rng(7)
        one = ramet.SparseMatrix.from_dense(matrix(), block=(2, 2))
        _, index = one.cells()
        a, b = random.standard_normal((3, 5, 8)).astype(np.float32), random.standard_normal((3, 5, 12)).astype(np.float32)
        m = ramet.ModelBuilder("several")
        pattern = m.state("pattern", "i32", index.shape, "constant", ramet.Init.numbers(index))
        left, right = m.input("a", "f32", [3, 5, 8]), m.input("b", "f32", [3, 5, 12])
        outer = ramet.sparse_outer(left, right, pattern, 8, 12, 2, 2, grouped=True)
        y = ramet.sparse_matmul(right, outer, pattern, 8, 12) * m.weight("w", [1])
        m.loss(ramet.reduce_mean(y))
        m.output("outer", outer)
        m.output("y", ramet.sparse_matmul(right, outer, pattern, 8, 12))
        found = ramet.Predictor(m.build(), threads=1).run("predict", {"a": a, "b": b})
        for g in range(3):
            stored = ramet.SparseMatrix.from_cells(found["outer"][g], index, (8, 12)).dense()
            kept = ramet.SparseMatrix.from_cells(np.ones_like(found["outer"][g]), index, (8, 12)).dense()
            np.testing.assert_allclose(stored, a[g].T @ b[g] * kept, atol=1e-5)
            np.testing.assert_allclose(found["y"][g], b[g] @ stored.T, rtol=1e-4, atol=1e-4)

    def test_prediction_has_the_same_bits_on_every_layout(self):
        x = np.random.default_rng(8).standard_normal((4, 16)).astype(np.float32)
        found = set()
        for layout in ("", "t=2", "r=2"):
            m = ramet.ModelBuilder("predicts")
            a = m.input("x", "f32", [4, 16])
            h = ramet.gelu(ramet.sparse_linear_layer(m, a, "up", 32, density=0.25, block=(4, 4), cells=(2, 1), rows="mlp"))
            y = ramet.sparse_linear_layer(m, h, "down", 16, density=0.25, block=(4, 4), cells=(1, 2), columns="mlp")
            m.loss(ramet.reduce_mean(y * y))
            m.output("y", y)
            m.axis_units("mlp", 2)
            predictor = ramet.Predictor(m.build(), layout=layout, chunks=2, threads=1)
            found.add(predictor.predict({"x": x})["y"].tobytes())
        self.assertEqual(len(found), 1)

    def test_weights_of_a_model_become_sparse(self):
        x = np.random.default_rng(4).standard_normal((8, 16)).astype(np.float32)
        weight = np.random.default_rng(5).standard_normal((32, 16)).astype(np.float32)
        m = ramet.ModelBuilder("dense")
        a = m.input("x", "f32", [8, 16])
        y = ramet.linear(a, m.weight("w", weight.shape, ramet.Init.numbers(weight)), m.weight("b", [32]))
        m.loss(ramet.reduce_mean(y * y))
        dense = m.build()
        sparse = ramet.sparsify(dense, ["w"], density=0.25, block=(4, 4), pattern="magnitude")
        self.assertEqual(sparse.shape_of("w.values"), (1, 1, 8, 4, 4))
        training = ramet.Training(sparse, threads=1)
        kept = ramet.SparseMatrix.from_cells(training.state("w.values"), training.state("w.index"), (32, 16)).dense()
        np.testing.assert_array_equal(kept[kept != 0], weight[kept != 0])
        sums = np.abs(weight).reshape(8, 4, 4, 4).sum(axis=(1, 3))
        np.testing.assert_array_equal(np.abs(kept).reshape(8, 4, 4, 4).sum(axis=(1, 3)) > 0, sums >= np.sort(sums.ravel())[-8])
        with self.assertRaisesRegex(ramet.Error, "'v'"):
            ramet.sparsify(dense, ["v"])

    def test_patterns_of_names_have_densities_of_their_own(self):
        m = ramet.ModelBuilder("two")
        h = ramet.matmul(m.input("x", "f32", [8, 16]), m.weight("first.w", [16, 32], ramet.Init.normal(0.1)))
        m.loss(ramet.reduce_mean(ramet.matmul(h, m.weight("last.w", [32, 16], ramet.Init.normal(0.1)))))
        dense = m.build()
        sparse = ramet.sparsify(dense, ["*"], density=0.25, densities={"*.w": 0.75, "last.*": 0.5})
        self.assertEqual((sparse.shape_of("first.w.index"), sparse.shape_of("last.w.index")), ((1, 1, 384), (1, 1, 256)))
        with self.assertRaisesRegex(ramet.Error, "'middle'"):
            ramet.sparsify(dense, ["*"], densities={"middle": 0.5})

    def test_unused_slots_are_passed_over(self):
        weight = np.random.default_rng(9).standard_normal((32, 16)).astype(np.float32)
        x = np.random.default_rng(10).standard_normal((8, 16)).astype(np.float32)
        m = ramet.ModelBuilder("dense")
        y = ramet.linear(m.input("x", "f32", [8, 16]), m.weight("w", weight.shape, ramet.Init.numbers(weight)), m.weight("b", [32]))
        m.loss(ramet.reduce_mean(y * y))
        sparse = ramet.sparsify(m.build(), ["w"], density=0.25, block=(2, 2), first_density=1, every=1, steps=4, prune_ratio=0)
        training = ramet.Training(sparse, steps=4, threads=1)
        stored = []
        for step in range(4):
            index = training.state("w.index")
            matrix = ramet.SparseMatrix.from_cells(training.state("w.values"), index, (32, 16))
            self.assertEqual(matrix.stored_blocks, np.count_nonzero(index >= 0))
            stored.append(matrix.stored_blocks)
            if step == 0:
                np.testing.assert_array_equal(matrix.dense(), weight)
            training.step({"x": x})
        self.assertEqual((stored[0], stored[-1]), (128, 32))
        with self.assertRaisesRegex(ramet.FormatError, "-2"):
            ramet.SparseMatrix.from_cells(np.ones((1, 1, 1, 1, 1), np.float32), np.full((1, 1, 1), -2, np.int32), (1, 1))

    def test_patterns_change(self):
        x = np.random.default_rng(6).standard_normal((8, 16)).astype(np.float32)
        m = ramet.ModelBuilder("dense")
        y = ramet.linear(m.input("x", "f32", [8, 16]), m.weight("w", [32, 16], ramet.Init.normal(0.1)), m.weight("b", [32]))
        m.loss(ramet.reduce_mean(y * y))
        sparse = ramet.sparsify(m.build(), ["w"], density=0.25, block=(2, 2), every=2, steps=4, regrow="gradient")
        training = ramet.Training(sparse, steps=4, threads=1)
        patterns = [training.state("w.index")]
        for step in range(4):
            training.step({"x": x})
            patterns.append(training.state("w.index"))
        same = [np.array_equal(a, b) for a, b in zip(patterns, patterns[1:])]
        self.assertEqual(same, [True, False, True, True])  # by step 4 the prune ratio is 0
        self.assertEqual(training.results("evolve")["stored.w"], 32)
        with self.assertRaisesRegex(ramet.Error, "4 steps of sparsify, 5 of the training"):
            ramet.Training(sparse, steps=5, threads=1)


if __name__ == "__main__":
    unittest.main()
