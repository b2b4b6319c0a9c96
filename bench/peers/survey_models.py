"""Models of torchvision, timm and transformers, small: what bench/torch_survey.py imports.

Each entry is (module, args, kwargs). Modules give a dictionary with the one scalar "loss". Weights are random, dropout
is off, and where a family allows it there are two layers of a width of at most 256 and small images.
"""

import inspect
import re

import torch
from torch import nn

TORCHVISION = """alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t
mnasnet0_5 mobilenet_v2 mobilenet_v3_small resnet50 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_0 swin_t swin_v2_t
vgg11 vgg11_bn vit_b_16 wide_resnet50_2 fcn_resnet50 deeplabv3_resnet50 lraspp_mobilenet_v3_large r3d_18 mc3_18 s3d
swin3d_t""".split()

TIMM = """beit_base_patch16_224 halonet26t gernet_s cait_s24_224 coat_tiny convit_tiny convmixer_768_32 convnext_nano
cpubone_s0 crossvit_18_240 csatv2 cs3darknet_s cspnext_s davit_tiny deepseek_vit_412m deit_tiny_patch16_224 densenet121
dla34 dpn68 edgenext_small efficientformer_l1 efficientformerv2_s0 mixnet_s efficientvim_m1 efficientvit_b0
efficientvit_m0 eva02_tiny_patch14_224 fasternet_s fastvit_s12 focalnet_base_srf gcvit_tiny gemma4_vit_167m
ghostnet_050 hardcorenas_a hgnet_tiny hiera_tiny_224 hieradet_small hrnet_w18 iformer_s inception_next_tiny
inception_resnet_v2 inception_v3 inception_v4 lcnetv2_small levit_384_s8 lowformer_b0 mambaout_tiny maxvit_nano_rw_256
caformer_s18 gmlp_s16_224 lcnet_050 mobilenetv5_300m mobilevit_s mvitv2_tiny naflexvit_base_patch16_siglip nasnetalarge
nest_tiny nextvit_small nf_regnet_b0 pit_s_224 pnasnet5large pvt_v2_b0 qwen3_vit_88m rdnet_tiny regnety_040_sgn
repghostnet_050 repvit_m1 res2net50d resnest14d resnet18 resnetv2_18 rexnet_100 selecsls42 legacy_senet154
sequencer2d_s shvit_s1 skresnet18 starnet_s1 swiftformer_s swin_s3_base_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224
tiny_vit_5m_224 tnt_s_patch16_224 tresnet_l twins_svt_base vgg11 visformer_tiny flexivit_small vit_base_r26_s32_224
vit_relpos_small_patch16_224 samvit_base_patch16 vitamin_small_224 volo_d1_224 ese_vovnet19b_slim legacy_xception
xception41 xcit_nano_12_p8_224""".split()

TRANSFORMERS_TEXT = """Albert:ForMaskedLM Bart:ForConditionalGeneration Bert:ForMaskedLM Bloom:ForCausalLM
Camembert:ForMaskedLM CLIPText:Model CTRL:LMHeadModel Deberta:ForMaskedLM DebertaV2:ForMaskedLM DistilBert:ForMaskedLM
Electra:ForPreTraining Falcon:ForCausalLM FNet:ForMaskedLM Gemma:ForCausalLM Gemma2:ForCausalLM GPT2:LMHeadModel
GPTNeo:ForCausalLM GPTNeoX:ForCausalLM GPTJ:ForCausalLM Llama:ForCausalLM Mamba:ForCausalLM Marian:MTModel
MBart:ForConditionalGeneration Mistral:ForCausalLM Mixtral:ForCausalLM MobileBert:ForMaskedLM ModernBert:ForMaskedLM
MPNet:ForMaskedLM OPT:ForCausalLM Olmo2:ForCausalLM Pegasus:ForConditionalGeneration Phi:ForCausalLM Phi3:ForCausalLM
Qwen2:ForCausalLM Qwen3:ForCausalLM Roberta:ForMaskedLM RoFormer:ForMaskedLM SqueezeBert:ForMaskedLM
XLMRoberta:ForMaskedLM Rwkv:ForCausalLM BigBird:ForMaskedLM T5:ForConditionalGeneration""".split()

TRANSFORMERS_VISION = """ViT:ForImageClassification DeiT:ForImageClassification Beit:ForImageClassification
Swin:ForImageClassification ResNet:ForImageClassification RegNet:ForImageClassification
MobileViT:ForImageClassification MobileNetV2:ForImageClassification PoolFormer:ForImageClassification
Segformer:ForSemanticSegmentation Dinov2:ForImageClassification EfficientNet:ForImageClassification
Cvt:ForImageClassification Pvt:ForImageClassification""".split()

CLASSES = 10


def floats_of(value):
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in floats_of(item)]
    return []


class WithLoss(nn.Module):
    """A module that gives its loss: its own; or cross-entropies of [N, classes] or of pixels; or else weighted sums."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, labels, **inputs):
        out = self.module(*inputs.values()) if "x" in inputs else self.module(**inputs)
        if not isinstance(out, torch.Tensor) and getattr(out, "loss", None) is not None:
            return {"loss": out.loss}
        loss = 0
        for each in floats_of(out):
            if each.dim() == 2 and each.shape == (labels.shape[0], CLASSES):
                loss = loss + nn.functional.cross_entropy(each, labels)
            elif each.dim() == 4 and each.shape[1] == CLASSES:
                of_pixels = labels.reshape(-1, 1, 1).expand(each.shape[0], *each.shape[2:])
                loss = loss + nn.functional.cross_entropy(each, of_pixels)
            else:
                flat = each.flatten()
                loss = loss + (flat * torch.cos(torch.arange(flat.shape[0], dtype=flat.dtype))).sum()
        return {"loss": loss}


def without_dropout(module):
    for each in module.modules():
        for name, value in list(vars(each).items()):
            if isinstance(value, float) and ("drop" in name or (name == "p" and "Drop" in type(each).__name__)
                                             or (name == "p" and type(each).__name__ == "StochasticDepth")):
                setattr(each, name, 0.0)
    return module


def vision(module, shape):
    return (WithLoss(without_dropout(module)), (),
            {"labels": torch.arange(shape[0]) % CLASSES, "x": torch.randn(*shape)})


def torchvision_model(name):
    import torchvision.models as tv
    import torchvision.models.segmentation as segmentation
    import torchvision.models.video as video
    if hasattr(segmentation, name):
        module = getattr(segmentation, name)(weights=None, weights_backbone=None, num_classes=CLASSES)
        return vision(module, (2, 3, 64, 64))
    if hasattr(video, name) and name in ("r3d_18", "mc3_18", "s3d", "swin3d_t"):
        module = getattr(video, name)(num_classes=CLASSES)
        return vision(module, (1, 3, 16, 224, 224) if name == "s3d" else (2, 3, 8, 32, 32))
    size = {"inception_v3": 160, "vit_b_16": 32, "alexnet": 80, "googlenet": 96}.get(name, 64)
    more = {}
    if name == "inception_v3":
        more, size = {"init_weights": False, "aux_logits": False}, 160
    if name == "googlenet":
        more = {"init_weights": False, "aux_logits": False}
    if name == "maxvit_t":
        size = 224
    if name == "vit_b_16":
        module = tv.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128,
                                      num_classes=CLASSES)
    else:
        module = getattr(tv, name)(num_classes=CLASSES, **more)
    if name.startswith("vgg"):
        module.classifier = nn.Sequential(nn.Linear(25088, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, CLASSES))
    if name == "alexnet":
        module.classifier = nn.Sequential(nn.Dropout(), nn.Linear(9216, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    return vision(module, (2, 3, size, size))


# Options that make a family of timm smaller: the first set that the family takes is used.
TIMM_OPTIONS = {
    "beit_base_patch16_224": {"img_size": 64, "embed_dim": 64, "depth": 2, "num_heads": 4},
    "cait_s24_224": {"img_size": 64, "embed_dim": 64, "depth": 2, "num_heads": 4},
    "convmixer_768_32": {"dim": 64, "depth": 2},
    "convit_tiny": {"img_size": 64, "embed_dim": 64, "depth": 3, "num_heads": 4, "local_up_to_layer": 2},
    "deepseek_vit_412m": {"embed_dim": 64, "depth": 2, "num_heads": 4},
    "gemma4_vit_167m": {"embed_dim": 64, "depth": 2, "num_heads": 4},
    "qwen3_vit_88m": {"embed_dim": 64, "depth": 2, "num_heads": 4},
    "samvit_base_patch16": {"img_size": 64, "embed_dim": 64, "depth": 2, "num_heads": 4, "global_attn_indexes": [1],
                            "window_size": 3},
    "deit_tiny_patch16_224": {"img_size": 64, "depth": 2},
    "flexivit_small": {"img_size": 64, "embed_dim": 64, "depth": 2, "num_heads": 4},
    "vit_relpos_small_patch16_224": {"img_size": 64, "embed_dim": 64, "depth": 2, "num_heads": 4},
    "vit_base_r26_s32_224": {"img_size": 64, "embed_dim": 64, "depth": 2, "num_heads": 4},
    "eva02_tiny_patch14_224": {"img_size": 56, "depth": 2},
    "tnt_s_patch16_224": {"img_size": 64, "depth": 2},
    "gmlp_s16_224": {"img_size": 64, "num_blocks": 2, "embed_dim": 64},
    "naflexvit_base_patch16_siglip": {"embed_dim": 64, "depth": 2, "num_heads": 4},
    "swin_s3_base_224": {"img_size": 224, "embed_dim": 32, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 4, 8)},
    "swinv2_tiny_window8_256": {"img_size": 256, "embed_dim": 32, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 4, 8)},
    "swinv2_cr_tiny_224": {"img_size": 224, "embed_dim": 32, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 4, 8)},
    "twins_svt_base": {"img_size": 64, "embed_dims": (32, 64, 96, 128), "num_heads": (1, 2, 4, 4),
                       "depths": (1, 1, 2, 1)},
    "nasnetalarge": {"num_conv_filters": 1, "num_stem_features": 12},
    "tresnet_l": {"layers": (1, 1, 2, 1), "width_factor": 0.5},
    "legacy_senet154": {"layers": (1, 1, 1, 1)},
    "focalnet_base_srf": {"embed_dim": 32, "depths": (1, 1, 2, 1)},
    "crossvit_18_240": {"embed_dim": (32, 64), "depth": ((1, 2, 0), (1, 1, 0)), "num_heads": (4, 4)},
    "xcit_nano_12_p8_224": {"img_size": 64, "depth": 2},
    "pit_s_224": {"depths": (1, 1, 1)},
    "volo_d1_224": {"img_size": 64, "layers": (1, 1, 1, 1), "embed_dims": (32, 64, 64, 64), "num_heads": (2, 4, 4, 4)},
    "coat_tiny": {"img_size": 64},
    "mambaout_tiny": {"depths": (1, 1, 2, 1)},
    "inception_next_tiny": {"depths": (1, 1, 2, 1)},
    "caformer_s18": {"depths": (1, 1, 2, 1)},
    "hiera_tiny_224": {"img_size": 64},
    "mvitv2_tiny": {"img_size": 64},
    "visformer_tiny": {"img_size": 64},
    "levit_384_s8": {"img_size": 64},
}
# Of networks whose last norms would else see two elements a channel, which makes a step hang on rounding errors.
TIMM_SIZES = {"inception_v4": 160, "inception_v3": 160, "inception_resnet_v2": 128, "pnasnet5large": 96,
              "nasnetalarge": 96, "legacy_xception": 96, "efficientvim_m1": 128}


def timm_model(name):
    import timm
    options = TIMM_OPTIONS.get(name, {})
    tries = [options, {key: each for key, each in options.items() if key == "img_size"}, {}]
    if "img_size" not in options:
        tries.insert(0, {"img_size": 64, **options})
    failure = None
    for each in tries:
        try:
            module = timm.create_model(name, num_classes=CLASSES, **each)
        except (TypeError, AssertionError, ValueError, RuntimeError) as error:
            failure = error
            continue
        size = each.get("img_size")
        if size is None:
            config = module.default_cfg
            fixed = config.get("fixed_input_size", False)
            size = config["input_size"][-1] if fixed else TIMM_SIZES.get(name, 64)
        sizes = [size, module.default_cfg["input_size"][-1]]
        for size in sizes:
            try:
                with torch.no_grad():
                    without_dropout(module).train()(torch.randn(2, 3, size, size))
                return vision(module, (2, 3, size, size))
            except (AssertionError, ValueError, RuntimeError) as error:
                failure = error
    raise failure


SMALL = {
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "dim": 64, "embedding_size": 64, "embed_dim": 64,
    "intermediate_size": 128, "ffn_dim": 128, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "hidden_dim": 128,
    "n_inner": 128, "dff": 128, "d_ff": 128, "d_kv": 16, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "num_hidden_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_layers": 2, "num_decoder_layers": 2,
    "n_layer": 2, "n_layers": 2, "vocab_size": 256, "max_position_embeddings": 128, "n_positions": 128,
    "attention_hidden_size": 64, "rotary_dim": 8, "true_hidden_size": 32, "intra_bottleneck_size": 32,
    "word_embed_proj_dim": 64, "sliding_window": 16,
}
TEXT_OPTIONS = {
    "GPTNeo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "window_size": 16},
    "Albert": {"num_hidden_layers": 2, "embedding_size": 32},
    "Electra": {"embedding_size": 32},
    "MobileBert": {"embedding_size": 32, "true_hidden_size": 32, "intra_bottleneck_size": 32, "hidden_size": 64},
    "Mamba": {"hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "time_step_rank": 4, "intermediate_size": 128},
    "Rwkv": {"attention_hidden_size": 64},
    "Mixtral": {"num_local_experts": 4},
    "BigBird": {"attention_type": "original_full"},
    "SqueezeBert": {"embedding_size": 64},
    "Falcon": {"num_kv_heads": 4},
    "CLIPText": {"eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 1},
    "Phi3": {"pad_token_id": 0},
    "RoFormer": {"rotary_value": False, "embedding_size": 64},
}


def small_config(kind, options):
    plain = kind()
    settable = {key for key in SMALL if hasattr(plain, key)}
    settable -= {key for key in settable if isinstance(getattr(kind, key, None), property)}
    chosen = {key: SMALL[key] for key in settable}
    chosen.update(options)
    for key, value in vars(plain).items():
        if isinstance(value, float) and ("drop" in key or key == "layerdrop"):
            chosen[key] = 0.0
    chosen["pad_token_id"] = options.get("pad_token_id", 0)
    for key in ("bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id", "sep_token_id",
                "cls_token_id"):
        value = getattr(plain, key, None)
        if key not in options and isinstance(value, int) and value >= 256:
            chosen[key] = 2
    return chosen


def text_model(entry):
    import transformers
    name, suffix = entry.split(":")
    kind = getattr(transformers, name + "Config")
    chosen = small_config(kind, TEXT_OPTIONS.get(name, {}))
    config = kind(**chosen)
    for key in ("layerdrop", "encoder_layerdrop", "decoder_layerdrop"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    if name == "T5" or getattr(config, "decoder_start_token_id", 0) is None:
        config.decoder_start_token_id = 0
    config.use_cache = False
    module = getattr(transformers, {"Marian": "MarianMTModel", "CLIPText": "CLIPTextModel"}.get(name, name + suffix))
    module = without_dropout(module(config))
    ids = torch.randint(3, 250, (2, 32))
    inputs = {"input_ids": ids}
    parameters = inspect.signature(module.forward).parameters
    if "use_cache" in parameters:
        inputs["use_cache"] = False
    real = torch.ones_like(ids)
    real[1, 27:] = 0
    if "attention_mask" in parameters and name != "Electra":  # Electra picks the elements that a mask names
        inputs["attention_mask"] = real
    if name == "Electra":
        inputs["labels"] = (ids % 2)
    elif "labels" in parameters:
        inputs["labels"] = torch.where(real == 1, ids, -100)
    if "labels" in inputs:
        return TakesLabels(module), (), inputs
    return WithLoss(module), (), {"labels": torch.arange(2), **inputs}


class TakesLabels(nn.Module):
    """A model of transformers that gives its loss alone."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, **inputs):
        return {"loss": self.module(**inputs).loss}


VISION_OPTIONS = {
    "ViT": {"image_size": 32, "patch_size": 8}, "DeiT": {"image_size": 32, "patch_size": 8},
    "Beit": {"image_size": 32, "patch_size": 8},
    "Dinov2": {"image_size": 28, "patch_size": 14},
    "Swin": {"image_size": 56, "embed_dim": 32, "depths": [1, 2], "num_heads": [2, 4], "window_size": 7},
    "ResNet": {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 2], "image_size": 64},
    "RegNet": {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 2], "image_size": 64},
    "MobileViT": {"image_size": 64}, "MobileNetV2": {"image_size": 64},
    "EfficientNet": {"image_size": 64, "width_coefficient": 0.5, "depth_coefficient": 1.0, "hidden_dim": 640},
    "PoolFormer": {"hidden_sizes": [32, 32, 64, 64], "depths": [1, 1, 1, 1], "image_size": 64},
    "Segformer": {"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1], "decoder_hidden_size": 32, "image_size": 64},
    "Cvt": {"image_size": 64}, "Pvt": {"image_size": 64},
}


def vision_model_of_transformers(entry):
    import transformers
    name, suffix = entry.split(":")
    options = dict(VISION_OPTIONS[name])
    kind = getattr(transformers, name + "Config")
    plain = kind()
    if name in ("ViT", "DeiT", "Beit", "Dinov2"):
        options.update(hidden_size=64, intermediate_size=128, num_attention_heads=4, num_hidden_layers=2)
    for key, value in vars(plain).items():
        if isinstance(value, float) and "drop" in key:
            options[key] = 0.0
        if isinstance(value, list) and "drop" in key:
            options[key] = [0.0] * len(value)
    size = options["image_size"]
    if not hasattr(plain, "image_size"):
        options.pop("image_size")
    config = kind(num_labels=CLASSES, **options)
    module = without_dropout(getattr(transformers, name + suffix)(config))
    labels = torch.arange(2) if suffix == "ForImageClassification" else torch.randint(0, CLASSES, (2, size, size))
    return TakesLabels(module), (), {"pixel_values": torch.randn(2, 3, size, size), "labels": labels}


def models():
    """Names of all models, with the function that makes each."""
    made = {f"torchvision/{name}": lambda name=name: torchvision_model(name) for name in TORCHVISION}
    made.update({f"timm/{name}": lambda name=name: timm_model(name) for name in TIMM})
    for entry in TRANSFORMERS_TEXT:
        made["transformers/" + entry.split(":")[0]] = lambda entry=entry: text_model(entry)
    for entry in TRANSFORMERS_VISION:
        made["transformers/" + entry.split(":")[0]] = lambda entry=entry: vision_model_of_transformers(entry)
    return made


def matching(patterns):
    everything = models()
    return {name: make for name, make in everything.items()
            if not patterns or any(re.search(pattern, name) for pattern in patterns)}
