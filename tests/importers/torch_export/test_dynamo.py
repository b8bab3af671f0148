"""``torch.compile(backend="adjoint")`` gives the results, gradients and buffers of PyTorch."""

import copy

import numpy as np
import pytest

from adjoint.importers.torch_export.dynamo import backend

torch = pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore")
def test_training_with_a_compiled_module_is_pytorchs():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3, bias=False),
        torch.nn.BatchNorm2d(2),
        torch.nn.ReLU(inplace=True),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 3),
    )
    theirs = copy.deepcopy(module)
    compiled = torch.compile(module, backend=backend)
    pairs = [(compiled, module), (theirs, theirs)]
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for _, one in pairs]
    for n in (3, 3, 5):
        x, y, losses = torch.randn(n, 1, 4, 4), torch.arange(n) % 3, []
        for (called, _), optimizer in zip(pairs, optimizers, strict=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(called(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for (name, a), b in zip(module.state_dict().items(), theirs.state_dict().values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=name)
    with torch.no_grad():
        np.testing.assert_allclose(compiled.eval()(x), theirs.eval()(x), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_the_backward_pass_drops_the_same_elements():
    x = torch.ones(200, requires_grad=True)
    compiled = torch.compile(lambda x: (torch.nn.functional.dropout(x, 0.5), x.shape[0]), backend=backend)
    for _ in range(2):
        x.grad = None
        y, size = compiled(x)
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())
        assert (size, set(y.tolist())) == (200, {0.0, 2.0})


@pytest.mark.filterwarnings("ignore")
def test_what_adjoint_does_not_have_is_refused():
    compiled = torch.compile(lambda x: torch.special.i0(x), backend=backend)
    with pytest.raises(
        Exception, match=r"torch.compile: every operator must be one that adjoint has, got aten::i0|special_i0"
    ):
        compiled(torch.ones(2))
