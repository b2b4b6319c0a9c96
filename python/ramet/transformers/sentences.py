"""Sentence encoders: mean pooling over the tokens of a transformers encoder, and losses on pairs of sentences."""

import torch
import torch.nn.functional as functional
from torch import nn

LOSSES = ("contrastive", "cosine")


class SentenceEncoder(nn.Module):
    """The mean of an encoder's last hidden states over the tokens that the attention mask keeps, of length 1 unless
    `normalize` is False: [batch, hidden]."""

    def __init__(self, encoder, normalize=True):
        super().__init__()
        self.encoder, self.normalize = encoder, normalize

    @property
    def config(self):
        return self.encoder.config

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types).last_hidden_state
        mask = attention_mask[:, :, None].to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return functional.normalize(mean, dim=-1) if self.normalize else mean


class SentencePairs(nn.Module):
    """A loss on pairs of sentences, to train a sentence encoder.

    The second sentence has the same inputs with the prefix `other_`. "contrastive": the second sentences of the other
    pairs of the micro-batch are the negatives, and the loss is the cross entropy of the cosines times `scale`. "cosine":
    the mean squared error of the cosine and `scores`."""

    def __init__(self, encoder, loss="contrastive", scale=20.0):
        super().__init__()
        if loss not in LOSSES:
            raise ValueError(f"loss is {loss!r}; expected one of {', '.join(LOSSES)}")
        self.sentences = SentenceEncoder(encoder)
        self.loss, self.scale = loss, scale

    @property
    def config(self):
        return self.sentences.config

    def forward(self, input_ids, attention_mask, other_input_ids, other_attention_mask, token_type_ids=None, other_token_type_ids=None,
                scores=None):
        first = self.sentences(input_ids, attention_mask, token_type_ids)
        second = self.sentences(other_input_ids, other_attention_mask, other_token_type_ids)
        if self.loss == "cosine":
            return {"loss": functional.mse_loss((first * second).sum(-1), scores), "embeddings": first}
        cosines = first @ second.transpose(0, 1) * self.scale
        return {"loss": functional.cross_entropy(cosines, torch.arange(cosines.shape[0], device=cosines.device)), "embeddings": first}


class SentencePairCollator:
    """Turns samples {"first", "second"} (and "score", where the loss is "cosine") into the inputs of SentencePairs, all of one length."""

    columns = ("first", "second", "score")  # what Trainer leaves in samples for it

    def __init__(self, tokenizer, max_length=64):
        self.tokenizer, self.max_length = tokenizer, max_length

    def __call__(self, samples):
        batch = dict(self._encoded([sample["first"] for sample in samples]))
        batch |= {"other_" + name: value for name, value in self._encoded([sample["second"] for sample in samples]).items()}
        if "score" in samples[0]:
            batch["scores"] = torch.tensor([float(sample["score"]) for sample in samples])
        return batch

    def _encoded(self, texts):
        return self.tokenizer(texts, padding="max_length", truncation=True, max_length=self.max_length, return_tensors="pt")
