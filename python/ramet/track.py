"""Logs runs that Ramet does not train itself, for `ramet runs` and its page.

    import ramet.track
    ramet.track.init("baseline", config={"rate": 1e-3})
    for step in range(100):
        ramet.track.log({"loss": loss}, step=step)
    ramet.track.finish()

`LightningLogger` and `TransformersCallback` do so for trainings of Lightning and of transformers.
"""
import atexit
import numbers as _numbers
import threading

from ramet._ramet import Run
from ramet.errors import Error

__all__ = ["LightningLogger", "Run", "TransformersCallback", "finish", "init", "log", "run"]

_lock = threading.Lock()
_current = None
_next_step = 0


def init(name="run", *, folder="runs", group="", note="", tags=(), config=None):
    """Begins the run of this process, and returns it. A run that is open ends."""
    global _current, _next_step
    finish()
    with _lock:
        _current = Run(name, folder=folder, group=group, note=note, tags=list(tags), config=flat(config or {}))
        _next_step = 0
        return _current


def run():
    """The run that `init` began. Raises Error when there is none."""
    if _current is None:
        raise Error("there is no run", where="ramet.track", remedy="Call ramet.track.init() first")
    return _current


def log(values, step=None):
    """Logs numbers by name; texts too. Without `step`, steps count from 0. Names of nested dictionaries are joined by /."""
    global _next_step
    with _lock:
        now = run()
        step = _next_step if step is None else int(step)
        _next_step = max(_next_step, step + 1)
    log_to(now, values, step)


def finish(error=""):
    """Ends the run: as done, or with an error as failed."""
    global _current
    with _lock:
        ended, _current = _current, None
    if ended is not None:
        ended.finish(error)


atexit.register(finish)


def flat(values, prefix=""):
    """A nested dictionary as one, with names joined by /."""
    made = {}
    for name, value in values.items():
        if isinstance(value, dict):
            made.update(flat(value, f"{prefix}{name}/"))
        else:
            made[f"{prefix}{name}"] = value
    return made


def log_to(run, values, step):
    """Logs the numbers and the texts among values; everything else is left out."""
    found = {}
    for name, value in flat(values).items():
        if isinstance(value, str):
            run.log_text(step, name, value)
        elif isinstance(value, _numbers.Real):
            found[name] = float(value)
        elif getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
            found[name] = float(value.item())
    if found:
        run.log(step, found)


def _transformers_callback():
    import transformers

    class TransformersCallback(transformers.TrainerCallback):
        """Logs a training of transformers.Trainer: `Trainer(..., callbacks=[TransformersCallback("name")])`. Keywords are
        those of ramet.Run."""

        def __init__(self, name="run", **options):
            self._name, self._options, self.run = name, options, None

        def on_train_begin(self, args, state, control, model=None, **kwargs):
            if not state.is_world_process_zero or self.run is not None:
                return
            config = dict(self._options.pop("config", {}))
            config.update({f"training/{key}": value for key, value in args.to_sanitized_dict().items()})
            if getattr(model, "config", None) is not None and hasattr(model.config, "to_diff_dict"):
                config.update(flat(model.config.to_diff_dict(), "model/"))
            self.run = Run(self._name, config=config, **self._options)
            self.run.axis(args.train_batch_size * args.gradient_accumulation_steps * args.world_size)

        def on_log(self, args, state, control, logs=None, **kwargs):
            if self.run is not None and logs:
                log_to(self.run, logs, state.global_step)

        def on_train_end(self, args, state, control, **kwargs):
            if self.run is not None:
                self.run.flush()

        def finish(self, error=""):
            """Ends the run. `Trainer.evaluate` may log to it until then."""
            if self.run is not None:
                self.run.finish(error)

    return TransformersCallback


def _lightning_logger():
    try:
        from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
        from lightning.pytorch.utilities.rank_zero import rank_zero_only
    except ImportError:
        from pytorch_lightning.loggers.logger import Logger, rank_zero_experiment
        from pytorch_lightning.utilities.rank_zero import rank_zero_only

    class LightningLogger(Logger):
        """Logs a training of Lightning: `Trainer(logger=LightningLogger("name"))`. Keywords are those of ramet.Run."""

        def __init__(self, name="run", **options):
            super().__init__()
            self._name, self._options, self._run = name, options, None

        @property
        @rank_zero_experiment
        def experiment(self):
            if self._run is None:
                self._run = Run(self._name, **self._options)
            return self._run

        @property
        def name(self):
            return self._name

        @property
        def version(self):
            return self._run.id if self._run is not None else None

        @property
        def save_dir(self):
            return str(self._options.get("folder", "runs"))

        @rank_zero_only
        def log_hyperparams(self, params, *args, **kwargs):
            params = params if isinstance(params, dict) else vars(params)
            self.experiment.config(flat(params))

        @rank_zero_only
        def log_metrics(self, metrics, step=None):
            log_to(self.experiment, metrics, step or 0)

        @rank_zero_only
        def save(self):
            if self._run is not None:
                self._run.flush()

        @rank_zero_only
        def finalize(self, status):
            if self._run is not None:
                self._run.finish("" if status == "success" else status)

    return LightningLogger


def __getattr__(name):
    makers = {"TransformersCallback": _transformers_callback, "LightningLogger": _lightning_logger}
    if name not in makers:
        raise AttributeError(f"module 'ramet.track' has no attribute '{name}'")
    globals()[name] = makers[name]()
    return globals()[name]
