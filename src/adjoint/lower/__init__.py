"""Lowering: from graphs to kernels in order, with their memory."""
