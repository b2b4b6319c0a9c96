"""Small modules of transformers and diffusers with random weights, each with synthetic batches: the cells of the table in
docs/hugging-face.md. A cell is an architecture and a task.

    import hf_cells
    cell = hf_cells.CELLS["BERT", "masked language model"]
    module = cell.module()          # random weights of a fixed seed, dropout 0
    batch = cell.batch(step)        # a dictionary of tensors: the same numbers for the same step
"""

import dataclasses
import typing

import torch
import torch.nn.functional as functional
import transformers
from torch import nn

VOCABULARY, LENGTH, BATCH, LABELS, CHOICES = 160, 24, 4, 3, 3
PAD, EOS = 1, 2
IMAGE, SAMPLES = 32, 1600


@dataclasses.dataclass
class Cell:
    architecture: str
    task: str
    make: typing.Callable  # () -> nn.Module
    inputs: typing.Callable  # (torch.Generator) -> dict of tensors
    batch_norm: bool = False  # the loss of such a module is compared with a wider bar
    note: str = ""

    def module(self):
        torch.manual_seed(1)
        return self.make().train()

    def batch(self, step):
        return self.inputs(torch.Generator().manual_seed(1000 + step))


CELLS = {}


def add(architecture, task, make, inputs, **more):
    CELLS[architecture, task] = Cell(architecture, task, make, inputs, **more)


def without_dropout(config):
    """Sets every rate of dropout, also of whole layers, to 0, in the configuration and in those inside it."""
    for name, value in list(vars(config).items()):
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
        elif isinstance(value, transformers.PreTrainedConfig):
            without_dropout(value)
    return config


def model(class_name, config_class, **settings):
    """A function that makes the module `class_name` of transformers with the configuration's settings."""

    def make():
        config = without_dropout(getattr(transformers, config_class)(**settings))
        if hasattr(config, "use_cache"):
            config.use_cache = False
        module = getattr(transformers, class_name)(config)
        for part in module.modules():  # some heads have a rate of their own when the configuration gives none
            if isinstance(part, nn.Dropout):
                part.p = 0.0
            if hasattr(part, "gelu_impl"):  # BLOOM has a gradient of its own for the same function
                part.gelu_impl = nn.GELU(approximate="tanh")
        return module

    return make


# Synthetic batches. Ids 0 to 4 are kept for special tokens.


def ids(random, *shape):
    return torch.randint(5, VOCABULARY, shape, generator=random)


def classes(random, count, *shape):
    return torch.randint(0, count, shape, generator=random)


def text(random, length=LENGTH, batch=BATCH):
    """Ids and their mask; the last rows are shorter, padded at the end."""
    numbers, mask = ids(random, batch, length), torch.ones(batch, length, dtype=torch.int64)
    for row in range(batch // 2, batch):
        kept = length - 2 - row
        mask[row, kept:] = 0
    numbers[:, -1] = EOS
    for row in range(batch // 2, batch):
        numbers[row, int(mask[row].sum()) - 1] = EOS
    numbers[mask == 0] = PAD
    return {"input_ids": numbers, "attention_mask": mask}


def masked(random):
    batch = text(random)
    chosen = (torch.rand(batch["input_ids"].shape, generator=random) < 0.25) & (batch["attention_mask"] == 1)
    batch["labels"] = torch.where(chosen, batch["input_ids"], -100)
    batch["input_ids"] = torch.where(chosen, 4, batch["input_ids"])
    return batch


def causal(random):
    batch = text(random)
    batch["labels"] = torch.where(batch["attention_mask"] == 1, batch["input_ids"], -100)
    return batch


def sequences(random):
    return text(random) | {"labels": classes(random, LABELS, BATCH)}


def tokens(random):
    batch = text(random)
    labels = classes(random, LABELS, BATCH, LENGTH)
    return batch | {"labels": torch.where(batch["attention_mask"] == 1, labels, -100)}


def questions(random):
    return text(random) | {"start_positions": classes(random, 12, BATCH), "end_positions": classes(random, 12, BATCH)}


def choices(random):
    batch = {name: value.reshape(BATCH, CHOICES, LENGTH) for name, value in text(random, batch=BATCH * CHOICES).items()}
    return batch | {"labels": classes(random, CHOICES, BATCH)}


def pairs_of_sequences(random):
    labels = ids(random, BATCH, 12)
    labels[:, -2:] = -100
    return text(random) | {"labels": labels}


def packed(random):
    """Two sequences in each row, which do not see each other."""
    numbers = ids(random, BATCH, LENGTH)
    segment = (torch.arange(LENGTH) >= 14).long().expand(BATCH, LENGTH)
    position = torch.where(segment == 0, torch.arange(LENGTH), torch.arange(LENGTH) - 14)
    chosen = torch.rand(numbers.shape, generator=random) < 0.25
    return {"input_ids": torch.where(chosen, 4, numbers), "attention_mask": segment[:, None, :, None] == segment[:, None, None, :],
            "position_ids": position, "labels": torch.where(chosen, numbers, -100)}


def images(random, channels=3, size=IMAGE, labels=LABELS):
    return {"pixel_values": torch.randn(BATCH, channels, size, size, generator=random), "labels": classes(random, labels, BATCH)}


def sound(random):
    return {"input_values": torch.randn(BATCH, SAMPLES, generator=random), "labels": classes(random, LABELS, BATCH)}


# Encoders of text.

WIDTHS = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
          "max_position_embeddings": 64, "pad_token_id": PAD, "bos_token_id": 0, "eos_token_id": EOS}
NAMES_OF_TASKS = {"ForMaskedLM": ("masked language model", masked), "ForCausalLM": ("causal language model", causal),
                  "LMHeadModel": ("causal language model", causal),
                  "ForSequenceClassification": ("sequence classification", sequences),
                  "ForTokenClassification": ("token classification", tokens),
                  "ForQuestionAnswering": ("question answering", questions),
                  "ForMultipleChoice": ("multiple choice", choices)}
ENCODERS = {
    "BERT": ("Bert", {}),
    "RoBERTa": ("Roberta", {}),
    "DistilBERT": ("DistilBert", {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}),
    "DeBERTa": ("Deberta", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "DeBERTa-v2": ("DebertaV2", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 16,
                                 "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False}),
    "MiniLM": ("Bert", {"hidden_size": 96, "num_attention_heads": 12, "intermediate_size": 384}),
    "ALBERT": ("Albert", {"embedding_size": 32}),
    "ELECTRA": ("Electra", {"embedding_size": 32}),
    "MPNet": ("MPNet", {}),
    "ModernBERT": ("ModernBert", {"local_attention": 8, "global_attn_every_n_layers": 2, "attn_implementation": "sdpa", "cls_token_id": 3,
                                  "sep_token_id": EOS}),
}
DECODERS = {
    "GPT-2": ("GPT2", {}),
    "GPT-Neo": ("GPTNeo", {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 4, "window_size": 8}),
    "GPT-NeoX": ("GPTNeoX", {}),
    "GPT-J": ("GPTJ", {"rotary_dim": 8, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "BLOOM": ("Bloom", {"n_layer": 2, "n_head": 4}),
    "Llama": ("Llama", {"num_key_value_heads": 2}),
    "Mistral": ("Mistral", {"num_key_value_heads": 2, "sliding_window": 8}),
    "Mixtral": ("Mixtral", {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "Qwen2": ("Qwen2", {"num_key_value_heads": 2}),
    "OPT": ("OPT", {"ffn_dim": 128, "word_embed_proj_dim": 64}),
    "Gemma": ("Gemma", {"num_key_value_heads": 2, "head_dim": 16}),
    "Phi": ("Phi", {}),
}


def add_text_models(table, suffixes):
    for architecture, (prefix, settings) in table.items():
        for suffix in suffixes:
            class_name = prefix + suffix
            if not hasattr(transformers, class_name):
                continue
            task, inputs = NAMES_OF_TASKS[suffix]
            labels = {"num_labels": LABELS} if suffix in ("ForSequenceClassification", "ForTokenClassification") else {}
            if suffix == "ForSequenceClassification":  # DeBERTa's forward would choose by the values of the labels
                labels["problem_type"] = "single_label_classification"
            add(architecture, task, model(class_name, prefix + "Config", **(WIDTHS | settings | labels)), inputs)


add_text_models(ENCODERS, ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice"))
add_text_models(DECODERS, ("ForCausalLM", "LMHeadModel", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"))

add("BERT", "pre-training", model("BertForPreTraining", "BertConfig", **WIDTHS),
    lambda random: masked(random) | {"next_sentence_label": classes(random, 2, BATCH)})
add("ALBERT", "pre-training", model("AlbertForPreTraining", "AlbertConfig", **(WIDTHS | {"embedding_size": 32})),
    lambda random: masked(random) | {"sentence_order_label": classes(random, 2, BATCH)})
add("ELECTRA", "pre-training", model("ElectraForPreTraining", "ElectraConfig", **(WIDTHS | {"embedding_size": 32})),
    lambda random: {"input_ids": ids(random, BATCH, LENGTH), "labels": classes(random, 2, BATCH, LENGTH)})
add("BERT", "packed masked language model", model("BertForMaskedLM", "BertConfig", **WIDTHS), packed)

# Sequence to sequence.

T5 = {"vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0,
      "pad_token_id": PAD, "eos_token_id": EOS}
BART = {"vocab_size": VOCABULARY, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_position_embeddings": 64,
        "pad_token_id": PAD, "bos_token_id": 0, "eos_token_id": EOS, "decoder_start_token_id": EOS, "forced_eos_token_id": None}
add("T5", "translation", model("T5ForConditionalGeneration", "T5Config", **T5), pairs_of_sequences)
add("Flan-T5", "translation", model("T5ForConditionalGeneration", "T5Config", feed_forward_proj="gated-gelu", tie_word_embeddings=False, **T5),
    pairs_of_sequences)
add("mT5", "translation", model("MT5ForConditionalGeneration", "MT5Config", feed_forward_proj="gated-gelu", **T5), pairs_of_sequences)
add("BART", "summarisation", model("BartForConditionalGeneration", "BartConfig", **BART), pairs_of_sequences)
add("Pegasus", "summarisation", model("PegasusForConditionalGeneration", "PegasusConfig", **BART), pairs_of_sequences)
add("Marian", "translation", model("MarianMTModel", "MarianConfig", **BART), pairs_of_sequences)
add("mBART", "translation", model("MBartForConditionalGeneration", "MBartConfig", **BART), pairs_of_sequences)
add("T5", "question answering", model("T5ForQuestionAnswering", "T5Config", **T5), questions)
add("BART", "question answering", model("BartForQuestionAnswering", "BartConfig", **BART), questions)

# Images.

VIT = {"image_size": IMAGE, "patch_size": 8, "num_labels": LABELS} | {key: WIDTHS[key] for key in
      ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
add("ViT", "image classification", model("ViTForImageClassification", "ViTConfig", **VIT), images)
add("DeiT", "image classification", model("DeiTForImageClassification", "DeiTConfig", **VIT), images)
add("BEiT", "image classification", model("BeitForImageClassification", "BeitConfig", use_relative_position_bias=True, **VIT), images)
add("DINOv2", "image classification", model("Dinov2ForImageClassification", "Dinov2Config", **VIT), images)
add("Swin", "image classification",
    model("SwinForImageClassification", "SwinConfig", image_size=IMAGE, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
          window_size=4, num_labels=LABELS), images)
add("ConvNeXt", "image classification",
    model("ConvNextForImageClassification", "ConvNextConfig", num_stages=2, hidden_sizes=[32, 64], depths=[1, 1], num_labels=LABELS), images)
add("ResNet", "image classification",
    model("ResNetForImageClassification", "ResNetConfig", embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1], layer_type="basic",
          num_labels=LABELS), images, batch_norm=True)


# Text and images.

CLIP_TEXT = {key: WIDTHS[key] for key in WIDTHS}
CLIP_IMAGE = {key: VIT[key] for key in VIT if key != "num_labels"}


class WithLoss(nn.Module):
    """A module that needs a constant argument to compute its loss."""

    def __init__(self, module, **constants):
        super().__init__()
        self.module, self.constants = module, constants

    def forward(self, **inputs):
        return self.module(**inputs, **self.constants)


def clip():
    config = without_dropout(transformers.CLIPConfig(text_config=CLIP_TEXT, vision_config=CLIP_IMAGE, projection_dim=32))
    return WithLoss(transformers.CLIPModel(config), return_loss=True)


add("CLIP", "contrastive text and images", clip, lambda random: text(random) | {"pixel_values": images(random)["pixel_values"]})
add("CLIP", "image classification", model("CLIPForImageClassification", "CLIPConfig", text_config=CLIP_TEXT, vision_config=CLIP_IMAGE,
                                          num_labels=LABELS), images)

LXMERT = WIDTHS | {"l_layers": 2, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 16, "num_qa_labels": LABELS}


def regions(random):
    return text(random) | {"visual_feats": torch.randn(BATCH, 5, 16, generator=random), "visual_pos": torch.rand(BATCH, 5, 4, generator=random),
                           "labels": classes(random, LABELS, BATCH)}


add("LXMERT", "visual question answering", model("LxmertForQuestionAnswering", "LxmertConfig", **LXMERT), regions)

# Sound. Time and feature masks are off: the module would draw them with NumPy while torch.export traces it.

SOUND = {"vocab_size": 32, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
         "conv_dim": [32, 32, 32], "conv_stride": [5, 4, 4], "conv_kernel": [10, 4, 4], "num_feat_extract_layers": 3,
         "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "apply_spec_augment": False, "classifier_proj_size": 32,
         "ctc_zero_infinity": True, "pad_token_id": 0, "num_labels": LABELS}


def speech_recognition(prefix):
    def make():
        from ramet.transformers import SpeechRecognition
        return SpeechRecognition(model(prefix + "ForCTC", prefix + "Config", **SOUND)())

    return make


def speech(random):
    labels = torch.randint(1, 32, (BATCH, 6), generator=random)
    labels[1, 5:], labels[2, 4:] = -100, -100
    return {"input_values": torch.randn(BATCH, SAMPLES, generator=random), "labels": labels}


for name, prefix in (("Wav2Vec2", "Wav2Vec2"), ("HuBERT", "Hubert")):
    add(name, "audio classification", model(prefix + "ForSequenceClassification", prefix + "Config", **SOUND), sound)
    add(name, "speech recognition", speech_recognition(prefix), speech)

WHISPER = {"vocab_size": VOCABULARY, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_mel_bins": 16, "max_source_positions": 20,
           "max_target_positions": 32, "pad_token_id": PAD, "bos_token_id": 0, "eos_token_id": EOS, "decoder_start_token_id": 3,
           "num_labels": LABELS}
add("Whisper", "speech recognition", model("WhisperForConditionalGeneration", "WhisperConfig", **WHISPER),
    lambda random: {"input_features": torch.randn(BATCH, 16, 40, generator=random), "labels": pairs_of_sequences(random)["labels"]})
add("Whisper", "audio classification", model("WhisperForAudioClassification", "WhisperConfig", **WHISPER),
    lambda random: {"input_features": torch.randn(BATCH, 16, 40, generator=random), "labels": classes(random, LABELS, BATCH)})


# Embeddings of sentences.


def sentence_encoder(prefix, loss, **settings):
    def make():
        from ramet.transformers.sentences import SentencePairs
        return SentencePairs(model(prefix + "Model", prefix + "Config", **(WIDTHS | settings))(), loss=loss)

    return make


def pairs(random, scores):
    first, second = text(random), text(random)
    batch = first | {"other_" + name: value for name, value in second.items()}
    return batch | ({"scores": torch.rand(BATCH, generator=random)} if scores else {})


for name, prefix, settings in (("MPNet", "MPNet", {}), ("MiniLM", "Bert", ENCODERS["MiniLM"][1])):
    add(name, "sentence embeddings (contrastive)", sentence_encoder(prefix, "contrastive", **settings), lambda random: pairs(random, False))
    add(name, "sentence embeddings (cosine)", sentence_encoder(prefix, "cosine", **settings), lambda random: pairs(random, True))


# Diffusion.


class Denoising(nn.Module):
    """The mean squared error of the predicted noise."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, sample, timestep, encoder_hidden_states, noise):
        found = self.network(sample, timestep, encoder_hidden_states=encoder_hidden_states, return_dict=False)[0]
        return {"loss": functional.mse_loss(found, noise)}


def denoiser():
    import diffusers
    return Denoising(diffusers.UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, 64), cross_attention_dim=32,
        attention_head_dim=8, norm_num_groups=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")))


add("UNet2DCondition", "one denoising step", denoiser, lambda random: {
    "sample": torch.randn(BATCH, 4, 16, 16, generator=random), "timestep": classes(random, 1000, BATCH),
    "encoder_hidden_states": torch.randn(BATCH, 7, 32, generator=random), "noise": torch.randn(BATCH, 4, 16, 16, generator=random)})
