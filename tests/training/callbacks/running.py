"""A stand-in for a run of training, which calls callbacks as `Model` does."""

import numpy as np


class FakeRun:
    """A run whose losses are given: one list per epoch, and the results of evaluation after each.

    Parameters
    ----------
    losses : list of list of float
        The losses of the steps of each epoch.
    metrics : list of dict, optional
        The results of evaluation after each epoch; without them nothing is evaluated.
    late : bool, default False
        Whether the loss of the newest step is not known yet when callbacks are called.
    """

    def __init__(self, losses, metrics=None, *, network=None, optimizer=None, late=False, model=None, config=None):
        self.all_losses, self.results, self.late = losses, metrics, late
        self.model, self.network, self.optimizer = model, network, optimizer
        self.epoch, self.epochs, self.step, self.step_in_epoch = 1, len(losses), 0, 0
        self.steps_per_epoch, self.batch_size = len(losses[0]) if losses else None, 4
        self.metrics, self.train_seconds, self.steps_per_second = {}, 0.0, 10.0
        self.stopped, self.stop_reason, self.resumed, self.compile_seconds = False, "", False, 0.0
        self.dataset, self.valid_dataset = object(), None if metrics is None else object()
        self.config, self.callbacks = config or {}, []

    @property
    def losses(self):
        known = self.step_in_epoch - self.late
        found = np.array(self.all_losses[self.epoch - 1][: max(known, 0)], np.float32)
        found[: getattr(self, "first", 0)] = np.nan
        return found

    @property
    def loss(self):
        return float(self.losses[-1]) if len(self.losses) else float("nan")

    @property
    def learning_rate(self):
        return None if self.optimizer is None else self.optimizer.param_groups[0]["lr"]

    def stop(self, reason=""):
        self.stopped, self.stop_reason = True, reason

    def cursor(self):
        return {"epoch": self.epoch, "step": self.step, "step_in_epoch": self.step_in_epoch}

    def tell(self, event, *more):
        for callback in self.callbacks:
            getattr(callback, event)(self, *more)

    def resume(self, step):
        """Continue after so many steps."""
        self.resumed, self.step = True, step
        for losses in self.all_losses:
            if step < len(losses):
                break
            step -= len(losses)
            self.epoch += 1
        self.first = self.step_in_epoch = step
        return self

    def train(self, *callbacks, until=None, step=lambda: None):
        """Run all epochs, or until so many steps are done in all, as if the process had been killed then."""
        self.callbacks = list(callbacks)
        try:
            return self._train(until, step)
        except Exception as error:
            self.late = False
            self.tell("on_exception", error)
            raise

    def _train(self, until, step):
        self.tell("on_train_begin")
        for self.epoch in range(self.epoch, self.epochs + 1):  # noqa: B020
            self.tell("on_train_epoch_begin")
            while self.step_in_epoch < len(self.all_losses[self.epoch - 1]) and not self.stopped:
                if self.step == until:
                    return self._killed()
                step()
                self.step += 1
                self.step_in_epoch += 1
                self.train_seconds += 0.125
                for callback in self.callbacks:
                    if callback.seconds is not None or (callback.every and self.step % callback.every == 0):
                        callback.on_train_step_end(self)
            late, self.late = self.late, False  # at the end of an epoch all losses are known
            if self.results is not None:
                self.evaluate(self.results[self.epoch - 1])
            self.tell("on_train_epoch_end")
            self.late = late
            if self.stopped:
                break
            self.step_in_epoch = self.first = 0
        self.tell("on_train_end")
        return self

    def _killed(self):
        for callback in self.callbacks:
            getattr(callback, "close", lambda: None)()  # as the operating system closes its files
        return self

    def evaluate(self, results):
        self.tell("on_eval_begin")
        self.metrics = dict(results)
        self.tell("on_eval_end")
