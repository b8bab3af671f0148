"""The profiler: what each kernel of a step takes, beside what the machine can do; tables, traces and pages of it."""
