"""Optimizers that Ramet has and torch.optim lacks. They hold parameters and options only, so that learning-rate schedulers
of torch.optim.lr_scheduler work on them; the compiled program computes the update."""

import torch


class _Optimizer(torch.optim.Optimizer):
    def step(self, closure=None):
        raise NotImplementedError(f"{type(self).__name__} has no step() of its own: call what ramet.torch.training_model "
                                  "returned")


class LAMB(_Optimizer):
    """You et al., arXiv 1904.00962."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, bias_correction=True):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      bias_correction=bias_correction))


class LARS(_Optimizer):
    """You et al., arXiv 1708.03888."""

    def __init__(self, params, lr=0.1, momentum=0.9, weight_decay=0.0, trust_coefficient=1e-3):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay,
                                      trust_coefficient=trust_coefficient))


class Lion(_Optimizer):
    """Chen et al., arXiv 2302.06675."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))


class Adafactor(_Optimizer):
    """Shazeer and Stern, arXiv 1804.04235, as in transformers."""

    def __init__(self, params, lr=1e-3, weight_decay=0.0, clip_threshold=1.0, decay_rate=0.8, factored=True,
                 relative_step=False, scale_parameter=True, first_moment=False):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, clip_threshold=clip_threshold,
                                      decay_rate=decay_rate, factored=factored, relative_step=relative_step,
                                      scale_parameter=scale_parameter, first_moment=first_moment))
