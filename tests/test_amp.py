"""`adjoint.amp`: what computes in half floats within `autocast`, compared with PyTorch's table of dtypes."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import nn, optim
from adjoint.errors import InvalidValueError
from adjoint.nn import functional as F  # noqa: N812

X = torch.tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
W = torch.tensor(np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32))


def test_a_context_that_is_off_has_no_effect():
    with torch.amp.autocast("cpu", enabled=False), torch.autocast("cuda", dtype=torch.float16):
        assert (X @ W).dtype == torch.float32
    assert torch.amp.GradScaler is optim.GradScaler


def test_dtypes_are_those_of_pytorch():
    """What ``torch.autocast("cpu", dtype=torch.bfloat16)`` of PyTorch 2.13 gives for the same calls."""
    images, kernels = torch.ones(2, 4, 5, 5), torch.ones(4, 4, 3, 3)
    row, four, half, half_images = torch.ones(6), torch.ones(4), X.bfloat16(), images.bfloat16()
    labels = torch.tensor([0, 1, 2, 3])
    with torch.autocast("cpu"):
        low = {
            "matmul": X @ W,
            "rmatmul": X.numpy() @ W,
            "mixed": half @ W,
            "mm": torch.mm(X, W),
            "bmm": torch.bmm(images[0], images[0]),
            "addmm": torch.addmm(X, X, W),
            "baddbmm": torch.baddbmm(images[0], images[0], images[0]),
            "einsum": torch.einsum("ij,jk->ik", X, W),
            "tensordot": torch.tensordot(X, W, 1),
            "linear": F.linear(X, W, row),
            "conv2d": F.conv2d(images, kernels),
            "conv_transpose2d": F.conv_transpose2d(images, kernels),
            "attention": F.scaled_dot_product_attention(images, images, images),
            "layer_norm": F.layer_norm(half, (6,), row, row),
            "rms_norm": F.rms_norm(half, (6,), row),
            "batch_norm": F.batch_norm(half_images, torch.zeros(4), torch.ones(4), four, four, True),
            "group_norm": F.group_norm(half_images, 2, four, four),
            "instance_norm": F.instance_norm(half_images),
            "prelu": F.prelu(half, row),
            "softmax": F.softmax(half, -1),
            "gelu": F.gelu(half),
            "sum": half.sum(),
            "addbmm": torch.addbmm(images[0, 0], images[0], images[0]),
            "inner": torch.inner(X, X),
            "matrix_power": W.matrix_power(2),
            "rnn": nn.RNN(6, 2)(X)[0],
            "lstm": nn.LSTM(6, 2)(X)[0],
            "gru of half": nn.GRU(6, 2)(half)[0],
            "lstm cell of half": nn.LSTMCell(6, 2)(half)[0],
            "prelu of f32": F.prelu(X, row),
            "encoder": nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)(X[None])[0] @ W,
        }
        full = {
            "cross_entropy": F.cross_entropy(half, labels),
            "mse_loss": F.mse_loss(half, half),
            "nll_loss": nn.NLLLoss()(half, labels),
            "bce_with_logits": nn.BCEWithLogitsLoss()(half, half),
            "add": half + X,
            "prod": half.prod(),
            "trace": half.trace(),
            "quantile": half.quantile(0.5),
            "cdist": torch.cdist(half, half),
            "inverse": torch.eye(2).bfloat16().inverse(),
            "solve": torch.linalg.solve(torch.eye(2).bfloat16(), torch.ones(2, 2).bfloat16()),
            "ctc_loss": F.ctc_loss(half.view(4, 1, 6), labels[None, 1:3], (4,), (2,)),
            "local_response_norm": F.local_response_norm(half_images, 2),
            "avg_pool3d": F.avg_pool3d(half_images, 2),
            "grid_sample": F.grid_sample(half_images, torch.zeros(2, 3, 3, 2).bfloat16(), align_corners=False),
            "gru": nn.GRU(6, 2)(X)[0],
            "lstm cell": nn.LSTMCell(6, 2)(X)[0],
            "cat": torch.cat([half, X]),
            "where": torch.where(half > 0, half, X),
            "embedding": F.embedding(labels, W),
            "layer_norm": F.layer_norm(X, (6,), row, row),
        }
        assert (X.double() @ W.double()).dtype == torch.float64
    assert {name: x.dtype for name, x in low.items()} == dict.fromkeys(low, torch.bfloat16)
    assert {name: x.dtype for name, x in full.items()} == dict.fromkeys(full, torch.float32)
    assert (X @ W).dtype == torch.float32


def test_contexts_nest_decorate_and_end_after_errors():
    @torch.autocast("cpu", dtype=torch.float16)
    def product():
        return X @ W

    assert product().dtype == torch.float16
    with torch.autocast("cpu"):
        with torch.autocast("cpu", enabled=False):
            assert (X @ W).dtype == torch.float32
        assert product().dtype == torch.float16
        assert (X @ W).dtype == torch.bfloat16
    with pytest.raises(ZeroDivisionError), torch.autocast("cpu"):
        1 / 0  # noqa: B018
    assert (X @ W).dtype == torch.float32


def test_compiled_functions_are_traced_for_each_context():
    product = torch.compile(lambda: X @ W)
    assert product().dtype == torch.float32
    with torch.autocast("cpu"):
        assert product().dtype == torch.bfloat16
    assert product().dtype == torch.float32


def test_products_add_in_f32_and_gradients_are_f32():
    x = torch.ones(1, 4096)
    weight = torch.ones(4096, 1, requires_grad=True)
    with torch.autocast("cpu"):
        # A sum in bf16 would stop growing at 256.
        product = x @ weight
    product.sum().backward()
    assert float(product) == 4096.0
    assert weight.grad.dtype == torch.float32
    np.testing.assert_array_equal(weight.grad.numpy(), 1.0)


def test_training_in_f16_with_a_scaler_follows_f32():
    def losses(enabled):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=enabled)
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
                loss = F.cross_entropy(model(X), torch.tensor([0, 1, 2, 0]))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append(loss.item())
        return found

    half, full = losses(True), losses(False)
    assert half != full
    # f16 rounds to 11 bits.
    np.testing.assert_allclose(half, full, rtol=5e-3)


def test_other_dtypes_are_refused():
    with pytest.raises(InvalidValueError) as error:
        torch.autocast("cpu", dtype=torch.float64)
    assert error.value.message == "autocast: dtype must be bfloat16 or float16, got float64; use bfloat16"
