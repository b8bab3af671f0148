"""`ModelCheckpoint`: saves a run to files from which it can be resumed."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, warn
from adjoint.lazy_dataclass import dataclass
from adjoint.modules import Module
from adjoint.paths import FilePath
from adjoint.training.callbacks.base import Run
from adjoint.training.callbacks.monitoring import TRAIN_LOSS, Monitored
from adjoint.training.checkpoints.capture import capture
from adjoint.training.checkpoints.directory import CheckpointDirectory, check_prefix
from adjoint.training.checkpoints.restore import restore
from adjoint.training.checkpoints.writer import CheckpointWriter

__all__ = ["CheckpointConfig", "ModelCheckpoint"]

#: What the name of a checkpoint ends with that is written because of an exception; `latest` does not find it.
_BREAKPOINT = "_breakpoint"

#: What `append_info` may name, and where a run has it.
_INFO = {"epoch_num": "epoch", "step_num": "step", "lr": "learning_rate", "loss": "loss"}


@dataclass(frozen=True)
class CheckpointConfig:
    """When `ModelCheckpoint` saves, and what it keeps.

    Parameters
    ----------
    save_checkpoint_steps : int, optional
        The number of steps between checkpoints, over the whole run; default: 1, unless there are seconds or a monitored
        metric.
    save_checkpoint_seconds : float, optional
        The number of seconds between checkpoints.
    keep_checkpoint_max : int or None, default 5
        The number of the newest checkpoints that are kept; None keeps all.
    keep_checkpoint_per_n_minutes : float, optional
        Of older checkpoints, one is kept for so many minutes.
    async_save : bool, default True
        Whether a thread writes files while training goes on.
    append_info : sequence of str, or mapping, default ()
        More for the manifest of checkpoints: names among ``epoch_num``, ``step_num``, ``lr`` and ``loss``, and mappings
        of plain data.
    save_network : Module, optional
        The network to be saved; default: that of the run.
    exception_save : bool, default False
        Whether to save when an exception ends the run. After Ctrl-C it is a checkpoint to resume from; after an error,
        its name ends in ``_breakpoint``, and it is only for looking into.

    Raises
    ------
    InvalidValueError
        If a number is out of range, or a name is none of these.
    """

    save_checkpoint_steps: int | None = None
    save_checkpoint_seconds: float | None = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_per_n_minutes: float | None = None
    async_save: bool = True
    append_info: "Sequence[str | Mapping[str, Any]] | Mapping[str, Any]" = ()
    save_network: Module | None = None
    exception_save: bool = False

    def __post_init__(self) -> None:
        steps, seconds = self.save_checkpoint_steps, self.save_checkpoint_seconds
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
            raise InvalidValueError(
                f"CheckpointConfig: save_checkpoint_steps must be an integer of at least 1, got {steps!r}"
            )
        if seconds is not None and not seconds > 0:
            raise InvalidValueError(f"CheckpointConfig: save_checkpoint_seconds must be above 0, got {seconds!r}")
        if not isinstance(self.append_info, Mapping):
            for each in self.append_info:
                if not isinstance(each, Mapping) and each not in _INFO:
                    raise InvalidValueError(
                        f"CheckpointConfig: append_info takes mappings and names among {', '.join(_INFO)}, got {each!r}"
                    )


class ModelCheckpoint(Monitored):
    """Saves the whole state of a run, so that it can be resumed with the bits that it would have had.

    A file is named ``{prefix}-{epoch}_{step_in_epoch}.safetensors``. It is whole at any moment, and older files are
    removed only after a new one is on the disk. The directory is locked while the run goes on. A run that resumes
    nothing, in a directory with checkpoints of another one, names its files ``{prefix}_1-...``, and leaves those alone.

    Parameters
    ----------
    prefix : str, default "CKP"
        The beginning of the names of files.
    directory : str or os.PathLike, default "."
        Where they are; it is made if it does not exist.
    config : CheckpointConfig, optional
        When to save, and what to keep.
    monitor : str, optional
        A metric, as in the results of evaluation, or "train_loss". Checkpoints are then saved at the ends of epochs,
        and the best one is kept.
    mode : {"auto", "min", "max"}, default "auto"
        Whether smaller or greater values are better; "auto" decides by the name.
    save_best_only : bool, default False
        Whether to save only if the metric is the best so far.
    resume : bool, default False
        Whether to continue from the newest whole checkpoint in the directory, or to begin if there is none.
    schedulers : LRScheduler or sequence of LRScheduler, default ()
        Schedules that the program steps itself.

    Attributes
    ----------
    best : float or None
        The best value of the metric.
    best_path : Path or None
        The checkpoint with it.

    Raises
    ------
    InvalidValueError
        If an argument is out of range.
    """

    #: Called after other callbacks, so that checkpoints contain their newest state.
    saves = True

    def __init__(
        self,
        prefix: str = "CKP",
        directory: FilePath = ".",
        config: CheckpointConfig | None = None,
        *,
        monitor: str | None = None,
        mode: str = "auto",
        save_best_only: bool = False,
        resume: bool = False,
        schedulers: Any = (),
    ) -> None:
        if config is not None and not isinstance(config, CheckpointConfig):
            raise TypeRuleError(
                f"ModelCheckpoint: config must be a CheckpointConfig, got {kind_of(config)}; pass "
                "CheckpointConfig(save_checkpoint_steps=100)"
            )
        super().__init__(TRAIN_LOSS if monitor is None else monitor, mode, 0.0)
        if save_best_only and monitor is None:
            raise InvalidValueError(
                "ModelCheckpoint: save_best_only needs a metric to compare, got none; pass monitor='accuracy'"
            )
        check_prefix(prefix)
        self.config = CheckpointConfig() if config is None else config
        self.directory = CheckpointDirectory(
            directory,
            prefix,
            keep_checkpoint_max=self.config.keep_checkpoint_max,
            keep_checkpoint_per_n_minutes=self.config.keep_checkpoint_per_n_minutes,
        )
        self._is_monitored = monitor is not None
        self.save_best_only, self.resume = save_best_only, resume
        self._schedulers = schedulers
        self.best_path: Path | None = None
        self._saved_at: int | None = None
        self._resumed: Path | None = None
        self._writer: CheckpointWriter | None = None
        steps, seconds = self.config.save_checkpoint_steps, self.config.save_checkpoint_seconds
        if not save_best_only:
            self.every = 1 if steps is None and seconds is None and monitor is None else steps
            self.seconds = seconds

    def restore(self, run: Run) -> dict[str, Any] | None:
        """Continue from the newest whole checkpoint, if `resume` asks for it; the run calls it before it begins.

        Parameters
        ----------
        run : Run
            The run, whose network, optimizer, callbacks and dataset get the state that was saved.

        Returns
        -------
        dict or None
            The cursor; None if the run begins.

        Raises
        ------
        CheckpointError
            If the checkpoint is that of another network or optimizer, or another run uses the directory.
        """
        if not self.resume:
            return None
        self.directory.lock()
        try:
            return self._restored(run)
        except BaseException:
            self.directory.unlock()
            raise

    def _restored(self, run: Run) -> dict[str, Any] | None:
        found = self.directory.latest_snapshot()
        if found is None:
            return None
        step = _train_step(run)
        cursor = restore(
            found[1],
            self._network(run),
            run.optimizer,
            run.callbacks,
            getattr(step, "scaler", None),
            schedulers=self._schedulers,
            modules=_modules(step),
        )
        self._resumed = found[0]
        if cursor.get("dataset") is not None and hasattr(run.dataset, "load_state_dict"):
            run.dataset.load_state_dict(cursor["dataset"])
        return cursor

    def on_train_begin(self, run: Run) -> None:
        """Lock the directory."""
        self.directory.lock()
        resumed = self._resumed
        if resumed is None and run.resumed:
            found = self.directory.checkpoints()
            resumed = found[-1] if found else None
        self.directory.continue_from(resumed)
        self._resumed, self._saved_at = None, run.step if run.resumed else None
        self._writer = CheckpointWriter(
            self.config.keep_checkpoint_max, self._written, asynchronous=self.config.async_save
        )

    def on_train_step_end(self, run: Run) -> None:
        """Save, because it is time."""
        self._save(run)

    def on_train_epoch_end(self, run: Run) -> None:
        """Save if a metric is monitored, and it is the best or every one is saved."""
        if not self._is_monitored:
            return
        value = self.newest(run)
        if value is None:
            return
        better = self.improves(value, self.best)
        if better:
            self.best, self.best_path = value, self.directory.file(run.epoch, run.step_in_epoch)
        if better or not self.save_best_only:
            self._saved_at = None  # what was saved after the last step does not have the metric
            self._save(run, best=better)

    def on_train_end(self, run: Run) -> None:
        """Save the end of the run, unless it has been saved, and wait until all files are written."""
        if not self.save_best_only:
            self._save(run)
        self._close(wait=True)

    def on_exception(self, run: Run, error: BaseException) -> None:
        """Save what there is, if `exception_save` asks for it, and wait until all files are written."""
        try:
            if self.config.exception_save and self._writer is not None:
                self._save(run, "" if isinstance(error, KeyboardInterrupt) else _BREAKPOINT)
            self._close(wait=True)
        except Exception as failure:  # the run ends with its own error
            warn(f"ModelCheckpoint: the last checkpoint could not be written ({failure})")
        finally:
            self._close(wait=False)

    def state_dict(self) -> dict[str, Any]:
        """The best value, and its file."""
        return {**super().state_dict(), "best_path": None if self.best_path is None else self.best_path.name}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        super().load_state_dict(state)
        name = state["best_path"]
        self.best_path = None if name is None else self.directory.path / Path(name).name

    def _network(self, run: Run) -> Module:
        return run.network if self.config.save_network is None else self.config.save_network

    def _save(self, run: Run, suffix: str = "", *, best: bool = False) -> None:
        writer = self._writer
        if writer is None or (self._saved_at == run.step and not suffix):
            return
        step = _train_step(run)
        snapshot = capture(
            self._network(run),
            run.optimizer,
            run.cursor(),
            run.callbacks,
            run.config,
            getattr(step, "scaler", None),
            schedulers=self._schedulers,
            modules=_modules(step),
            info=self._info(run),
            sequence=self.directory.next_sequence(),
            reuse=writer.spare(),
        )
        self._saved_at = run.step
        writer.submit(self.directory.file(run.epoch, run.step_in_epoch, suffix), snapshot, keep=best)

    def _info(self, run: Run) -> dict[str, Any]:
        given = self.config.append_info
        found: dict[str, Any] = {"metrics": {k: v for k, v in run.metrics.items() if _is_plain(v)}}
        for each in [given] if isinstance(given, Mapping) else given:
            if isinstance(each, Mapping):
                found |= each
            else:
                value = getattr(run, _INFO[each])
                found[each] = value if _is_plain(value) else None
        return found

    def _written(self, path: Path) -> None:
        self.directory.written(path, keep=[self.best_path])

    def _close(self, wait: bool) -> None:
        writer = self._writer
        try:
            if wait and writer is not None:
                writer.wait()
        finally:
            self._writer = None
            self.directory.unlock()


def _train_step(run: Run) -> Any:
    """The training step of the run's model, if it has one."""
    return getattr(run.model, "train_step", None)


def _modules(step: Any) -> dict[str, Module]:
    """The training step as a module with a state of its own: gradients that it accumulates, parameters of a loss."""
    return {"step": step} if isinstance(step, Module) else {}


def _is_plain(value: object) -> bool:
    """Whether JSON has a number."""
    return isinstance(value, int | float) and math.isfinite(value)
