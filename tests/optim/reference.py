"""SGD, Adam and AdamW written again in NumPy float64, straight from the papers and PyTorch's documentation."""

import numpy as np


def sgd(p, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    """Yield the parameter after every step."""
    buffer = None
    for g in grads:
        d = g + weight_decay * p
        if momentum:
            buffer = d.copy() if buffer is None else momentum * buffer + (1 - dampening) * d
            d = d + momentum * buffer if nesterov else buffer
        p = p - lr * d
        yield p


def adam(p, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False):
    """Yield the parameter after every step."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        if decoupled:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        yield p


def adamw(p, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
    """Yield the parameter after every step."""
    yield from adam(p, grads, lr, betas, eps, weight_decay, decoupled=True)
