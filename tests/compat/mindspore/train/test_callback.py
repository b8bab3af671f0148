"""Callbacks that are written for MindSpore."""

import numpy as np

import adjoint.compat.mindspore.dataset as ds
from adjoint.compat.mindspore import Callback, FixedLossScaleManager, Model, nn


class StopAtStep(Callback):
    def __init__(self, step):
        self.step, self.told = step, []

    def on_train_step_end(self, run_context):
        params = run_context.original_args()
        self.told.append((params.cur_epoch_num, params.cur_step_num, params.batch_num, params.net_outputs > 0))
        if params.cur_step_num == self.step:
            run_context.request_stop()


def test_a_callback_is_told_about_steps_and_stops_the_run():
    x = np.ones((4, 2), np.float32)
    data = ds.NumpySlicesDataset((x, x[:, :1]), ["x", "y"]).batch(2)
    net = nn.Dense(2, 1, weight_init="ones")
    manager = FixedLossScaleManager(8.0, drop_overflow_update=False)
    model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.0), loss_scale_manager=manager)
    stopping = StopAtStep(3)
    model.train(5, data, callbacks=[stopping], dataset_sink_mode=False)
    assert stopping.told == [(1, 1, 2, True), (1, 2, 2, True), (2, 3, 2, True)]
