"""CTC losses whose lengths are tensors.

torch.export asks PyTorch's operator for the size of a table that depends on the lengths, and fails. So the raw trace gets the
op `ramet::ctc_loss`, which has no table. When the trace is done, PyTorch's operator takes the op's place.
"""

import torch
from torch import Tensor
from torch.nn import functional


@torch.library.custom_op("ramet::ctc_loss", mutates_args=())
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, reduction: int,
             zero_infinity: bool) -> Tensor:
    return torch.ops.aten.ctc_loss.Tensor(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


@ctc_loss.register_fake
def _(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    samples = log_probs.shape[1:2] if log_probs.dim() == 3 else ()
    return log_probs.new_empty(() if reduction else samples)


def _of_function(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    return log_probs, targets, input_lengths, target_lengths, blank, functional._Reduction.get_enum(reduction), zero_infinity


def _of_operator(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    return log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity


# What gives the arguments of a call in the op's order.
CALLS = {functional.ctc_loss: _of_function, torch.ctc_loss: _of_operator}


def traced(function, arguments, keywords):
    """The result of a call whose lengths are tensors; None for other calls."""
    if function not in CALLS:
        return None
    given = CALLS[function](*arguments, **keywords)
    lengths = given[2:4]
    if not any(isinstance(each, Tensor) for each in lengths):
        return None
    tensors = [each if isinstance(each, Tensor) else torch.tensor(each) for each in lengths]
    return ctc_loss(*given[:2], *tensors, *given[4:])


def restore(exported):
    """PyTorch's operator in place of the op."""
    for module in exported.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.op == "call_function" and node.target is torch.ops.ramet.ctc_loss.default:
                node.target = torch.ops.aten.ctc_loss.Tensor
        module.recompile()
