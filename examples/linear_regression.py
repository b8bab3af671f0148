"""Fit y = 2 a + 3 b with a hand-written graph: python examples/linear_regression.py."""

import numpy as np

from adjoint import Function, SetupTrainer, Trainer, losses, optim, param


def main() -> None:
    """Train until the weights are 2 and 3."""
    x, w = param("x", (4, 2)), param("w", (2, 1))
    backbone = Function("backbone", (x, w), (x @ w,))
    trainer = Trainer(SetupTrainer(losses.MSELoss(), optim.SGD(0.05))(backbone))
    trainer.init_parameters()

    inputs = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
    outputs = inputs @ np.array([[2], [3]], np.float32)
    for step in range(500):
        loss = trainer.update(inputs, outputs)
        if step % 100 == 0:
            print(f"step {step:3}  loss {float(loss):.6f}")
    print("weights", trainer.export_params()["w"].ravel().round(3))


if __name__ == "__main__":
    main()
