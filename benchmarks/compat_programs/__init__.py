"""The same training step, written for one framework a file; `benchmarks.compat` runs copies of the files as programs.

``python PROGRAM STEPS`` prints ``{"losses": [...], "rate": ...}`` as JSON: the losses of the first steps, and the steps
per second after them. All have the same weights and batch, so that the losses agree.
"""
