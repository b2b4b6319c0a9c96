"""BERT and GPT-2 written in plain PyTorch, as a careful user would: one product for query, key and value,
scaled_dot_product_attention (which chooses a fused kernel where it has one: on a CPU only without dropout), tied
embeddings, and the masked-word head on the masked positions only. The peer that Ramet is measured against, and the
oracle of its loss curves. Weight names are Ramet's (Hugging Face's where they exist).
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

BERT_PRESETS = {
    "tiny": (2, 128, 2), "mini": (4, 256, 4), "small": (4, 512, 8), "medium": (8, 512, 8),
    "base": (12, 768, 12), "large": (24, 1024, 16),
}
GPT2_PRESETS = {"mini": (4, 256, 4), "124m": (12, 768, 12), "355m": (24, 1024, 16), "774m": (36, 1280, 20), "1.5b": (48, 1600, 25)}


class Attention(nn.Module):
    def __init__(self, hidden, heads, dropout, causal):
        super().__init__()
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.heads, self.dropout, self.causal = heads, dropout, causal

    def forward(self, x, mask):
        batch, length, hidden = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal,
                                           dropout_p=self.dropout if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(batch, length, hidden))


class BertLayer(nn.Module):
    def __init__(self, hidden, heads, intermediate, dropout, attention_dropout):
        super().__init__()
        self.attention = Attention(hidden, heads, attention_dropout, causal=False)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-12)
        self.up = nn.Linear(hidden, intermediate)
        self.down = nn.Linear(intermediate, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-12)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.drop(self.attention(x, mask)))
        return self.norm2(x + self.drop(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    """BERT with its two pretraining heads. forward(batch) -> loss (masked words + next sentence)."""

    def __init__(self, preset="base", vocab=30522, positions=512, dropout=0.1, attention_dropout=0.1):
        super().__init__()
        layers, hidden, heads = BERT_PRESETS[preset]
        self.hidden = hidden
        self.word = nn.Embedding(vocab, hidden)
        self.position = nn.Embedding(positions, hidden)
        self.token_type = nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList(BertLayer(hidden, heads, 4 * hidden, dropout, attention_dropout) for _ in range(layers))
        self.pooler = nn.Linear(hidden, hidden)
        self.transform = nn.Linear(hidden, hidden)
        self.transform_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.decoder_bias = nn.Parameter(torch.zeros(vocab))
        self.next_sentence = nn.Linear(hidden, 2)
        self.apply(init_weights)

    def encode(self, batch):
        ids = batch["input_ids"]
        length = ids.shape[1]
        x = self.word(ids) + self.position.weight[:length] + self.token_type(batch["token_type_ids"])
        x = self.drop(self.norm(x))
        mask = batch["attention_mask"].bool()[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return x

    def masked_logits(self, x, batch):
        masked = torch.gather(x, 1, batch["masked_positions"][:, :, None].expand(-1, -1, self.hidden))
        h = self.transform_norm(F.gelu(self.transform(masked.reshape(-1, self.hidden))))
        return F.linear(h, self.word.weight) + self.decoder_bias

    def predict(self, batch):
        """The likeliest word of each mask and its probability."""
        return torch.softmax(self.masked_logits(self.encode(batch), batch).float(), -1).max(-1)

    def forward(self, batch):
        x = self.encode(batch)
        logits = self.masked_logits(x, batch)
        mlm = F.cross_entropy(logits.float(), batch["masked_labels"].reshape(-1), ignore_index=-1)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        nsp = F.cross_entropy(self.next_sentence(pooled).float(), batch["next_sentence_label"])
        return mlm + nsp


class Gpt2Layer(nn.Module):
    def __init__(self, hidden, heads, dropout, attention_dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads, attention_dropout, causal=True)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x), None))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class Gpt2(nn.Module):
    """GPT-2 with its tied language-model head. forward(batch) -> loss."""

    def __init__(self, preset="124m", vocab=50257, positions=1024, dropout=0.1, attention_dropout=0.1):
        super().__init__()
        layers, hidden, heads = GPT2_PRESETS[preset]
        self.word = nn.Embedding(vocab, hidden)
        self.position = nn.Embedding(positions, hidden)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Gpt2Layer(hidden, heads, dropout, attention_dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.apply(init_weights)
        for layer in self.layers:  # GPT-2's scaled initialisation of residual projections
            for linear in (layer.attention.out, layer.down):
                nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * layers))

    def forward(self, batch):
        ids = batch["input_ids"]
        x = self.drop(self.word(ids) + self.position.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.word.weight)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), batch["labels"].reshape(-1), ignore_index=-1)


def init_weights(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def parameter_groups(model, decay):
    """Decay for matrices, none for biases and norms: the field's usual groups."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
