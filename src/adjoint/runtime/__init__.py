"""The run time: loaded code, threads, entry points, the compile cache. It never sees a graph."""
