"""Losses that ramet.transformers makes of tensor operations, against PyTorch's and transformers' own."""

import unittest

from peers import needs

try:
    import torch
    import torch_double
    import transformers
    torch_double.install()
    import ramet.transformers as rt
    torch.set_num_threads(1)
except ImportError:
    torch = None


def tearDownModule():
    import sys
    sys.modules.pop("ramet.torch", None)


@needs("torch", "transformers")
class LossesTest(unittest.TestCase):
    def test_ctc_loss_and_its_gradient(self):
        torch.manual_seed(1)
        logits = torch.randn(4, 11, 7, requires_grad=True)
        labels = torch.tensor([[1, 2, 3], [4, 4, -100], [5, -100, -100], [6, 1, 6]])
        frames, lengths = torch.tensor([11, 9, 11, 6]), torch.tensor([3, 2, 1, 3])
        found = rt.ctc_loss(torch.log_softmax(logits, -1), labels, frames)
        expected = torch.nn.functional.ctc_loss(torch.log_softmax(logits, -1).transpose(0, 1), labels.clamp(min=0), frames, lengths, reduction="none")
        torch.testing.assert_close(found, expected)
        mine, = torch.autograd.grad(found.sum(), logits)
        other, = torch.autograd.grad(expected.sum(), logits)
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(rt.ctc_loss(torch.log_softmax(logits, -1), labels), torch.nn.functional.ctc_loss(
            torch.log_softmax(logits, -1).transpose(0, 1), labels.clamp(min=0), torch.full((4,), 11), lengths, reduction="none"))

    def test_speech_recognition_has_the_loss_of_transformers(self):
        for reduction in ("sum", "mean"):
            torch.manual_seed(1)
            module = transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(
                vocab_size=9, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, conv_dim=[8, 8], conv_stride=[5, 4],
                conv_kernel=[10, 4], num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
                feat_extract_norm="layer", ctc_loss_reduction=reduction, ctc_zero_infinity=True)).eval()
            sound, mask = torch.randn(3, 400), torch.ones(3, 400, dtype=torch.int64)
            mask[1, 300:] = 0
            labels = torch.tensor([[1, 2, 2, 3], [4, 5, -100, -100], [8, -100, -100, -100]])
            for more in ({}, {"attention_mask": mask}):
                expected = module(input_values=sound, labels=labels, **more).loss
                torch.testing.assert_close(rt.SpeechRecognition(module)(sound, labels, **more)["loss"], expected, rtol=1e-4, atol=1e-4)

    def test_sentence_pairs(self):
        torch.manual_seed(1)
        encoder = transformers.BertModel(transformers.BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                                                 intermediate_size=32)).eval()
        numbers, mask = torch.randint(0, 20, (3, 5)), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
        states = encoder(numbers, mask).last_hidden_state
        means = torch.stack([states[i, :int(mask[i].sum())].mean(0) for i in range(3)])
        found = rt.SentenceEncoder(encoder)(numbers, mask)
        torch.testing.assert_close(found, means / means.norm(dim=1, keepdim=True), rtol=1e-4, atol=1e-5)
        pairs = {"input_ids": numbers, "attention_mask": mask, "other_input_ids": numbers.flip(0), "other_attention_mask": mask.flip(0)}
        cosines = torch.nn.functional.cosine_similarity(means[:, None], means.flip(0)[None], dim=-1)
        torch.testing.assert_close(rt.SentencePairs(encoder)(**pairs)["loss"], torch.nn.functional.cross_entropy(20 * cosines, torch.arange(3)))
        scores = torch.tensor([0.1, 0.5, 0.9])
        torch.testing.assert_close(rt.SentencePairs(encoder, loss="cosine")(**pairs, scores=scores)["loss"],
                                   ((cosines.diagonal() - scores) ** 2).mean())


if __name__ == "__main__":
    unittest.main()
