"""The runtime: loaded code, threads, entry points, the compile cache. Independent of graphs."""
