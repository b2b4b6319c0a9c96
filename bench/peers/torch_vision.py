"""Networks for images as Ramet has them (src/ramet/model/vision.h), with the same names of weights, in plain PyTorch.

They take bytes [B,C,H,W], and normalise them as the recipe says. `make(kind, **sizes)` builds one.
"""

import math

import torch
from torch import nn
from torch.nn import functional


class Images(nn.Module):
    """Bytes to numbers: (pixel / 255 - mean) / deviation."""

    def __init__(self, mean, deviation):
        super().__init__()
        self.mean, self.deviation = mean, deviation

    def forward(self, images):
        shape = (1, -1, 1, 1)
        mean = torch.tensor(self.mean).view(shape)
        return (images.float() / 255 - mean) / torch.tensor(self.deviation).view(shape)


def drop_path(branch, rate, training):
    """Leaves a branch out for some samples (Huang et al., arXiv 1603.09382)."""
    if rate == 0 or not training:
        return branch
    kept = torch.empty((branch.shape[0],) + (1,) * (branch.dim() - 1)).bernoulli_(1 - rate) / (1 - rate)
    return branch * kept


def rates(drop, blocks):
    count = sum(blocks)
    return [drop * i / max(1, count - 1) for i in range(count)]


def conv(inputs, outputs, taps, stride=1, pad=None, groups=1, bias=False):
    layer = nn.Conv2d(inputs, outputs, taps, stride, (taps - 1) // 2 if pad is None else pad, groups=groups, bias=bias)
    nn.init.normal_(layer.weight, std=math.sqrt(2 / (outputs * taps * taps / groups)))
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class Downsample(nn.Sequential):
    def __init__(self, inputs, outputs, stride):
        super().__init__(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class ResNetBlock(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck, drop):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            self.conv1, self.bn1 = conv(inputs, width, 1), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = conv(width, outputs, 1), nn.BatchNorm2d(outputs)
        else:
            self.conv1, self.bn1 = conv(inputs, width, 3, stride), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = conv(width, outputs, 3), nn.BatchNorm2d(outputs)
        self.bottleneck, self.drop = bottleneck, drop
        if stride != 1 or inputs != outputs:
            self.downsample = Downsample(inputs, outputs, stride)
        else:
            self.downsample = None

    def forward(self, x):
        branch = functional.relu(self.bn1(self.conv1(x)))
        branch = self.bn2(self.conv2(branch))
        if self.bottleneck:
            branch = self.bn3(self.conv3(functional.relu(branch)))
        kept = x if self.downsample is None else self.downsample(x)
        return functional.relu(kept + drop_path(branch, self.drop, self.training))


class ResNet(nn.Module):
    def __init__(self, blocks=(2, 2, 2, 2), width=64, bottleneck=False, small_stem=False, channels=3, classes=1000, drop=0.0,
                 head_dropout=0.0):
        super().__init__()
        self.small_stem, self.head_dropout = small_stem, head_dropout
        self.conv1 = conv(channels, width, 3) if small_stem else conv(channels, width, 7, 2)
        self.bn1 = nn.BatchNorm2d(width)
        inputs, rate = width, iter(rates(drop, blocks))
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(ResNetBlock(inputs, width << stage, 2 if stage > 0 and i == 0 else 1, bottleneck, next(rate)))
                inputs = (width << stage) * (4 if bottleneck else 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.stages = len(blocks)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)))
        if not self.small_stem:
            x = functional.max_pool2d(x, 3, 2, 1)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(functional.dropout(x.mean((2, 3)), self.head_dropout, self.training))


class Named(nn.Module):
    """Layers by name, without a forward pass of its own."""

    def __init__(self, **layers):
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)


class VitBlock(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = Named(qkv=nn.Linear(width, 3 * width), proj=nn.Linear(width, width))
        self.mlp = Named(fc1=nn.Linear(width, 4 * width), fc2=nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.attn.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]).transpose(1, 2).reshape(batch, length, width)
        x = x + drop_path(self.attn.proj(mixed), self.drop, self.training)
        hidden = functional.gelu(self.mlp.fc1(self.norm2(x)))
        return x + drop_path(self.mlp.fc2(hidden), self.drop, self.training)


class Vit(nn.Module):
    def __init__(self, layers=12, width=192, head_size=64, patch=16, size=224, channels=3, classes=1000, drop=0.0, head_dropout=0.0):
        super().__init__()
        self.head_dropout = head_dropout
        self.patch_embed = Named(proj=conv(channels, width, patch, patch, 0, bias=True))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(VitBlock(width, width // head_size, rate) for rate in rates(drop, [layers]))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)
        for name, value in self.named_parameters():
            if value.dim() > 1:
                nn.init.normal_(value, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(value)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1).to(x.dtype), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(functional.dropout(self.norm(x)[:, 0], self.head_dropout, self.training))


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.drop = drop
        self.conv_dw = conv(width, width, 7, groups=width, bias=True)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Named(fc1=nn.Linear(width, 4 * width), fc2=nn.Linear(4 * width, width))
        self.gamma = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        branch = self.norm(self.conv_dw(x).permute(0, 2, 3, 1))
        branch = self.mlp.fc2(functional.gelu(self.mlp.fc1(branch))) * self.gamma
        return x + drop_path(branch.permute(0, 3, 1, 2), self.drop, self.training)


class ConvNext(nn.Module):
    def __init__(self, blocks=(3, 3, 9, 3), width=96, small_stem=False, channels=3, classes=1000, drop=0.0, head_dropout=0.0):
        super().__init__()
        self.head_dropout = head_dropout
        side = 1 if small_stem else 4
        self.stem = nn.Sequential(conv(channels, width, side, side, 0, bias=True), ChannelNorm(width, eps=1e-6))
        rate, stages = iter(rates(drop, blocks)), []
        for stage, count in enumerate(blocks):
            parts = {"blocks": nn.Sequential(*(ConvNextBlock(width << stage, next(rate)) for _ in range(count)))}
            if stage > 0:
                parts["downsample"] = nn.Sequential(ChannelNorm(width << (stage - 1), eps=1e-6),
                                                    conv(width << (stage - 1), width << stage, 2, 2, 0, bias=True))
            stages.append(Named(**parts))
        self.stages = nn.ModuleList(stages)
        last = width << (len(blocks) - 1)
        self.head = Named(norm=nn.LayerNorm(last, eps=1e-6), fc=nn.Linear(last, classes))
        for name, value in self.named_parameters():
            if value.dim() > 1:
                nn.init.normal_(value, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(value)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage.blocks(stage.downsample(x) if hasattr(stage, "downsample") else x)
        return self.head.fc(functional.dropout(self.head.norm(x.mean((2, 3))), self.head_dropout, self.training))


def channels_at(channels, width):
    exact = channels * width / 32
    rounded = max(8, int(exact + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * exact else rounded


def conv_norm_silu(inputs, outputs, taps, stride=1, groups=1):
    return nn.Sequential(conv(inputs, outputs, taps, stride, groups=groups), nn.BatchNorm2d(outputs), nn.SiLU())


class Squeeze(nn.Module):
    def __init__(self, channels, narrow):
        super().__init__()
        self.fc1, self.fc2 = conv(channels, narrow, 1, bias=True), conv(narrow, channels, 1, bias=True)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(functional.silu(self.fc1(x.mean((2, 3), keepdim=True)))))


class EfficientNetBlock(nn.Module):
    def __init__(self, inputs, outputs, expansion, taps, stride, drop):
        super().__init__()
        wide = inputs * expansion
        layers = [conv_norm_silu(inputs, wide, 1)] if expansion > 1 else []
        layers += [conv_norm_silu(wide, wide, taps, stride, groups=wide), Squeeze(wide, max(1, inputs // 4)),
                   nn.Sequential(conv(wide, outputs, 1), nn.BatchNorm2d(outputs))]
        self.block, self.drop, self.kept = nn.Sequential(*layers), drop, stride == 1 and inputs == outputs

    def forward(self, x):
        branch = self.block(x)
        return x + drop_path(branch, self.drop, self.training) if self.kept else branch


class EfficientNet(nn.Module):
    STAGES = [(1, 3, 1, 16), (6, 3, 2, 24), (6, 5, 2, 40), (6, 3, 2, 80), (6, 5, 1, 112), (6, 5, 2, 192), (6, 3, 1, 320)]

    def __init__(self, blocks=(1, 2, 2, 3, 3, 4, 1), width=32, small_stem=False, channels=3, classes=1000, drop=0.0, head_dropout=0.2):
        super().__init__()
        inputs = channels_at(32, width)
        features, rate = [conv_norm_silu(channels, inputs, 3, 1 if small_stem else 2)], iter(rates(drop, blocks))
        for (expansion, taps, stride, outputs), count in zip(self.STAGES, blocks):
            layers = []
            for i in range(count):
                layers.append(EfficientNetBlock(inputs, channels_at(outputs, width), expansion, taps, stride if i == 0 else 1, next(rate)))
                inputs = channels_at(outputs, width)
            features.append(nn.Sequential(*layers))
        features.append(conv_norm_silu(inputs, 4 * inputs, 1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(head_dropout), nn.Linear(4 * inputs, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.double_conv = nn.Sequential(conv(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(),
                                         conv(outputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(inputs, outputs))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(inputs, outputs, 2, 2), DoubleConv(2 * outputs, outputs)

    def forward(self, x, skip):
        x = self.up(x)
        rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
        x = functional.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([skip, x], 1))


class UNet(nn.Module):
    def __init__(self, levels=4, width=64, channels=3, classes=4):
        super().__init__()
        self.levels, self.inc = levels, DoubleConv(channels, width)
        for level in range(1, levels + 1):
            self.add_module(f"down{level}", Down(width << (level - 1), width << level))
        for level in range(1, levels + 1):
            self.add_module(f"up{level}", Up(width << (levels - level + 1), width << (levels - level)))
        self.outc = Named(conv=conv(width, classes, 1, bias=True))

    def forward(self, x):
        x, skips = self.inc(x), []
        for level in range(1, self.levels + 1):
            skips.append(x)
            x = getattr(self, f"down{level}")(x)
        for level in range(1, self.levels + 1):
            x = getattr(self, f"up{level}")(x, skips.pop())
        return self.outc.conv(x)


NETWORKS = {"resnet": ResNet, "vit": Vit, "convnext": ConvNext, "efficientnet": EfficientNet, "unet": UNet}

# Sizes of presets, as examples and benchmarks name them.
PRESETS = {
    "resnet-18": ("resnet", {}), "resnet-50": ("resnet", {"blocks": (3, 4, 6, 3), "bottleneck": True}),
    "vit-tiny": ("vit", {}), "vit-base": ("vit", {"width": 768}),
    "convnext-tiny": ("convnext", {}), "efficientnet-b0": ("efficientnet", {}), "unet-base": ("unet", {}),
}


def make(kind, **sizes):
    return NETWORKS[kind](**sizes)


def decay_groups(network, weight_decay):
    """Matrices and filters decay; norms and biases do not."""
    weights = list(network.parameters())
    return [{"params": [w for w in weights if w.dim() > 1], "weight_decay": weight_decay},
            {"params": [w for w in weights if w.dim() <= 1], "weight_decay": 0.0}]
