"""Train a CNN on Fashion-MNIST and save it, or predict with the saved one: fashion_mnist_cnn.py [predict]."""

import sys

import numpy as np

from adjoint import Function, IRModule, SetupTrainer, Trainer, data, losses, ops, optim, param

FILE, BATCH, EPOCHS, RATE = "fashion_mnist_cnn.safetensors", 64, 2, 0.005


def module() -> IRModule:
    """Two convolutions and a linear layer, and the step that trains them."""
    x = param("x", (BATCH, 1, 28, 28))
    conv0, conv0_bias = param("conv0.weight", (16, 1, 5, 5)), param("conv0.bias", (16,))
    conv1, conv1_bias = param("conv1.weight", (32, 16, 3, 3)), param("conv1.bias", (32,))
    weight, bias = param("linear.weight", (32 * 5 * 5, 10)), param("linear.bias", (10,))
    hidden = ops.max_pool2d(ops.conv2d(x, conv0, conv0_bias).relu(), 2)  # f32[64,16,12,12]
    hidden = ops.max_pool2d(ops.conv2d(hidden, conv1, conv1_bias).relu(), 2)  # f32[64,32,5,5]
    logits = hidden.flatten(1) @ weight + bias
    backbone = Function("backbone", (x, conv0, conv0_bias, conv1, conv1_bias, weight, bias), (logits,))
    return SetupTrainer(losses.CrossEntropyLoss(), optim.Adam(RATE))(backbone)


if __name__ == "__main__":
    clothes = data.fashion_mnist()
    if sys.argv[1:] == ["predict"]:
        trainer = Trainer.load(FILE)
    else:
        trainer = Trainer(module())
        trainer.init_parameters("kaiming_normal")
        rows = data.Rows(clothes.train_images[:, None], scale=1 / 255), data.Rows(clothes.train_labels)
        for rates in np.split(np.linspace(RATE, 0, EPOCHS * (60000 // BATCH)), EPOCHS):
            result = trainer.run_epoch(rows, schedule={"lr": rates})
            print(f"epoch {trainer.epochs}  loss {result.losses.mean():.4f}")
        trainer.save(FILE)
    scores = trainer.predict(clothes.test_images[:, None].astype(np.float32) / 255)
    print(f"test accuracy {(scores.argmax(1) == clothes.test_labels).mean():.2%}  mean score {scores.mean():.7f}")
