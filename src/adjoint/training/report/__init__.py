"""The report on a run: a page with curves, predictions and the kernel profile, made when the run ends.

`callback` collects, `record` holds what is collected, `predictions` runs the network over validation rows, `charts` and
`images` draw, and `page` fills the templates in.
"""

from adjoint.training.report.callback import Report

__all__ = ["Report"]
