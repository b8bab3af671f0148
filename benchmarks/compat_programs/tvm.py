"""A perceptron in TVM Relax."""

import json
import sys
import time

import numpy as np
import tvm
from tvm import relax
from tvm.relax.training import SetupTrainer, Trainer
from tvm.relax.training.loss import CrossEntropyLoss
from tvm.relax.training.optimizer import MomentumSGD
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Perceptron:
    I.module_attrs({"param_num": 4, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((64, 784), "float32"),
        w0: R.Tensor((784, 128), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((128, 10), "float32"),
        b1: R.Tensor((10,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.matmul(x, w0)
            lv1 = R.add(lv0, b0)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w1)
            out = R.add(lv3, b1)
            R.output(out)
        return out


def arrays():
    """The batch, and the weights of both layers, [out, in]."""
    rng = np.random.RandomState(0)
    x = rng.rand(64, 784).astype(np.float32)
    y = rng.randint(0, 10, 64).astype(np.int64)
    w0 = (rng.rand(128, 784).astype(np.float32) - 0.5) / 14
    w1 = (rng.rand(10, 128).astype(np.float32) - 0.5) / 6
    return x, y, w0, w1


def make_step():
    x, y, w0, w1 = arrays()
    infos = [relax.TensorType((64, 10), "float32"), relax.TensorType((64,), "int64")]
    module = SetupTrainer(CrossEntropyLoss(reduction="mean"), MomentumSGD(0.1, 0.9), infos)(Perceptron)
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    trainer = Trainer(module, machine, tvm.cpu())
    zeros = np.zeros(128, np.float32), np.zeros(10, np.float32)
    trainer.load_params([w0.T.copy(), zeros[0], w1.T.copy(), zeros[1]])
    trainer.zero_init_states()
    return lambda: trainer.update(x, y).numpy()


def main(steps):
    step = make_step()
    losses = [float(step()) for _ in range(8)]
    for _ in range(steps // 4):
        step()
    float(step())
    start = time.perf_counter()
    for _ in range(steps):
        loss = step()
    float(loss)
    return {"losses": losses, "rate": steps / (time.perf_counter() - start)}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
