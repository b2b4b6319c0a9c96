"""Small models of many families, as torchvision, transformers and PyTorch define them, with random weights and batches of
random numbers. Each entry of MODELS makes (module, function from (samples, generator) to a batch, loss)."""

import torch
from torch import nn

CLASSES, IMAGE, WORDS, LENGTH = 10, 32, 97, 16


def images(size=IMAGE, name="x", channels=3):
    def make(samples, generator):
        return {name: torch.randn(samples, channels, size, size, generator=generator),
                "labels": torch.randint(0, CLASSES, (samples,), generator=generator)}
    return make


def words(length=LENGTH, labels=True, first=3, **more):
    def make(samples, generator):
        ids = torch.randint(first, WORDS, (samples, length), generator=generator)
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if labels:
            batch["labels"] = ids.clone()
        return batch | more
    return make


class Classifier(nn.Module):
    """A network of images to logits, with the cross-entropy."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, labels):
        logits = self.network(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def vision(make, size=IMAGE):
    return lambda: (Classifier(make()), images(size), "loss")


def torchvision_model(name, size=64, **options):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None, num_classes=CLASSES, **options)
    return vision(make, size)


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], num_classes=CLASSES, stochastic_depth_prob=0.0)


def vit():
    from torchvision.models import VisionTransformer
    return VisionTransformer(image_size=IMAGE, patch_size=8, num_layers=3, num_heads=4, hidden_dim=32, mlp_dim=64,
                             num_classes=CLASSES)


def swin():
    from torchvision.models import SwinTransformer
    return SwinTransformer(patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4],
                           num_classes=CLASSES, stochastic_depth_prob=0.0)


def densenet():
    from torchvision.models import DenseNet
    return DenseNet(growth_rate=8, block_config=(2, 3, 2), num_init_features=16, num_classes=CLASSES)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.Tanh(),
                         nn.Linear(64, CLASSES))


class Recurrent(nn.Module):
    """Words to a class, by the last state of a recurrent network."""

    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 24)
        self.network = kind(24, 32, num_layers=2, batch_first=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, input_ids, labels):
        out, _ = self.network(self.embed(input_ids))
        logits = self.head(out[:, -1])
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def recurrent(kind):
    def batch(samples, generator):
        return {"input_ids": torch.randint(0, WORDS, (samples, LENGTH), generator=generator),
                "labels": torch.randint(0, CLASSES, (samples,), generator=generator)}
    return lambda: (Recurrent(kind), batch, "loss")


def transformer(model, config, make_batch=None, loss="loss", **options):
    """A model of transformers by the names of its class and of its configuration's class."""
    def make():
        import transformers
        made = getattr(transformers, model)(getattr(transformers, config)(**options))
        return made, make_batch or words(), loss
    return make


SMALL = dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
DECODER = SMALL | dict(max_position_embeddings=64, use_cache=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
ENCODER_DECODER = dict(vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                       decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, use_cache=False, pad_token_id=0,
                       bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, layerdrop=0.0, encoder_layerdrop=0.0,
                       decoder_layerdrop=0.0)


def whisper_batch(samples, generator):
    return {"input_features": torch.randn(samples, 20, 32, generator=generator),
            "labels": torch.randint(3, WORDS, (samples, 8), generator=generator)}


def speech_batch(samples, generator):
    return {"input_values": torch.randn(samples, 800, generator=generator),
            "labels": torch.randint(0, CLASSES, (samples,), generator=generator)}


def clip_batch(samples, generator):
    ids = torch.randint(3, WORDS, (samples, 8), generator=generator)
    ids[:, -1] = 2
    return {"input_ids": ids, "pixel_values": torch.randn(samples, 3, IMAGE, IMAGE, generator=generator),
            "return_loss": True}


def labelled(make, classes=CLASSES):
    def batch(samples, generator):
        made = make(samples, generator)
        made["labels"] = torch.randint(0, classes, (samples,), generator=generator)
        return made
    return batch


def pixels(samples, generator):
    return images(name="pixel_values")(samples, generator)


def clip():
    import transformers
    text = dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                max_position_embeddings=16, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    image = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=IMAGE,
                 patch_size=8)
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=16)), \
        clip_batch, "loss"


def beit():
    import transformers
    return transformers.BeitForImageClassification(transformers.BeitConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=IMAGE, patch_size=8,
        use_relative_position_bias=True, num_labels=CLASSES)), pixels, "loss"


def bloom():
    import transformers
    module = transformers.BloomForCausalLM(transformers.BloomConfig(
        vocab_size=WORDS, hidden_size=32, n_layer=2, n_head=4, use_cache=False, bos_token_id=1, eos_token_id=2, pad_token_id=0))
    for block in module.transformer.h:  # BLOOM has a gradient of its own for the same function
        block.mlp.gelu_impl = nn.GELU(approximate="tanh")
    return module, words(), "loss"


class Denoiser(nn.Module):
    """Predicts the noise of an image at a step of a diffusion, given some text."""

    def __init__(self):
        super().__init__()
        import diffusers
        self.network = diffusers.UNet2DConditionModel(
            sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32),
            cross_attention_dim=16, attention_head_dim=8, norm_num_groups=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))

    def forward(self, sample, timestep, text, noise):
        found = self.network(sample, timestep, encoder_hidden_states=text, return_dict=False)[0]
        return {"loss": nn.functional.mse_loss(found, noise)}


def noisy_images(samples, generator):
    return {"sample": torch.randn(samples, 4, 16, 16, generator=generator),
            "timestep": torch.randint(0, 1000, (samples,), generator=generator),
            "text": torch.randn(samples, 6, 16, generator=generator),
            "noise": torch.randn(samples, 4, 16, 16, generator=generator)}


SPEECH = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16, 16),
              conv_kernel=(10, 3, 3), conv_stride=(5, 2, 2), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
              apply_spec_augment=False, layerdrop=0.0, num_labels=CLASSES, classifier_proj_size=16)

MODELS = {
    "mlp": vision(mlp, 8),
    "resnet": transformer("ResNetForImageClassification", "ResNetConfig", pixels, embedding_size=16, hidden_sizes=[32, 64],
                          depths=[1, 1], layer_type="basic", num_labels=CLASSES),
    "regnet": transformer("RegNetForImageClassification", "RegNetConfig", pixels, embedding_size=16, hidden_sizes=[32, 64],
                          depths=[1, 1], groups_width=16, num_labels=CLASSES),
    "mobilenet_v3_small": torchvision_model("mobilenet_v3_small"),
    "densenet": vision(densenet),
    "convnext": vision(convnext),
    "vit": vision(vit),
    "swin": vision(swin),
    "lstm": recurrent(nn.LSTM),
    "gru": recurrent(nn.GRU),
    "bert": transformer("BertForMaskedLM", "BertConfig", **SMALL, max_position_embeddings=64),
    "roberta": transformer("RobertaForMaskedLM", "RobertaConfig", **SMALL, max_position_embeddings=64),
    "albert": transformer("AlbertForMaskedLM", "AlbertConfig", **SMALL, embedding_size=16, max_position_embeddings=64),
    "deberta": transformer("DebertaForMaskedLM", "DebertaConfig", **SMALL, max_position_embeddings=64,
                           relative_attention=True, pos_att_type=["c2p", "p2c"]),
    "electra": transformer("ElectraForSequenceClassification", "ElectraConfig", labelled(words()), **SMALL,
                           embedding_size=16, max_position_embeddings=64, num_labels=CLASSES),
    "distilbert": transformer("DistilBertForSequenceClassification", "DistilBertConfig", labelled(words()),
                              vocab_size=WORDS, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64,
                              num_labels=CLASSES),
    "gpt2": transformer("GPT2LMHeadModel", "GPT2Config", vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                        use_cache=False, bos_token_id=1, eos_token_id=2),
    "llama": transformer("LlamaForCausalLM", "LlamaConfig", **DECODER, num_key_value_heads=2),
    "qwen2": transformer("Qwen2ForCausalLM", "Qwen2Config", **DECODER, num_key_value_heads=2),
    "mistral": transformer("MistralForCausalLM", "MistralConfig", **DECODER, num_key_value_heads=2, sliding_window=8),
    "gpt_neox": transformer("GPTNeoXForCausalLM", "GPTNeoXConfig", **DECODER),
    "gptj": transformer("GPTJForCausalLM", "GPTJConfig", vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                        rotary_dim=4, use_cache=False, bos_token_id=1, eos_token_id=2),
    "bloom": bloom,
    "opt": transformer("OPTForCausalLM", "OPTConfig", vocab_size=WORDS, hidden_size=32, num_hidden_layers=2,
                       num_attention_heads=4, ffn_dim=64, max_position_embeddings=64, word_embed_proj_dim=32,
                       use_cache=False, bos_token_id=1, eos_token_id=2, pad_token_id=0),
    "t5": transformer("T5ForConditionalGeneration", "T5Config", words(), vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64,
                      num_layers=2, num_decoder_layers=2, num_heads=4, use_cache=False, decoder_start_token_id=0,
                      pad_token_id=0),
    "bart": transformer("BartForConditionalGeneration", "BartConfig", **ENCODER_DECODER, max_position_embeddings=64),
    "whisper": transformer("WhisperForConditionalGeneration", "WhisperConfig", whisper_batch, **ENCODER_DECODER,
                           num_mel_bins=20, max_source_positions=16, max_target_positions=16, apply_spec_augment=False),
    "wav2vec2": transformer("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", speech_batch, **SPEECH),
    "hubert": transformer("HubertForSequenceClassification", "HubertConfig", speech_batch, **SPEECH),
    "vit_of_transformers": transformer("ViTForImageClassification", "ViTConfig", pixels, hidden_size=32, num_hidden_layers=2,
                          num_attention_heads=4, intermediate_size=64, image_size=IMAGE, patch_size=8, num_labels=CLASSES),
    "beit": beit,
    "clip": clip,
    "unet": lambda: (Denoiser(), noisy_images, "loss"),
}


# Modules without a list of layers: where a pipeline may cut them.
PARTS = {"mlp": ["network.1", "network.4", "network.6"], "lstm": ["embed", "network", "head"], "gru": ["embed", "network", "head"],
         "mobilenet_v3_small": [f"network.features.{i}" for i in range(13)]}


def without_dropout(module):
    """Sets every rate of dropout and stochastic depth to 0."""
    for each in module.modules():
        for name, value in list(vars(each).items()):
            if isinstance(value, float) and ("dropout" in name or "drop_path" in name or "layerdrop" in name):
                setattr(each, name, 0.0)
        if isinstance(each, nn.modules.dropout._DropoutNd) or type(each).__name__ == "StochasticDepth":
            each.p = 0.0
    config = getattr(module, "config", None)
    for part in [config] + [getattr(config, name, None) for name in ("text_config", "vision_config")]:
        for name, value in list(vars(part).items()) if part is not None else []:
            if isinstance(value, float) and ("drop" in name or "pdrop" in name):
                setattr(part, name, 0.0)
    return module


def make(name, seed=1):
    """(module in training mode without dropout, function to batches, loss) of an entry."""
    torch.manual_seed(seed)
    module, batch, loss = MODELS[name]()
    return without_dropout(module).train(), batch, loss


def has_batch_norm(module):
    return any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in module.modules())
