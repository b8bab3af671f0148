"""Kernel IR: loop nests over flat buffers, and the programs made of them."""
