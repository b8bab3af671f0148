"""Edge cases of functions and losses, with numbers of PyTorch 2.13."""

import adjoint as torch
from adjoint.nn import functional
from tests.tensor.comparing import check


def test_padding_that_also_removes():
    x = torch.arange(1.0, 7.0).reshape(1, 2, 3)
    check(
        (functional.pad(x, (-2, 3), "replicate"), [[[3, 3, 3, 3], [6, 6, 6, 6]]]),
        (functional.pad(x, (-1, 1), "reflect"), [[[2, 3, 2], [5, 6, 5]]]),
        (functional.pad(x, (-1, 2), "circular"), [[[2, 3, 2, 3], [5, 6, 5, 6]]]),
        (functional.pad(x > 2, (-2, 1), value=1.0), [[[True, True], [True, True]]]),
    )


def test_settings_and_shapes_at_the_limit():
    x = torch.tensor([[3.0, 0.0, -4.0]])
    image = torch.arange(4.0).reshape(1, 1, 2, 2)
    check(
        (functional.prelu(x, torch.tensor(0.5)), [[3.0, 0.0, -2.0]]),
        (functional.prelu(torch.tensor(-4.0), torch.tensor([0.5])), -2.0),
        (functional.hardtanh(x, 1.0, 1.0), [[1.0, 1.0, 1.0]]),
        (functional.normalize(x, p=0.0, dim=1), [[1.5, 0.0, -2.0]]),
        (functional.softsign(torch.tensor([1, -3])), [0.5, -0.75]),
        (functional.tanhshrink(torch.tensor([0, 1])), [0.0, 0.238405844]),
        (functional.pixel_shuffle(torch.zeros(1, 4, 0, 2), 2).sum(0)[0, :, 0], []),
        (functional.pixel_unshuffle(torch.zeros(1, 1, 0, 2), 2)[0, 3, :, 0], []),
        (functional.avg_pool2d(image, (2,), padding=(0,)), [[[[1.5]]]]),
    )
    assert tuple(functional.pixel_shuffle(torch.zeros(1, 4, 0, 2), 2).shape) == (1, 1, 0, 4)
    assert tuple(functional.pixel_unshuffle(torch.zeros(1, 1, 0, 2), 2).shape) == (1, 4, 0, 1)
    assert torch.normal(0.0, 1.0, (2,), device="cpu").shape == (2,)


def test_padding_has_no_gradient_in_bags():
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    table, ids, offsets = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 2, 1]), torch.tensor([0])
    bags = functional.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights, padding_idx=2)
    check((bags, [[6.0, 10.0]]), (torch.autograd.grad(bags.sum(), weights)[0], [1.0, 0.0, 5.0]))


def test_losses_of_unusual_targets():
    x, targets, variances = torch.tensor([0.5, 2.0]), torch.tensor([3.0, -1.0]), torch.tensor([1.0, 4.0])
    means = torch.tensor([1.0, 2.0], requires_grad=True)
    found = functional.gaussian_nll_loss(means, torch.tensor([0.5]), variances, reduction="none")
    check(
        (functional.hinge_embedding_loss(x, targets, reduction="none"), [1.0, 0.0]),
        (found, [0.125, 0.97439718]),
        (torch.autograd.grad(found.sum(), means)[0], [0.5, 0.375]),
    )
