"""Methods of transformers.Trainer that ramet.transformers.Trainer never calls: a subclass that defines one is refused."""

import transformers

from ramet.errors import Error

_OWN_LOOP = "call the step of ramet.torch.training_model in a loop of your own"
_LOSS = "pass compute_loss_func=, a function of (outputs, labels, num_items_in_batch), or return the loss from the module's forward"
_TRAIN_DATA = "pass train_dataset= and data_collator=; the arguments train_sampling_strategy and data_seed choose the order of samples"
_OTHER_DATA = "pass the data set to evaluate() or predict(), and data_collator= to Trainer"
_PREDICTION = "pass preprocess_logits_for_metrics= and compute_metrics=, or override predict()"
_OPTIMIZER = "override create_optimizer(), or pass optimizers=(optimizer, scheduler) or optimizer_cls_and_kwargs="
_BATCHES = "pass data_collator= that prepares the batch"
_PRECISION = "set bf16=True or fp16=True in TrainingArguments"
_CHECKPOINTS = "override save_model(), or pass a callback with on_save"

# What to do instead of overriding a method.
INSTEAD = {
    "compute_loss": _LOSS, "training_step": _OWN_LOOP, "_inner_training_loop": _OWN_LOOP, "_clip_grad_norm": "set max_grad_norm",
    "get_train_dataloader": _TRAIN_DATA, "_get_train_sampler": _TRAIN_DATA, "_get_dataloader": _TRAIN_DATA,
    "get_eval_dataloader": _OTHER_DATA, "get_test_dataloader": _OTHER_DATA, "_get_eval_sampler": _OTHER_DATA,
    "prediction_step": _PREDICTION, "evaluation_loop": _PREDICTION, "_evaluate": "override evaluate()",
    "create_optimizer_and_scheduler": "override create_optimizer() and create_scheduler()",
    "get_optimizer_cls_and_kwargs": _OPTIMIZER, "get_batch_samples": _BATCHES, "_prepare_inputs": _BATCHES, "_prepare_input": _BATCHES,
    "compute_loss_context_manager": _PRECISION, "autocast_smart_context_manager": _PRECISION,
    "_save": _CHECKPOINTS, "_save_optimizer_and_scheduler": _CHECKPOINTS, "_load_from_checkpoint": _CHECKPOINTS,
    "hyperparameter_search": "make a Trainer for each trial, with model_init= and the trial's TrainingArguments",
}
# Methods that transformers has for those who use a trainer; its loop needs none of them.
_FOR_CALLERS = {
    "log_metrics", "save_metrics", "metrics_format", "num_examples", "get_learning_rates", "get_num_trainable_parameters",
    "get_optimizer_group", "is_local_process_zero", "is_world_process_zero", "floating_point_ops", "create_model_card", "push_to_hub",
    "init_hf_repo",
}


def refuse_overrides(trainer, ours):
    """Refuses a trainer of a class that overrides what is never called. `ours`: the class Trainer of this package."""
    theirs = {name for each in (transformers.Trainer, transformers.Seq2SeqTrainer) for name in vars(each) if not name.startswith("__")}
    known = {name for each in type(trainer).__mro__ if each.__module__ == ours.__module__ for name in vars(each)}
    found = {name: each for each in reversed(type(trainer).__mro__) if each.__module__ != ours.__module__
             for name in vars(each) if name in theirs - known - _FOR_CALLERS}
    if found:
        raise Error("the trainer overrides methods of transformers.Trainer that the compiled step never calls", type(trainer).__name__,
                    ", ".join(f"{each.__name__}.{name}" for name, each in sorted(found.items())), "",
                    "; ".join(f"{'I' if i == 0 else 'i'}nstead of {name}, {INSTEAD.get(name, _OWN_LOOP)}" for i, name in enumerate(sorted(found))))
