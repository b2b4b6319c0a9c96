"""Speech recognition by connectionist temporal classification (CTC; Graves et al. 2006), made of tensor operations with fixed shapes."""

import torch
from torch import nn

_NEVER = -1e30  # the logarithm of probability 0


def ctc_loss(scores, labels, frames=None, blank=0):
    """The negative logarithm of the probability of each row's labels: [batch].

    `scores` are log-probabilities [batch, frames, classes]; `labels` [batch, length] are filled at the end with negative numbers;
    `frames` [batch] is the number of frames of each row (None: all). The sums run forwards over the frames, equation 6 of the paper,
    with one step of the program for each frame."""
    batch, length = labels.shape
    kept = labels >= 0
    states = torch.full((batch, length, 2), blank, dtype=torch.int64)
    states = torch.stack([states[:, :, 0], torch.where(kept, labels, blank)], dim=2).reshape(batch, 2 * length)
    states = torch.cat([states, torch.full((batch, 1), blank, dtype=torch.int64)], dim=1)
    emitted = scores.gather(2, states[:, None, :].expand(batch, scores.shape[1], 2 * length + 1))
    # A state may be reached from two before it where both are different labels.
    jumps = torch.zeros(batch, 2 * length + 1, dtype=torch.bool)
    jumps = torch.cat([jumps[:, :2], (states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2])], dim=1)
    start = torch.cat([torch.zeros(batch, 2), torch.full((batch, 2 * length - 1), _NEVER)], dim=1)
    forward = start + emitted[:, 0]
    for t in range(1, scores.shape[1]):
        one = torch.cat([torch.full((batch, 1), _NEVER), forward[:, :-1]], dim=1)
        two = torch.cat([torch.full((batch, 2), _NEVER), forward[:, :-2]], dim=1)
        two = torch.where(jumps, two, _NEVER)
        largest = torch.maximum(torch.maximum(forward, one), two)
        total = torch.exp(forward - largest) + torch.exp(one - largest) + torch.exp(two - largest)
        following = (largest + torch.log(total) + emitted[:, t]).clamp(min=_NEVER)
        forward = following if frames is None else torch.where((frames > t)[:, None], following, forward)
    lengths, places = kept.sum(1), torch.arange(2 * length + 1)
    ends = (places == 2 * lengths[:, None]) | ((places == 2 * lengths[:, None] - 1) & (lengths[:, None] > 0))
    last = torch.where(ends, forward, _NEVER)
    largest = last.amax(1, keepdim=True)
    return -(largest[:, 0] + torch.log(torch.exp(last - largest).sum(1)))


class SpeechRecognition(nn.Module):
    """A ForCTC module of transformers with its own loss on padded labels (-100 at the end). The loss of transformers selects labels by a
    mask: the number of them depends on data, which torch.export refuses. Reduction and zero_infinity are those of the configuration."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    @property
    def config(self):
        return self.module.config

    def forward(self, input_values, labels, attention_mask=None):
        mask = {} if attention_mask is None else {"attention_mask": attention_mask}
        logits = self.module(input_values=input_values, **mask).logits
        scores = torch.log_softmax(logits.to(torch.float32), dim=-1)
        frames = None if attention_mask is None else self.module._get_feat_extract_output_lengths(attention_mask.sum(-1))
        losses = ctc_loss(scores, labels, frames, self.config.pad_token_id)
        if self.config.ctc_zero_infinity:
            losses = torch.where(losses < -0.5 * _NEVER, losses, 0.0)
        if self.config.ctc_loss_reduction == "mean":
            losses = losses / (labels >= 0).sum(1).clamp(min=1).to(losses.dtype)
            return {"loss": losses.mean(), "logits": logits}
        return {"loss": losses.sum(), "logits": logits}
