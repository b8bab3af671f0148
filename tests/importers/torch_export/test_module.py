"""Modules that evaluate graphs: trained as a whole, with a mode, tied parameters and buffers."""

from types import SimpleNamespace

import numpy as np

import adjoint as torch
from adjoint import nn
from adjoint.importers.torch_export.graph import Input, Outputs
from adjoint.importers.torch_export.module import ImportedModule, LossOf, OwnLoss, fill
from tests.importers.torch_export.graphs import program


def source(parameters=(), buffers=(), modules=(), transient=()):
    """What `fill` reads of a module of PyTorch."""
    return SimpleNamespace(
        _parameters=dict(parameters),
        _buffers=dict(buffers),
        _modules=dict(modules),
        _non_persistent_buffers_set=set(transient),
    )


def weight(array, trained=True):
    return SimpleNamespace(array=np.array(array, np.float32), requires_grad=trained)


def test_parts_have_their_names_and_tied_parameters_are_one():
    shared, frozen = weight([1, 2]), weight([3], False)
    layer = source({"weight": shared, "bias": None})
    module = ImportedModule(None)
    seen = fill(
        module,
        source({"top": frozen}, {"count": weight(0), "table": weight(1)}, {"0": layer, "again": layer,
               "tied": source({"weight": shared})}, {"table"}),
        lambda one: one.array,
        {},
    )  # fmt: skip
    assert list(module.state_dict()) == ["top", "count", "0.weight", "again.weight", "tied.weight"]
    assert [name for name, _ in module.named_parameters()] == ["top", "0.weight"]
    assert seen[id(shared)] is module.get_parameter("tied.weight")
    assert not module.get_parameter("top").requires_grad
    assert sorted(module.named_tensors()) == ["0.weight", "again.weight", "count", "table", "tied.weight", "top"]


def linear(training, shapes, dtypes):  # noqa: ARG001
    """y = x @ w, times a factor that depends on the mode, after counting the calls in training."""
    factor = 1.0 if training else 10.0
    counting = {"count": ("add_.Tensor", ("%n", 1))} if training else {}
    return program(
        {**counting, "y": ("mv.default", ("%x", "%w")), "z": ("mul.Tensor", ("%y", factor))},
        ["x"],
        inputs=[Input("w", "tensor", "w"), Input("n", "tensor", "n")],
        build=lambda leaves: Outputs(z=leaves[0]),
    )


def test_a_compiled_step_trains_the_module_and_follows_its_mode():
    module = ImportedModule(linear)
    parts = source({"w": weight([1, 2])}, {"n": weight(0)})
    fill(module, parts, lambda one: one.array, {})
    target = ImportedModule(lambda *_: program({"l": ("mse_loss.default", ("%a", "%b"))}, ["a", "b"]))
    model = torch.Model(module, LossOf(target), torch.optim.SGD(module.parameters(), lr=0.1))
    x, y = np.array([[1, 0], [1, 1]], np.float32), np.array([0, 0], np.float32)
    model.train_step.train()
    losses = [model.compiled_step(x, y).item() for _ in range(2)]
    # Gradients of (w0**2 + (w0 + w1)**2) / 2: at (1, 2), (4, 3); then w = (0.6, 1.7).
    np.testing.assert_allclose(losses, [5, (0.6**2 + 2.3**2) / 2], rtol=1e-6)
    assert module.n.item() == 2
    np.testing.assert_allclose(model.predict(x).z, 10 * x @ module.w.detach().numpy(), rtol=1e-6)
    assert module.n.item() == 2


def test_a_loss_is_found_in_what_a_module_returns():
    class Returns(nn.Module):
        def forward(self, x):
            return x

    own = OwnLoss(Returns())
    assert own(3) == 3
    assert own((3, 4)) == 3
    assert own(Outputs(logits=4, loss=3)) == 3
