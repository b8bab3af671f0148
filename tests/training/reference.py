"""A whole training step of the tutorial's MLP, written by hand in NumPy float64."""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mlp_step(params, x, one_hot, lr, weight_decay=0.0, momentum=0.0, buffers=None, reduction="sum"):
    """Loss, new parameters and new momentum buffers of one step of a relu MLP under cross-entropy and SGD."""
    layers = len(params) // 2
    hidden = [x]
    for i in range(layers):
        z = hidden[-1] @ params[f"w{i}"] + params[f"b{i}"]
        hidden.append(np.maximum(z, 0) if i < layers - 1 else z)
    p = softmax(hidden[-1])
    scale = 1 / len(x) if reduction == "mean" else 1.0
    loss = -(one_hot * np.log(p)).sum() * scale
    ct = (p - one_hot) * scale
    grads = {}
    for i in reversed(range(layers)):
        grads[f"w{i}"], grads[f"b{i}"] = hidden[i].T @ ct, ct.sum(0)
        ct = (ct @ params[f"w{i}"].T) * (hidden[i] > 0)
    new, new_buffers = {}, {}
    for name, value in params.items():
        d = grads[name] + weight_decay * value
        if momentum:
            d = new_buffers[name] = d if buffers is None else momentum * buffers[name] + d
        new[name] = value - lr * d
    return loss, new, new_buffers
