"""Train a CNN on Fashion-MNIST and save it, or predict with the saved one: fashion_mnist_cnn.py [predict]."""

import sys

import numpy as np

from adjoint import Function, IRModule, SetupTrainer, TensorType, Trainer, data, losses, ops, optim, param

FILE, BATCH, EPOCHS, RATE = "fashion_mnist_cnn.safetensors", 64, 2, 0.005


def train(clothes: data.FashionMnist) -> Trainer:
    """Two convolutions and a linear layer, trained for two epochs and saved."""
    x = param("x", (BATCH, 1, 28, 28))
    conv0, conv0_bias = param("conv0.weight", (16, 1, 5, 5)), param("conv0.bias", (16,))
    conv1, conv1_bias = param("conv1.weight", (32, 16, 3, 3)), param("conv1.bias", (32,))
    weight, bias = param("linear.weight", (32 * 5 * 5, 10)), param("linear.bias", (10,))
    hidden = ops.max_pool2d(ops.conv2d(x, conv0, conv0_bias).relu(), 2)  # f32[64,16,12,12]
    hidden = ops.max_pool2d(ops.conv2d(hidden, conv1, conv1_bias).relu(), 2)  # f32[64,32,5,5]
    logits = ops.linear(hidden.flatten(1), weight, bias)
    model = Function("backbone", (x, conv0, conv0_bias, conv1, conv1_bias, weight, bias), (logits,))
    setup = SetupTrainer(losses.CrossEntropyLoss(), optim.Adam(RATE), (logits.type, TensorType((BATCH,), "i64")))
    trainer = Trainer(setup(IRModule((model,), {"state_num": 0})))
    trainer.init_parameters("kaiming_normal")
    rows = data.Rows(clothes.train_images[:, None], scale=1 / 255), data.Rows(clothes.train_labels)
    steps = len(clothes.train_labels) // BATCH
    for rates in np.linspace(RATE, 0, EPOCHS * steps).reshape(EPOCHS, steps):
        print(f"epoch {trainer.epochs + 1}  loss {trainer.run_epoch(rows, schedule={'lr': rates}).losses.mean():.4f}")
    trainer.save(FILE)
    return trainer


if __name__ == "__main__":
    clothes = data.fashion_mnist()
    trainer = Trainer.load(FILE) if sys.argv[1:] == ["predict"] else train(clothes)
    scores = trainer.predict(clothes.test_images[:, None].astype(np.float32) / 255)
    accuracy = (scores.argmax(axis=1) == clothes.test_labels).mean()
    print(f"test accuracy {accuracy:.2%}  mean score {scores.mean():.7f}")
