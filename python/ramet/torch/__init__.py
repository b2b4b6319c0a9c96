"""Training and prediction of PyTorch modules with Ramet: docs/pytorch.md.

    step = ramet.torch.training_model(module, optimizer, example=batch)
    for batch in loader:
        result = step(**batch)
    step.copy_to(module)
"""

from ramet.torch import optim
from ramet.torch._inference import InferenceModel, inference_model
from ramet.torch._options import Options
from ramet.torch._report import Report, supported
from ramet.torch._save import save
from ramet.torch._training import Evaluation, StepResult, TrainingModel, training_model

__all__ = ["Evaluation", "InferenceModel", "Options", "Report", "StepResult", "TrainingModel", "inference_model", "optim",
           "save", "supported", "training_model"]
