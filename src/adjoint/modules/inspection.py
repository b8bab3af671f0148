"""What is compiled of a module: its programs as text, and their times."""

from importlib import import_module
from typing import Any

from adjoint.tensor.plan import options
from adjoint.tensor.showing import Text, newest_program, stage_text

__all__ = ["Inspection"]


class Inspection:
    """The part of `Module` that shows and measures programs."""

    def show(self: Any, stage: str = "graph", *inputs: Any) -> Text:
        """The text of a stage of compilation, with the lines of your code on values and kernels.

        Without inputs, it is the program that was compiled last among those with the module's parameters: of a training
        loop, the step.

        Parameters
        ----------
        stage : str, default "graph"
            ``"graph"``, ``"kernels"``, ``"llvm"``, ``"asm"``, or the name of a pass, as `adjoint show` has them.
        *inputs : Tensor or numpy.ndarray
            Examples of the arguments of `forward`, whose program is then shown without being run.

        Raises
        ------
        TypeRuleError
            If there are no inputs, and no program with the parameters has been compiled.
        InvalidValueError
            For any other stage.
        """
        if inputs:
            text: Text = _compiled(self, inputs).show(stage)
            return text
        return stage_text(*newest_program(type(self).__name__, self.parameters()), stage)

    def profile(self: Any, *inputs: Any, runs: int = 50, peaks: Any = None) -> Any:
        """Measure a program of the module kernel by kernel, on copies, so that nothing is trained.

        Parameters
        ----------
        *inputs : Tensor or numpy.ndarray
            Arguments of `forward`, which is then measured. Without any, it is the program that `show` shows, such as a
            training step, on random numbers.
        runs : int, default 50
            Number of runs; the times are interquartile means.
        peaks : adjoint.profiling.Peaks, optional
            The limits of the machine; default: measured once and stored.

        Returns
        -------
        adjoint.profiling.StepProfile
            Printed, it is a table of the kernels with the lines of your code.

        Raises
        ------
        TypeRuleError
            As for `show`.
        """
        if inputs:
            return _compiled(self, inputs).profile(*inputs, runs=runs, peaks=peaks)
        name = type(self).__name__
        function, _ = newest_program(name, self.parameters())
        measure = import_module("adjoint.profiling.doors").profile_function  # which training does not need
        return measure(function, {}, name, options.compile, runs, peaks)


def _compiled(module: Any, inputs: tuple[Any, ...]) -> Any:
    """The module as a compiled function, compiled for these inputs."""
    return import_module("adjoint.func.front").compile(module, *inputs)  # which imports everything
