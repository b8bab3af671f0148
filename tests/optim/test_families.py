"""The adaptive optimizers against NumPy float64 and PyTorch: all in one program, a hundred steps.

The formulas are in `tests.optim.reference`, and were compared with PyTorch 2.13 when they were written.
"""

import numpy as np
import pytest

from adjoint import compile, optim
from adjoint.errors import AdjointError
from adjoint.ir import TensorType
from adjoint.tensor.tensor import from_array
from tests.optim import reference
from tests.optim.stepping import Stepper

STEPS = 100
RNG = np.random.default_rng(5)
STARTS = [RNG.standard_normal((4, 3)).astype(np.float32), (1 + 0.3 * RNG.standard_normal(3)).astype(np.float32)]
GRADS = [RNG.standard_normal((STEPS, *start.shape)).astype(np.float32) for start in STARTS]
MATRIX = ("Muon",)

#: Optimizer, its settings, the formula, and its settings where they have other names.
CASES = [
    ("NAdam", {}, reference.nadam, {}),
    ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1}, reference.nadam, {"weight_decay": 0.1, "psi": 0.1}),
    (
        "NAdam",
        {"weight_decay": 0.1, "decoupled_weight_decay": True},
        reference.nadam,
        {"weight_decay": 0.1, "decoupled": True},
    ),
    ("RAdam", {"weight_decay": 0.1}, reference.radam, None),
    (
        "RAdam",
        {"betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True},
        reference.radam,
        {"betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled": True},
    ),
    ("Adamax", {"weight_decay": 0.1}, reference.adamax, None),
    ("RMSprop", {"weight_decay": 0.1}, reference.rmsprop, None),
    ("RMSprop", {"centered": True, "momentum": 0.5, "alpha": 0.9}, reference.rmsprop, None),
    ("Adagrad", {}, reference.adagrad, None),
    (
        "Adagrad",
        {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
        reference.adagrad,
        {"lr_decay": 0.1, "weight_decay": 0.1, "initial": 0.5},
    ),
    ("Adadelta", {"weight_decay": 0.1, "rho": 0.8}, reference.adadelta, None),
    ("Rprop", {"etas": (0.4, 1.3), "step_sizes": (1e-3, 0.05)}, reference.rprop, None),
    ("ASGD", {"lambd": 0.01, "weight_decay": 0.1}, reference.asgd, None),
    ("Adafactor", {}, reference.adafactor, None),
    ("Adafactor", {"lr": 0.1, "eps": (1e-4, 1e-2), "d": 1.5, "weight_decay": 0.1}, reference.adafactor, None),
    ("Lion", {"lr": 1e-3, "weight_decay": 0.1}, reference.lion, None),
    ("LAMB", {}, reference.lamb, None),
    ("LARS", {"weight_decay": 0.1, "nesterov": True}, reference.lars, None),
    ("Muon", {}, reference.muon, None),
    (
        "Muon",
        {"adjust_lr_fn": "match_rms_adamw", "nesterov": False},
        reference.muon,
        {"match": True, "nesterov": False},
    ),
    ("SGD", {"lr": 0.1, "momentum": 0.9}, reference.sgd, None),
]


def leaf(array):
    return from_array(np.array(array), requires_grad=True)


def read(tensor):
    return np.array(tensor.numpy(force=True))


def trained(made, grads):
    """Run the steps of optimizers, each of which has its own copies of the parameters."""
    for step in range(len(grads[0])):
        for optimizer in made:
            for group in optimizer.param_groups:
                for param, grad in zip(group["params"], grads, strict=False):
                    param.grad = from_array(grad[step])
            optimizer.step()
        read(made[0].param_groups[0]["params"][0])  # runs the steps of all


@pytest.fixture(scope="module")
def optimizers():
    """All cases after a hundred steps."""
    made = []
    for name, settings, _, _ in CASES:
        made.append(getattr(optim, name)([leaf(x) for x in STARTS[: 1 if name in MATRIX else 2]], **settings))
    trained(made, GRADS)
    return made


def check(case, optimizer, gradients):
    """Compare the parameters with the formula."""
    name, settings, formula, named = case
    for param, start, grads in zip(optimizer.param_groups[0]["params"], STARTS, gradients, strict=False):
        wide = grads.astype(np.float64)
        *_, expected = formula(start.astype(np.float64), wide, **(settings if named is None else named))
        np.testing.assert_allclose(read(param), expected, rtol=1e-5, atol=1e-5, err_msg=f"{name} {settings}")


def test_a_hundred_steps_agree_with_the_formulas(optimizers):
    for case, optimizer in zip(CASES, optimizers, strict=True):
        check(case, optimizer, GRADS)


def test_the_state_has_the_names_of_pytorch(optimizers):
    """The keys of ``torch.optim.X(...).state_dict()["state"][0]`` in PyTorch 2.13."""
    expected = {
        "NAdam": {"exp_avg", "exp_avg_sq", "mu_product", "step"},
        "RAdam": {"exp_avg", "exp_avg_sq", "step"},
        "Adamax": {"exp_avg", "exp_inf", "step"},
        "RMSprop": {"square_avg", "step"},
        "Adagrad": {"step", "sum"},
        "Adadelta": {"acc_delta", "square_avg", "step"},
        "Rprop": {"prev", "step", "step_size"},
        "ASGD": {"ax", "eta", "mu", "step"},
        "Adafactor": {"col_var", "row_var", "step"},
        "Muon": {"momentum_buffer"},
    }
    found = {}
    for optimizer in optimizers:
        found.setdefault(type(optimizer).__name__, optimizer.state_dict()["state"])
    assert {name: set(found[name][0]) for name in expected} == expected
    assert set(found["Adafactor"][1]) == {"step", "variance"}
    assert found["Adafactor"][0]["row_var"].shape == (4, 1)
    assert float(found["NAdam"][0]["step"]) == STEPS


def test_a_loaded_state_continues(optimizers):
    """Copies that load the state agree with the formulas after three more steps."""
    copies = []
    for (name, settings, _, _), optimizer in zip(CASES, optimizers, strict=True):
        params = [leaf(read(param)) for param in optimizer.param_groups[0]["params"]]
        copies.append(getattr(optim, name)(params, **settings))
        copies[-1].load_state_dict(optimizer.state_dict())
    more = [grads[:3] for grads in GRADS]
    trained(copies, more)
    for case, copied in zip(CASES, copies, strict=True):
        check(case, copied, [np.concatenate(pair) for pair in zip(GRADS, more, strict=True)])


def test_a_hundred_steps_agree_with_pytorch(optimizers):
    torch = pytest.importorskip("torch")
    for (name, settings, _, _), optimizer in zip(CASES, optimizers, strict=True):
        if not hasattr(torch.optim, name) or name in MATRIX:  # PyTorch's Muon rounds to bfloat16
            continue
        params = [torch.nn.Parameter(torch.tensor(x)) for x in STARTS]
        theirs = getattr(torch.optim, name)(params, **settings)
        for step in range(len(GRADS[0])):
            for param, grads in zip(params, GRADS, strict=True):
                param.grad = torch.tensor(grads[step])
            theirs.step()
        expected = theirs.state_dict()
        own = optimizer.state_dict()
        assert set(expected["param_groups"][0]) <= set(own["param_groups"][0])
        for param, other in zip(optimizer.param_groups[0]["params"], params, strict=True):
            np.testing.assert_allclose(read(param), other.detach().numpy(), rtol=1e-5, atol=1e-5, err_msg=name)


def test_three_steps_by_hand():
    """``p = [1, -2, 3]`` with the gradient ``[0.1, 0.2, -0.3]`` in every step."""
    makers = [
        (lambda p: optim.SGD(p, 0.1), [0.97, -2.06, 3.09]),
        (lambda p: optim.SGD(p, 0.1, 0.9), [0.9439, -2.1122, 3.1683]),
        (lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True), [0.91951, -2.16098, 3.24147]),
        (lambda p: optim.AdamW(p, 0.1, weight_decay=0.2), [0.647152, -2.176424, 3.117616]),
        (lambda p: optim.Lion(p, 0.1), [0.7, -2.3, 3.3]),
        (lambda p: optim.Rprop(p, 0.1), [0.636, -2.364, 3.364]),
    ]
    made = [make([leaf(np.array([1, -2, 3], np.float32))]) for make, _ in makers]
    trained(made, [np.tile(np.array([0.1, 0.2, -0.3], np.float32), (3, 1))])
    for optimizer, (_, expected) in zip(made, makers, strict=True):
        np.testing.assert_allclose(read(optimizer.param_groups[0]["params"][0]), expected, atol=1e-5)


def test_three_steps_by_hand_in_graphs():
    """The same for the functions that a trainer's step contains, of which the last one is compiled."""
    start, grad = np.array([1, -2, 3], np.float32), np.array([0.1, 0.2, -0.3], np.float32)
    for optimizer, run, expected in [
        (optim.SGD(0.1), None, [0.97, -2.06, 3.09]),
        (optim.SGD(0.1, 0.9), None, [0.9439, -2.1122, 3.1683]),
        (optim.SGD(0.1, 0.9, nesterov=True), None, [0.91951, -2.16098, 3.24147]),
        (optim.AdamW(0.1, weight_decay=0.2), compile, [0.647152, -2.176424, 3.117616]),
    ]:
        stepper = Stepper(optimizer, {"w": start}, run)
        for _ in range(3):
            after = stepper.step({"w": grad})["w"]
        np.testing.assert_allclose(after, expected, atol=6e-7)


def test_averages_of_asgd_begin_at_t0():
    stepper = Stepper(optim.ASGD(0.1, lambd=0.0, t0=1), {"w": np.array([1.0])})
    path = [stepper.step({"w": np.array([1.0])})["w"][0] for _ in range(4)]
    # PyTorch's weight of the new parameter at update t is 1 / max(1, t - 1 - t0).
    expected = path[0]
    for p, weight in zip(path[1:], (1.0, 1.0, 0.5), strict=True):
        expected += weight * (p - expected)
    np.testing.assert_allclose(stepper.state["w_ax"], expected)


def test_norms_of_zero_do_not_divide():
    zeros = {"w": np.zeros((2, 2))}
    for optimizer in (optim.LAMB(0.1), optim.LARS(0.1), optim.Adafactor(), optim.Muon()):
        after = Stepper(optimizer, zeros).step({"w": np.zeros((2, 2))})["w"]
        np.testing.assert_array_equal(after, 0.0)
    ones = Stepper(optim.LARS(0.1, momentum=0.0), zeros).step({"w": np.ones((2, 2))})["w"]
    np.testing.assert_allclose(ones, -0.1)


def test_maximize_ascends():
    for name in ("NAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Rprop", "ASGD", "Adafactor", "Lion", "LAMB"):
        up = Stepper(getattr(optim, name)(maximize=True), {"w": np.array([1.0])}).step({"w": np.array([1.0])})["w"]
        assert up > 1.0, name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.RMSprop(alpha=1.0), "scale_by_rms: alpha must be at least 0 and below 1, got 1.0"),
        (lambda: optim.NAdam(lr=-1.0), "NAdam: lr must be finite and at least 0, got -1.0"),
        (lambda: optim.LARS(nesterov=True, momentum=0), "LARS: nesterov requires momentum above 0, got momentum=0; set "
         "momentum=0.9"),
        (lambda: optim.Rprop(etas=(1.5, 1.2)), "scale_by_rprop: etas must be one number between 0 and 1 and one above "
         "1, got (1.5, 1.2); write etas=(0.5, 1.2)"),
        (lambda: optim.Rprop(etas=1), "scale_by_rprop: etas must be two numbers, got 1; write etas=(a, b)"),
        (lambda: optim.Adafactor(d=0.5), "Adafactor: d must be at least 1, got 0.5"),
        (lambda: optim.Adafactor(beta2_decay=0.5), "Adafactor: beta2_decay must be at most 0, got 0.5"),
        (lambda: optim.Adafactor(eps=1e-3), "Adafactor: eps must be two numbers, got 0.001; write eps=(None, 1e-3)"),
        (lambda: optim.Muon(ns_steps=100), "Muon: ns_steps must be from 0 to 99, got 100"),
        (lambda: optim.Muon(ns_coefficients=(1, 2)), "Muon: ns_coefficients must be three numbers, got (1, 2); write "
         "(3.4445, -4.775, 2.0315)"),
        (lambda: optim.Muon(adjust_lr_fn="rms"), "Muon: adjust_lr_fn must be 'original' or 'match_rms_adamw', "
         "got 'rms'"),
        (lambda: optim.Muon().function({"b": TensorType((3,))}), "Muon: parameters must be matrices, got b of f32[3]; "
         "give it to another optimizer, such as AdamW"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(AdjointError) as error:
        make()
    assert error.value.message == message


def test_a_state_of_another_shape_is_refused():
    optimizer = optim.Adafactor([leaf(np.ones((2, 3), np.float32))])
    state = {"step": np.float32(1), "row_var": np.ones((3, 1)), "col_var": np.ones((1, 3))}
    with pytest.raises(AdjointError) as error:
        optimizer.load_state_dict({"state": {0: state}, "param_groups": optimizer.state_dict()["param_groups"]})
    assert error.value.message == (
        "load_state_dict: row_var of parameter 0 must have the shape (2, 1), got (3, 1); load the state of the same "
        "model"
    )
