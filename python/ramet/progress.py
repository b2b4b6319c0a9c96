"""The bar that `Training.fit` draws: that of tqdm, where tqdm is installed."""
try:
    from tqdm.auto import tqdm
except ImportError:
    tqdm = None


class Progress:
    def __init__(self, done, steps):
        self._bar = tqdm(total=steps, initial=done, unit="step") if tqdm else None

    def step(self, result):
        if self._bar is not None:
            self._bar.set_postfix(loss=f"{result.loss:.4g}", refresh=False)
            self._bar.update(1)

    def close(self):
        if self._bar is not None:
            self._bar.close()
