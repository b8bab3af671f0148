"""Programs of OneFlow run with only their import lines changed."""

import numpy as np
import pytest

import adjoint
import adjoint.compat.oneflow as flow
from adjoint.compat.porting import port
from adjoint.errors import InvalidValueError, MissingAttributeError

#: A least-squares model of two weights, as OneFlow's introduction to optimizers trains it.
PROGRAM = """\
import oneflow as flow

x = flow.tensor([[1, 2], [2, 3], [4, 6], [3, 1]], dtype=flow.float32)
y = flow.tensor([[8], [13], [26], [9]], dtype=flow.float32)


class MyLrModule(flow.nn.Module):
    def __init__(self, lr, iter_count):
        super().__init__()
        self.w = flow.nn.Parameter(flow.tensor([[2], [1]], dtype=flow.float32))
        self.lr = lr
        self.iter_count = iter_count

    def forward(self, x):
        return flow.matmul(x, self.w)


model = MyLrModule(0.01, 500)
loss = flow.nn.MSELoss(reduction="sum")
optimizer = flow.optim.SGD(model.parameters(), model.lr)
losses = {}
for i in range(0, model.iter_count):
    y_pred = model(x)
    l = loss(y_pred, y)
    if (i + 1) % 50 == 0:
        losses[i + 1] = float(l.numpy())
    optimizer.zero_grad()
    l.backward()
    optimizer.step()
"""


def test_the_least_squares_tutorial_has_its_published_numbers():
    ported = port(PROGRAM)
    assert ported.uncovered == ()
    names = {"__name__": "program"}
    exec(compile(ported.after, "program.py", "exec"), names)
    # The losses that OneFlow's page prints; that of step 200 is the last one that rounding leaves.
    losses = names["losses"]
    assert losses[50] == pytest.approx(0.003451163647696376, rel=1e-4)
    assert losses[100] == pytest.approx(1.965773662959691e-06, rel=0.01)
    assert losses[150] < 5e-9
    assert losses[500] < 5e-11
    np.testing.assert_allclose(names["model"].w.numpy(force=True), [[2.0], [3.0]], atol=2e-6)


class LeastSquares(flow.nn.Graph):
    def __init__(self, lr_sch=False):
        super().__init__()
        self.model = flow.nn.Linear(2, 1, bias=False)
        with flow.no_grad():
            self.model.weight.copy_(flow.tensor([[2.0, 1.0]]))
        self.loss = flow.nn.MSELoss(reduction="sum")
        optimizer = flow.optim.SGD(self.model.parameters(), lr=0.01)
        schedule = flow.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5) if lr_sch else None
        self.add_optimizer(optimizer, lr_sch=schedule)

    def build(self, x, y):
        loss = self.loss(self.model(x), y)
        loss.backward()
        return loss


X = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
Y = np.array([[8], [13], [26], [9]], np.float32)


def test_a_graph_takes_a_step_of_its_optimizer_and_schedule_per_call():
    graph = LeastSquares(lr_sch=True)
    x, y = flow.tensor(X), flow.tensor(Y)
    found = [graph(x, y).item() for _ in range(5)]
    w, expected = np.array([[2.0], [1.0]]), []
    for n in range(5):
        expected.append(((X @ w - Y) ** 2).sum())
        w -= 0.01 * 0.5 ** (n // 2) * X.T @ (2 * (X @ w - Y))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(graph.state_dict()["model"]["weight"].numpy(), w.T, rtol=1e-5)
    with pytest.raises(
        InvalidValueError, match=r"^add_optimizer: optimizers must be added before the first call, got "
    ):
        graph.add_optimizer(flow.optim.SGD(graph.model.parameters()))
    other = LeastSquares()
    other.load_state_dict(graph.state_dict())
    np.testing.assert_allclose(other.model.weight.numpy(force=True), w.T, rtol=1e-5)


def test_a_graph_must_define_build():
    with pytest.raises(MissingAttributeError, match=r"^a Graph must define build, Graph does not; define it"):
        flow.nn.Graph()(flow.ones(1))


def test_names_are_adjoints_own_objects_and_defaults_are_oneflows():
    assert flow.nn.Linear is adjoint.nn.Linear
    assert flow.optim.SGD is adjoint.optim.SGD
    assert flow.utils.data.DataLoader is adjoint.utils.data.DataLoader
    assert flow.nn.functional.relu is adjoint.nn.functional.relu
    assert flow.optim.AdamW(flow.nn.Linear(1, 1).parameters()).param_groups[0]["weight_decay"] == 0
    assert not flow.cuda.is_available()
    assert {"nn", "optim", "tensor"} <= set(dir(flow))


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (flow, "sbp", r"^oneflow\.sbp is not covered, because training runs on the cores of one machine; leave it out"),
        (flow.nn, "COCOReader", r"^oneflow\.nn\.COCOReader is not covered; look for it in adjoint\.nn"),
        (flow.optim, "RMSprop", r"^oneflow\.optim\.RMSprop is not covered; use adjoint\.optim\.RMSprop, which adds"),
    ],
)
def test_other_names_say_what_to_use(module, name, message):
    with pytest.raises(MissingAttributeError, match=message):
        getattr(module, name)
