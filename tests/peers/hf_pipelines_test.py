"""pipeline of ramet.transformers against transformers.pipeline, over PyTorch's own computation."""

import unittest

from peers import needs

try:
    import numpy
    import torch
    import torch_double
    import transformers
    from PIL import Image
    torch_double.install()
    import ramet.transformers as rt
    from ramet.errors import Error
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
except ImportError:
    torch = None

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "forest", "tree", "grows", "of", "one", "root", "and", "many", "trunks", "is", "where",
         "who", "what", "old", "young", ".", "?", ","]
TEXTS = ["the forest is one root", "a tree grows", "many trunks of one old tree , and a young one .", "what is the forest ?", "a root"]


def setUpModule():
    torch_double.install()


def tearDownModule():
    import sys
    sys.modules.pop("ramet.torch", None)
    if hasattr(sys.modules.get("ramet"), "torch"):
        del sys.modules["ramet"].torch


def tokenizer():
    return transformers.BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)}, model_max_length=32)


def bert(kind, **more):
    torch.manual_seed(3)
    return getattr(transformers, kind)(transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
        initializer_range=0.5, **more)).eval()


@needs("torch", "transformers", "torchvision")
class PipelinesTest(unittest.TestCase):
    def pair(self, task, model, **more):
        """Our pipeline and that of transformers, of one model."""
        theirs = transformers.pipeline(task, model=model, tokenizer=tokenizer(), device="cpu")
        return rt.pipeline(task, model, tokenizer(), max_length=24, batch_size=2, **more), theirs

    def close(self, found, expected):
        self.assertEqual(type(found), type(expected))
        if isinstance(expected, list):
            self.assertEqual(len(found), len(expected))
            for mine, other in zip(found, expected):
                self.close(mine, other)
        elif isinstance(expected, dict):
            self.assertEqual(set(found), set(expected))
            for name, value in expected.items():
                self.close(found[name], value.item() if hasattr(value, "item") else value)
        elif isinstance(expected, float):
            self.assertAlmostEqual(found, expected, places=4)
        else:
            self.assertEqual(found, expected)

    def test_text_classification(self):
        ours, theirs = self.pair("text-classification", bert("BertForSequenceClassification", num_labels=3))
        self.close(ours(TEXTS), theirs(TEXTS))
        self.close(ours(TEXTS, top_k=2), theirs(TEXTS, top_k=2))
        self.close([ours(TEXTS[0])], theirs(TEXTS[0]))

    def test_token_classification(self):
        ours, theirs = self.pair("token-classification", bert("BertForTokenClassification", num_labels=3))
        self.close(ours(TEXTS), theirs(TEXTS))

    def test_fill_mask(self):
        ours, theirs = self.pair("fill-mask", bert("BertForMaskedLM"))
        self.close(ours("the [MASK] grows"), theirs("the [MASK] grows"))
        with self.assertRaisesRegex(Error, r"the text has no mask token.*expected \[MASK\]"):
            ours("the tree grows")

    def test_question_answering_finds_a_span_of_the_context(self):
        model = bert("BertForQuestionAnswering")
        ours = rt.pipeline("question-answering", model, tokenizer(), max_length=16, batch_size=2, doc_stride=4)
        found = ours(question="what is old ?", context=TEXTS[2])
        self.assertEqual(found["answer"], TEXTS[2][found["start"]:found["end"]])
        encoded = tokenizer()("what is old ?", TEXTS[1], return_tensors="pt")
        with torch.no_grad():
            outputs = model(**encoded)
        part = encoded["token_type_ids"][0].bool() & (encoded["input_ids"][0] != 3)
        start, end = (torch.softmax(scores[0].masked_fill(~part, -1e4), -1) for scores in (outputs.start_logits, outputs.end_logits))
        expected = max((float(start[i] * end[j]), i, j) for i in range(len(start)) for j in range(i, len(end)))
        self.assertAlmostEqual(ours(question="what is old ?", context=TEXTS[1])["score"], expected[0], places=5)

    def test_features_and_embeddings(self):
        model = bert("BertModel")
        ours, theirs = self.pair("feature-extraction", model)
        for mine, other in zip(ours(TEXTS), theirs(TEXTS)):
            numpy.testing.assert_allclose(mine, numpy.array(other)[0], rtol=1e-3, atol=1e-4)
        embeddings = rt.pipeline("sentence-embedding", model, tokenizer(), max_length=24, batch_size=2)(TEXTS)
        for mine, other in zip(embeddings, theirs(TEXTS)):
            mean = numpy.array(other)[0].mean(0)
            numpy.testing.assert_allclose(mine, mean / numpy.linalg.norm(mean), rtol=1e-3, atol=1e-4)

    def test_images(self):
        torch.manual_seed(3)
        vit = transformers.ViTForImageClassification(transformers.ViTConfig(
            image_size=16, patch_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=6)).eval()
        processor = transformers.ViTImageProcessor(size={"height": 16, "width": 16})
        images = [Image.fromarray(numpy.random.default_rng(i).integers(0, 255, (20, 24, 3), dtype=numpy.uint8)) for i in range(3)]
        ours = rt.pipeline("image-classification", vit, image_processor=processor, batch_size=2)
        theirs = transformers.pipeline("image-classification", model=vit, image_processor=processor, device="cpu")
        self.close(ours(images), theirs(images))
        self.close(ours(images, top_k=2), theirs(images, top_k=2))

    def test_sounds(self):
        torch.manual_seed(3)
        extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=100)
        wave = transformers.Wav2Vec2ForSequenceClassification(transformers.Wav2Vec2Config(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, conv_dim=[8, 8], conv_stride=[5, 4], conv_kernel=[10, 4],
            num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, num_labels=3, classifier_proj_size=8)).eval()
        sounds = [numpy.random.default_rng(i).standard_normal(400).astype(numpy.float32) for i in range(3)]
        ours = rt.pipeline("audio-classification", wave, feature_extractor=extractor, batch_size=2, max_length=400)
        theirs = transformers.pipeline("audio-classification", model=wave, feature_extractor=extractor, device="cpu")
        self.close(ours(sounds), theirs(sounds))

    def test_local_folders_and_faults(self):
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            model = bert("BertForSequenceClassification", num_labels=3)
            model.save_pretrained(folder)
            tokenizer().save_pretrained(folder)
            expected = rt.pipeline("text-classification", model, tokenizer(), max_length=24)(TEXTS)
            self.close(rt.pipeline("text-classification", folder, max_length=24)(TEXTS), expected)
        with self.assertRaisesRegex(Error, "the task is unknown.*Did you mean text-classification"):
            rt.pipeline("text-clasification", model)
        with self.assertRaisesRegex(Error, "the model is no local folder.*nothing is fetched here"):
            rt.pipeline("fill-mask", "bert-base-uncased")


if __name__ == "__main__":
    unittest.main()
