"""Train a multilayer perceptron on Fashion-MNIST: python examples/fashion_mnist_mlp.py."""

import numpy as np

from adjoint import Function, SetupTrainer, Trainer, data, losses, optim, param

BATCH, EPOCHS, RATE = 64, 5, 0.002


def model() -> Function:
    """A perceptron with 784 inputs, two hidden layers of 128 units, and 10 classes."""
    x = param("x", (BATCH, 784))
    w0, b0 = param("w0", (784, 128)), param("b0", (128,))
    w1, b1 = param("w1", (128, 128)), param("b1", (128,))
    w2, b2 = param("w2", (128, 10)), param("b2", (10,))
    hidden = (x @ w0 + b0).relu()
    hidden = (hidden @ w1 + b1).relu()
    logits = hidden @ w2 + b2
    return Function("backbone", (x, w0, b0, w1, b1, w2, b2), (logits,))


def main() -> None:
    """Train, and print the accuracy after each epoch."""
    setup = SetupTrainer(losses.CrossEntropyLoss(), optim.Adam(RATE))
    trainer = Trainer(setup(model()))
    trainer.init_parameters()

    clothes = data.fashion_mnist()
    # Images are converted to floats, and labels to i64, batch by batch.
    train = data.Rows(clothes.train_images.reshape(-1, 784), scale=1 / 255), data.Rows(clothes.train_labels)
    test_images = clothes.test_images.reshape(-1, 784).astype(np.float32) / 255
    for epoch in range(EPOCHS):
        trainer.hyper["lr"] = RATE * (1 - epoch / EPOCHS)  # an input of the step, so no recompilation
        epoch_losses = trainer.run_epoch(train, seed=(0, epoch)).losses
        right = trainer.predict(test_images).argmax(axis=1) == clothes.test_labels
        print(f"epoch {epoch + 1}  loss {epoch_losses.mean():.4f}  test accuracy {right.mean():.2%}")


if __name__ == "__main__":
    main()
