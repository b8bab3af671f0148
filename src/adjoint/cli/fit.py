"""A training run: its settings, the loop and its results. Prints nothing."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.cli.builtin import load_model, training_module
from adjoint.data import ImageClassification, Rows
from adjoint.errors import InvalidValueError
from adjoint.ir import IRModule
from adjoint.kernel.target import available_cores
from adjoint.optim import SGD, Adam, AdamW, Optimizer
from adjoint.training import Trainer
from adjoint.training.checkpoint import difference

__all__ = ["LEARNING_RATES", "Epoch", "Report", "Run", "Settings", "fit", "make_trainer"]

#: Default learning rate of each optimizer.
LEARNING_RATES = {"sgd": 0.05, "adam": 0.002, "adamw": 0.002}

_MOMENTUM = 0.9

#: Factor applied to pixels.
_SCALE = 1 / 255

#: Number of steps between calls of the watcher.
_EVERY = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run.

    Parameters
    ----------
    model, dataset : str
        Names, for the report.
    epochs, batch_size : int
        Number of passes over the training images, and batch size.
    optimizer : {"sgd", "adam", "adamw"}
        The optimizer.
    lr : float, optional
        Learning rate; default: that of `LEARNING_RATES`.
    momentum : float, optional
        Momentum of SGD; default: 0.9.
    schedule : {"linear", "constant"}
        Whether the learning rate decreases linearly to 0 over the run, or is constant.
    seed : int
        Seed of the initial parameters and the order of the images.
    threads : int, optional
        Number of threads of the compiled step; default: all cores.
    limit : int, optional
        Maximum number of steps.
    check_finite : bool
        Whether to reject NaN and infinity in batches and losses.
    save : Path, optional
        File to save the trainer to, after each epoch and at the end of the run.
    resume : Path, optional
        Such a file of a run with the same settings, to continue that run.
    """

    model: str = "mlp"
    dataset: str = "fashion-mnist"
    epochs: int = 5
    batch_size: int = 64
    optimizer: str = "adam"
    lr: float | None = None
    momentum: float | None = None
    schedule: str = "linear"
    seed: int = 0
    threads: int | None = None
    limit: int | None = None
    check_finite: bool = False
    save: Path | None = None
    resume: Path | None = None

    def learning_rate(self) -> float:
        """The learning rate at the first step."""
        return LEARNING_RATES[self.optimizer] if self.lr is None else self.lr

    def make_optimizer(self) -> Optimizer:
        """The optimizer.

        Raises
        ------
        InvalidValueError
            If momentum is given for another optimizer, or a number is out of range.
        """
        lr = self.learning_rate()
        if self.optimizer == "sgd":
            return SGD(lr, momentum=_MOMENTUM if self.momentum is None else self.momentum)
        if self.momentum is not None:
            raise InvalidValueError(
                f"momentum requires sgd, got {self.momentum} with {self.optimizer}; omit it or choose sgd"
            )
        return Adam(lr) if self.optimizer == "adam" else AdamW(lr)


@dataclass(frozen=True, slots=True)
class Epoch:
    """Results of an epoch: its number, counted from 1, steps so far, mean training loss and test accuracy."""

    epoch: int
    steps: int
    loss: float
    test_accuracy: float


@dataclass(slots=True)
class Run:
    """Results so far, updated by the loop, so that an interrupted run has them too.

    A resumed run has only its own losses, epochs and seconds; `before` is the number of steps of the run it continues.
    `epoch` is the number of the epoch in progress.
    """

    before: int = 0
    epoch: int = 1
    losses: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    train_seconds: float = 0.0
    compile_seconds: float = 0.0
    interrupted: bool = False

    @property
    def steps(self) -> int:
        """Number of completed steps."""
        return self.before + len(self.losses)

    @property
    def steps_per_second(self) -> float:
        """Steps per second of training time, which includes batch preparation."""
        return len(self.losses) / self.train_seconds if self.train_seconds else 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """Results of a run, as written by ``--json``.

    Parameters
    ----------
    test_accuracy : float
        Fraction of test images that are classified correctly, at the end.
    final_loss : float or None
        Exact loss of the last step; None if there was none since the run was resumed, or it is not finite.
    train_seconds : float
        Time spent in steps and in preparing their batches, without compilation and evaluation.
    compile_seconds : float
        Time to obtain machine code for the model: differentiation, then compilation or loading from the cache.
    steps_per_second : float
        Steps since the run was begun or resumed, per second of `train_seconds`.
    steps : int
        Number of completed steps, including those before the run was resumed.
    interrupted : bool
        Whether the run was ended by Ctrl-C.
    history : list of Epoch
        The results after each epoch.

    The other fields are the settings.
    """

    dataset: str
    model: str
    optimizer: str
    lr: float
    schedule: str
    epochs: int
    batch_size: int
    seed: int
    threads: int
    test_accuracy: float
    final_loss: float | None
    train_seconds: float
    compile_seconds: float
    steps_per_second: float
    steps: int
    interrupted: bool
    history: list[Epoch]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


#: Called every few steps and after each epoch with the run so far and the total number of steps.
Watcher = Callable[[Run, int], None]


def make_trainer(settings: Settings, run: Run) -> Trainer:
    """The compiled trainer of a run, with initialized parameters or as saved; records how long that took.

    Raises
    ------
    InvalidValueError
        If the file to resume from was saved with other settings.
    CheckpointError
        If it cannot be read.
    """
    optimizer = settings.make_optimizer()
    started = time.perf_counter()
    rows = settings.batch_size
    module = training_module(settings.model, load_model(settings.model, rows), optimizer)
    if settings.resume is None:
        trainer = Trainer(module, threads=settings.threads, seed=settings.seed, check_finite=settings.check_finite)
        trainer.init_parameters()
    else:
        trainer = _loaded(settings, settings.resume, module)
    trainer.compile()
    trainer.predict(np.zeros((rows, 784), np.float32))
    run.compile_seconds = time.perf_counter() - started
    return trainer


def _loaded(settings: Settings, path: Path, module: IRModule) -> Trainer:
    trainer = Trainer.load(path, threads=settings.threads, check_finite=settings.check_finite)
    different = "" if trainer.module == module else difference(trainer.module, module)
    if trainer.seed != settings.seed:
        different = f"the seed is {trainer.seed}, but {settings.seed} in the one given"
    if different:
        raise InvalidValueError(
            f"--resume continues a run with the same options, got {path} of another run, in which {different}; pass "
            "the options of that run"
        )
    return trainer


def fit(settings: Settings, data: ImageClassification, trainer: Trainer, run: Run, watch: Watcher) -> Report:
    """Train until the epochs are done, the limit is reached or Ctrl-C is pressed; then evaluate and report."""
    per_epoch = len(data.train_labels) // settings.batch_size
    total = per_epoch * settings.epochs
    if settings.limit is not None:
        total = min(total, settings.limit)
    images = data.train_images.reshape(len(data.train_images), -1)
    training = (Rows(images, _SCALE), Rows(data.train_labels))
    run.before = trainer.epochs * per_epoch + trainer.steps_to_resume
    try:
        while run.steps < total:
            run.epoch = run.steps // per_epoch + 1
            mean = _epoch(settings, training, trainer, run, total, watch)
            run.epochs.append(Epoch(run.epoch, run.steps, mean, accuracy(trainer, data.test_images, data.test_labels)))
            watch(run, total)
            if settings.save is not None and run.steps < total:
                trainer.save(settings.save)
    except KeyboardInterrupt:
        run.interrupted = True
    if settings.save is not None:
        trainer.save(settings.save)
    return _report(settings, data, trainer, run)


def _epoch(
    settings: Settings,
    training: tuple[Rows, Rows],
    trainer: Trainer,
    run: Run,
    total: int,
    watch: Watcher,
) -> float:
    """One pass over the training images, or the part of it that the limit allows; returns its mean loss."""
    per_epoch = len(training[1].array) // settings.batch_size
    first, before, started = (run.epoch - 1) * per_epoch, run.train_seconds, time.perf_counter()
    steps = min(per_epoch, total - first)
    falling = 1.0 - (first + np.arange(steps)) / total
    schedule = {"lr": settings.learning_rate() * falling} if settings.schedule == "linear" else {}

    def tell(done: int, losses: np.ndarray) -> None:
        run.losses += losses[run.steps - first : done].tolist()
        run.train_seconds = before + time.perf_counter() - started
        watch(run, total)

    try:
        result = trainer.run_epoch(
            training,
            seed=(settings.seed, run.epoch),
            every=_EVERY,
            callback=tell,
            schedule=schedule,
            limit=first + steps - run.steps,
            resume=True,
        )
        return float(np.mean(result.losses, dtype=np.float64))
    finally:
        # Ctrl-C may come after steps that have not been reported yet.
        reached = trainer.last_epoch
        if reached is not None:
            run.losses += reached.losses[run.steps - first :].tolist()
            run.train_seconds = before + reached.seconds
            run.compile_seconds += max(time.perf_counter() - started - reached.seconds, 0.0)


def accuracy(trainer: Trainer, images: np.ndarray, labels: np.ndarray) -> float:
    """Fraction of images whose largest logit is that of their label."""
    x = np.multiply(images.reshape(len(images), -1), np.float32(_SCALE), dtype=np.float32)
    right = np.argmax(trainer.predict(x), axis=1) == labels
    return float(right.mean())


def _report(settings: Settings, data: ImageClassification, trainer: Trainer, run: Run) -> Report:
    evaluated = run.epochs and not run.interrupted
    reached = run.epochs[-1].test_accuracy if evaluated else accuracy(trainer, data.test_images, data.test_labels)
    last = run.losses[-1] if run.losses else None
    return Report(
        dataset=settings.dataset,
        model=settings.model,
        optimizer=settings.optimizer,
        lr=settings.learning_rate(),
        schedule=settings.schedule,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        seed=settings.seed,
        threads=trainer.options.threads or available_cores(),
        test_accuracy=reached,
        final_loss=last if last is not None and isfinite(last) else None,
        train_seconds=run.train_seconds,
        compile_seconds=run.compile_seconds,
        steps_per_second=run.steps_per_second,
        steps=run.steps,
        interrupted=run.interrupted,
        history=run.epochs,
    )
