"""pipeline of ramet.transformers compiled by Ramet itself, task by task, against transformers.pipeline."""

import sys
import unittest

import torch_support  # noqa: F401  (finds the built package, or skips everything)
from peers import needs

try:
    import numpy
    import hf_pipelines_test
    import ramet.transformers as rt
    BASE = hf_pipelines_test.PipelinesTest
    hf_pipelines_test.tearDownModule()  # takes off the double of ramet.torch, which the import has installed
except (ImportError, AttributeError):
    BASE = unittest.TestCase


@needs("torch", "transformers", "torchvision", "ramet")
class CompiledPipelinesTest(BASE):
    """Every test of hf_pipelines_test, over programs that Ramet compiles."""

    def test_the_programs_are_ramets(self):
        ours = rt.pipeline("text-classification", hf_pipelines_test.bert("BertForSequenceClassification"), hf_pipelines_test.tokenizer(),
                           max_length=24)
        ours(hf_pipelines_test.TEXTS[0])
        self.assertTrue(ours.program.is_current())
        self.assertTrue(sys.modules["ramet.torch"].__file__.endswith("__init__.py"))  # the double has no file

    def test_bf16_is_close(self):
        model, texts = hf_pipelines_test.bert("BertForSequenceClassification", num_labels=3), hf_pipelines_test.TEXTS
        exact, rounded = (rt.pipeline("text-classification", model, hf_pipelines_test.tokenizer(), max_length=24, precision=precision)(texts, top_k=3)
                          for precision in ("f32", "bf16"))
        scores = [numpy.array([[entry["score"] for entry in sorted(each, key=lambda entry: entry["label"])] for each in found])
                  for found in (exact, rounded)]
        numpy.testing.assert_allclose(scores[1], scores[0], atol=0.03)
        self.assertFalse(numpy.array_equal(scores[1], scores[0]))


del BASE  # whose tests run over the double

if __name__ == "__main__":
    unittest.main()
