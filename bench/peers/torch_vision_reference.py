"""Prints the numbers that tests/model/vision_test.cc compares with: loss, sums of gradients and running statistics of
narrow networks for images, in double precision, on made weights and images.

    python bench/peers/torch_vision_reference.py
"""

import torch
from torch.nn import functional

from torch_vision import Images, make

CASES = {
    "resnet": dict(blocks=(1, 1, 1, 1), width=4, small_stem=True, channels=1, classes=7),
    "resnet large stem": dict(blocks=(1, 1, 1, 1), width=4, bottleneck=True, channels=3, classes=7),
    "vit": dict(layers=2, width=8, head_size=4, patch=4, size=12, channels=3, classes=7),
    "convnext": dict(blocks=(1, 1, 1, 1), width=4, small_stem=True, channels=3, classes=7),
    "efficientnet": dict(blocks=(1, 1, 1, 1, 1, 1, 1), width=8, channels=3, classes=7, head_dropout=0.0),
    "unet": dict(levels=2, width=4, channels=3, classes=5),
}
SIZES = {"vit": (12, 12), "unet": (14, 12), "resnet large stem": (34, 30), "efficientnet": (34, 30)}


def made(name, count):
    """Numbers in [-0.5, 0.5), by the name and the place alone: FNV-1a of the name, then a multiplicative hash."""
    start = 2166136261
    for letter in name.encode():
        start = (start ^ letter) * 16777619 % 2**32
    mixed = (torch.arange(count, dtype=torch.int64) + start) * 2654435761 % 2**32
    mixed = (mixed ^ (mixed >> 15)) * 2246822519 % 2**32
    return (mixed ^ (mixed >> 13)).double() / 2**32 - 0.5


def main():
    torch.set_default_dtype(torch.float64)
    for name, sizes in CASES.items():
        network = make(name.split()[0], **sizes)
        height, width = SIZES.get(name, (9, 10))
        with torch.no_grad():
            for weight_name, weight in network.named_parameters():
                fan = max(1, weight.numel() // max(weight.shape[0], 1))
                values = made(weight_name, weight.numel()).view(weight.shape)
                weight.copy_(values * (3 / fan) ** 0.5 * 2 if weight.dim() > 1 else values * 0.4 + (0.8 if not weight_name.endswith("bias") else 0))
        channels, classes, batch = sizes["channels"], sizes["classes"], 3
        pixels = ((made("images", batch * channels * height * width) + 0.5) * 256).floor().view(batch, channels, height, width)
        shape = (batch, height, width) if name == "unet" else (batch,)
        count = batch * (height * width if name == "unet" else 1)
        labels = ((made("labels", count) + 0.5) * classes).floor().long().view(shape)
        loss = functional.cross_entropy(network(Images([0.4], [0.3]).double()(pixels).double()), labels)
        loss.backward()
        print(f'{{"{name}", {loss.item():.9g}, {{', end="")
        chosen = list(network.named_parameters())
        for weight_name, weight in chosen[:: max(1, len(chosen) // 7)]:
            gradient = weight.grad.flatten()
            along = (gradient * made("grad." + weight_name, gradient.numel())).sum().item()
            print(f'{{"{weight_name}", {along:.9g}}}, ', end="")
        print("}, {", end="")
        buffers = [(n, b) for n, b in network.named_buffers() if n.endswith(("mean", "var"))]
        for buffer_name, buffer in buffers[:: max(1, len(buffers) // 3)]:
            print(f'{{"{buffer_name}", {(buffer * made("of." + buffer_name, buffer.numel())).sum().item():.9g}}}, ', end="")
        network.eval()
        after = functional.cross_entropy(network(Images([0.4], [0.3]).double()(pixels).double()), labels)
        print(f"}}, {after.item():.9g}}},")


if __name__ == "__main__":
    main()
