"""Programs of PyTorch run with only their import lines changed, on adjoint's own objects."""

import math
from pathlib import Path

import numpy as np
import pytest

import adjoint
import adjoint.compat.torch as torch
from adjoint.compat.porting import port
from adjoint.compat.torch import nn, optim
from adjoint.errors import InvalidValueError, MissingAttributeError

PROGRAMS = Path(__file__).parent / "programs"


def results(name):
    """What ``main`` of a program returns that has other import lines."""
    ported = port((PROGRAMS / f"{name}.py").read_text())
    assert ported.uncovered == ()
    names = {"__name__": name}
    exec(compile(ported.after, f"{name}.py", "exec"), names)
    return names["main"]()


def test_a_classifier_is_trained_evaluated_and_restored():
    found = results("quickstart")
    assert found["losses"][0] == pytest.approx(math.log(3), rel=0.3)  # an untrained classifier of three classes
    assert found["losses"][-1] < 0.05
    assert found["accuracy"] > 0.9
    assert found["difference"] == 0
    assert found["rate"] == pytest.approx(0.01 / 4)


def test_a_recurrent_network_learns_to_write():
    found = results("char_rnn")
    assert found["losses"][0] == pytest.approx(math.log(10), rel=0.15)
    assert found["losses"][-1] < 0.6
    assert found["written"].startswith("the ")


def test_a_generator_and_a_discriminator_take_turns():
    found = results("dcgan")
    # At first both outputs are a half: -2 log(1/2) and -log(1/2).
    assert found["discriminator"][0] == pytest.approx(2 * math.log(2), rel=0.01)
    assert found["generator"][0] == pytest.approx(math.log(2), rel=0.01)
    assert found["discriminator"][-1] < found["discriminator"][0]


def test_a_transformer_learns_a_sequence():
    found = results("transformer_lm")
    assert found["losses"][0] == pytest.approx(math.log(11), rel=0.15)
    assert found["losses"][-1] < 0.5
    assert found["rate"] == pytest.approx(0.5 * 0.97**15)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (torch.relu, adjoint.relu),
        (torch.tensor, adjoint.tensor),
        (torch.Tensor, adjoint.Tensor),
        (torch.float32, adjoint.float32),
        (nn.Linear, adjoint.nn.Linear),
        (nn.functional.gelu, adjoint.nn.functional.gelu),
        (optim.AdamW, adjoint.optim.AdamW),
        (optim.lr_scheduler.StepLR, adjoint.optim.lr_scheduler.StepLR),
        (optim.lr_scheduler._LRScheduler, adjoint.optim.lr_scheduler.LRScheduler),
        (torch.utils.data.DataLoader, adjoint.utils.data.DataLoader),
        (torch.linalg.solve, adjoint.linalg.solve),
        (torch.nn.utils.rnn.pad_sequence, adjoint.nn.utils.rnn.pad_sequence),
    ],
)
def test_names_are_adjoints_own_objects(theirs, ours):
    assert theirs is ours


def test_names_of_adjoint_alone_are_not_pytorchs():
    for name in ("SetupTrainer", "IRModule", "segment_sum", "repeat", "cast"):
        assert name not in torch.__all__
    assert "FocalLoss" not in nn.__all__
    assert torch.__version__.startswith("2.")
    assert {"nn", "optim", "backends", "manual_seed"} <= set(dir(torch))


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (torch, "fft", r"^torch\.fft is not covered, because there is no operator for it yet; use numpy\.fft"),
        (torch, "jit", r"^torch\.jit is not covered; use torch\.compile\(function\)"),
        (torch, "arrange", r"^torch\.arrange is not covered; did you mean "),
        (nn, "SyncBatchNorm", r"^torch\.nn\.SyncBatchNorm is not covered; use BatchNorm2d, because training runs in"),
        (optim, "LBFGS", r"^torch\.optim\.LBFGS is not covered; use Adam, because"),
        (
            torch.cuda,
            "Stream",
            r"^torch\.cuda\.Stream is not covered; look for it in adjoint, which computes on the CPU",
        ),
    ],
)
def test_other_names_say_what_to_use(module, name, message):
    with pytest.raises(MissingAttributeError, match=message):
        getattr(module, name)


def test_questions_about_accelerators_are_answered_and_settings_have_no_effect():
    assert not torch.cuda.is_available()
    assert not torch.backends.mps.is_available()
    assert torch.cuda.device_count() == 0
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    torch.use_deterministic_algorithms(True)
    torch.set_num_interop_threads(1)
    torch.set_default_device("cpu")
    assert str(torch.get_default_device()) == "cpu"
    with pytest.raises(InvalidValueError, match=r"^there is one device, 'cpu', got 'cuda'; use device='cpu'"):
        torch.set_default_device("cuda")


def test_mixed_precision_of_another_device_has_no_effect():
    a = torch.full((4, 4), 1 + 2.0**-10)  # which bfloat16 rounds to 1
    with torch.cuda.amp.autocast():
        assert (a @ a).numpy()[0, 0] == np.float32(4 * (1 + 2.0**-10) ** 2)
    scaler = torch.cuda.amp.GradScaler()
    assert scaler.scale(torch.tensor(2.0)).item() == 2.0


def test_compile_takes_functions_modules_and_pytorchs_settings():
    layer = nn.Linear(2, 1)
    assert torch.compile(layer, mode="reduce-overhead") is layer

    @torch.compile(fullgraph=True)
    def cube(x):
        return x * x * x

    assert cube(torch.tensor([2.0, 3.0])).tolist() == [8.0, 27.0]
    assert torch.compile(math.sqrt, disable=True) is math.sqrt


def test_checkpoint_computes_the_same_derivative():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    torch.utils.checkpoint.checkpoint(lambda v: torch.exp(v) * v, x, use_reentrant=False).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.5, 2.0]) * [1.5, 3.0], rtol=1e-5)


def test_files_for_tensorboard_need_the_extra(monkeypatch):
    monkeypatch.setattr("adjoint.compat.torch.utils.tensorboard.find_spec", lambda _: None)
    with pytest.raises(InvalidValueError, match=r"^SummaryWriter requires tensorboardX, which is not installed; run "):
        torch.utils.tensorboard.SummaryWriter("runs")


def test_jacobians_have_pytorchs_names():
    found = torch.func.jacrev(lambda v: v * v)(torch.tensor([1.0, 3.0]))
    assert found.tolist() == [[2.0, 0.0], [0.0, 6.0]]
