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


def nadam(p, grads, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, psi=4e-3, decoupled=False):
    """Yield the parameter after every step."""
    m, v, product = np.zeros_like(p), np.zeros_like(p), 1.0
    for t, g in enumerate(grads, 1):
        p, g = (p - lr * weight_decay * p, g) if decoupled else (p, g + weight_decay * p)
        now, following = (betas[0] * (1 - 0.5 * 0.96 ** (n * psi)) for n in (t, t + 1))
        product *= now
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        ahead = following * m / (1 - product * following) + (1 - now) * g / (1 - product)
        p = p - lr * ahead / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        yield p


def radam(p, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False):
    """Yield the parameter after every step."""
    m, v, longest = np.zeros_like(p), np.zeros_like(p), 2 / (1 - betas[1]) - 1
    for t, g in enumerate(grads, 1):
        p, g = (p - lr * weight_decay * p, g) if decoupled else (p, g + weight_decay * p)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        length = longest - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        d = m / (1 - betas[0] ** t)
        if length > 5:
            over = (length - 4) * (length - 2) * longest
            d = d * np.sqrt(over / ((longest - 4) * (longest - 2) * length))
            d = d * np.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
        p = p - lr * d
        yield p


def adamax(p, grads, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
    """Yield the parameter after every step."""
    m, u = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        u = np.maximum(betas[1] * u, np.abs(g) + eps)
        p = p - lr / (1 - betas[0] ** t) * m / u
        yield p


def rmsprop(p, grads, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
    """Yield the parameter after every step."""
    v, a, b = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for g in grads:
        g = g + weight_decay * p
        v = alpha * v + (1 - alpha) * g * g
        a = alpha * a + (1 - alpha) * g
        b = momentum * b + g / (np.sqrt(v - a * a if centered else v) + eps)
        p = p - lr * b
        yield p


def adagrad(p, grads, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial=0.0, eps=1e-10):
    """Yield the parameter after every step."""
    s = np.full_like(p, initial)
    for t, g in enumerate(grads):
        g = g + weight_decay * p
        s = s + g * g
        p = p - lr / (1 + t * lr_decay) * g / (np.sqrt(s) + eps)
        yield p


def adadelta(p, grads, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0):
    """Yield the parameter after every step."""
    v, u = np.zeros_like(p), np.zeros_like(p)
    for g in grads:
        g = g + weight_decay * p
        v = rho * v + (1 - rho) * g * g
        d = np.sqrt((u + eps) / (v + eps)) * g
        u = rho * u + (1 - rho) * d * d
        p = p - lr * d
        yield p


def rprop(p, grads, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50.0)):
    """Yield the parameter after every step."""
    q, s = np.zeros_like(p), np.full_like(p, lr)
    for g in grads:
        s = np.clip(s * np.choose(1 + np.sign(q * g).astype(int), [etas[0], 1.0, etas[1]]), *step_sizes)
        q = np.where(q * g < 0, 0.0, g)
        p = p - np.sign(q) * s
        yield p


def asgd(p, grads, lr=1e-2, lambd=1e-4, alpha=0.75, weight_decay=0.0):
    """Yield the parameter after every step."""
    eta = lr
    for t, g in enumerate(grads, 1):
        g = g + weight_decay * p
        p = p * (1 - lambd * eta) - eta * g
        eta = lr / (1 + lambd * lr * t) ** alpha
        yield p


def adafactor(p, grads, lr=1e-2, beta2_decay=-0.8, eps=(2.0**-23, 1e-3), d=1.0, weight_decay=0.0):
    """Yield the parameter after every step."""
    rows = columns = variance = 0.0
    for t, g in enumerate(grads, 1):
        w = t**beta2_decay
        size = max(eps[1], np.sqrt(np.mean(p * p))) * min(lr, t**-0.5)
        if p.ndim > 1:
            rows = (1 - w) * rows + w * np.mean(g * g, -1, keepdims=True)
            columns = (1 - w) * columns + w * np.mean(g * g, -2, keepdims=True)
            v = rows @ columns / np.maximum(rows.mean(-2, keepdims=True), eps[0])
        else:
            v = variance = (1 - w) * variance + w * g * g
        u = g / np.sqrt(np.maximum(v, eps[0] ** 2))
        p = p * (1 - lr * weight_decay) - size * u / max(1.0, np.sqrt(np.mean(u * u)) / d)
        yield p


def lion(p, grads, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
    """Yield the parameter after every step."""
    m = np.zeros_like(p)
    for g in grads:
        p = p - lr * (np.sign(betas[0] * m + (1 - betas[0]) * g) + weight_decay * p)
        m = betas[1] * m + (1 - betas[1]) * g
        yield p


def lamb(p, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
    """Yield the parameter after every step."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        u = m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + eps) + weight_decay * p
        sizes = np.sqrt(np.sum(p * p)), np.sqrt(np.sum(u * u))
        p = p - lr * (sizes[0] / sizes[1] if all(sizes) else 1.0) * u
        yield p


def lars(p, grads, lr=0.1, momentum=0.9, weight_decay=0.0, trust_coefficient=1e-3, nesterov=False):
    """Yield the parameter after every step."""
    b = np.zeros_like(p)
    for g in grads:
        sizes = np.sqrt(np.sum(p * p)), np.sqrt(np.sum(g * g))
        rate = trust_coefficient * sizes[0] / (sizes[1] + weight_decay * sizes[0] + 1e-8) if all(sizes) else 1.0
        d = lr * rate * (g + weight_decay * p)
        b = momentum * b + d
        p = p - (d + momentum * b if nesterov else b)
        yield p


def muon(p, grads, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_steps=5, match=False):
    """Yield the parameter after every step."""
    m = np.zeros_like(p)
    for g in grads:
        m = momentum * m + (1 - momentum) * g
        x = (1 - momentum) * g + momentum * m if nesterov else m
        x = (x.T if p.shape[0] > p.shape[1] else x) / max(np.linalg.norm(x), 1e-7)
        for _ in range(ns_steps):
            gram = x @ x.T
            x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
        x = x.T if p.shape[0] > p.shape[1] else x
        rate = 0.2 * np.sqrt(max(p.shape)) if match else np.sqrt(max(1.0, p.shape[0] / p.shape[1]))
        p = p * (1 - lr * weight_decay) - lr * rate * x
        yield p
