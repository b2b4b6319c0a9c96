"""How a peer in PyTorch begins, and what it tells of itself: the memory that it takes, and which kernel computed its attention."""

import os
import resource

import torch

# What scaled_dot_product_attention calls. On a CPU it takes the fused kernel where it can, and never with dropout.
ATTENTION = {
    "aten::_scaled_dot_product_flash_attention": "fused (flash)",
    "aten::_scaled_dot_product_cudnn_attention": "fused (cuDNN)",
    "aten::_scaled_dot_product_efficient_attention": "fused (memory-efficient)",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "fused (flash)",
    "aten::_scaled_dot_product_attention_math": "unfused (math)",
}


def begin(parser):
    """The arguments; PyTorch has their threads and their seed then."""
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    return args


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


imported_bytes = resident_bytes()


def all_is_imported():
    """Call it when libraries were imported after this module, and before there is a model."""
    global imported_bytes
    imported_bytes = resident_bytes()


def memory():
    """The largest resident size of the process so far, and the interpreter's and the libraries' share of it: what was
    there when everything was imported."""
    return {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "imported_bytes": imported_bytes}


def card_memory():
    """The most that tensors took of the card's memory at once (the allocator keeps more: `reserved_bytes`)."""
    return {"peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(), "imported_bytes": 0}


def wait_for(device):
    """Until the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def attention_path(call):
    """The attention kernel that `call` runs, as the profiler saw it. A compiled model that takes the unfused path has no
    call of it left: its products and its softmax are part of generated code. Call it last: it takes time and memory."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    ran = {event.key for event in profile.key_averages()}
    return " and ".join(path for name, path in ATTENTION.items() if name in ran) or "unfused, in generated code"
