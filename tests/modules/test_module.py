"""Attributes, walking, state dictionaries, hooks, modes, conversion and text of modules."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from adjoint import losses, nn
from adjoint.errors import InvalidValueError, MissingAttributeError, TypeRuleError
from adjoint.modules import Module, RemovableHandle
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter


def tensor(*elements):
    return from_array(np.array(elements, np.float32))


class Scale(Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = Parameter(tensor(factor))
        self.register_buffer("calls", tensor(0.0))
        self.register_buffer("scratch", tensor(7.0), persistent=False)

    def forward(self, input, shift=0.0):
        return input * self.factor + shift


class Model(Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Scale(), Scale(3.0)
        self.second.factor = self.first.factor
        self.head = nn.Sequential(nn.Linear(2, 1))
        self.nothing = None

    def forward(self, input):
        return self.head(self.second(self.first(input)))


def message(error, call):
    with pytest.raises(error) as caught:
        call()
    return caught.value.message


def test_parts_have_pytorchs_names_and_tied_ones_count_once():
    model = Model()
    assert [n for n, _ in model.named_parameters()] == ["first.factor", "head.0.weight", "head.0.bias"]
    assert [n for n, _ in model.named_parameters(remove_duplicate=False)] == [
        *("first.factor", "second.factor", "head.0.weight", "head.0.bias"),
    ]
    assert [n for n, _ in model.named_parameters(prefix="m", recurse=False)] == []
    assert [n for n, _ in model.named_buffers()] == [
        f"{a}.{b}" for a in ("first", "second") for b in ("calls", "scratch")
    ]
    assert [n for n, _ in model.named_modules()] == ["", "first", "second", "head", "head.0"]
    assert [n for n, _ in model.named_children()] == ["first", "second", "head"]
    assert len(list(model.modules())) == 5
    assert len(list(model.children())) == 3
    assert len(list(model.buffers())) == 4
    assert model.get_submodule("head.0") is model.head[0]
    assert model.get_submodule("") is model
    assert model.get_parameter("head.0.bias") is model.head[0].bias
    assert model.get_buffer("first.calls") is model.first.calls


def test_parameters_are_labelled_by_their_longest_name():
    model = Model()
    list(model.head.parameters())
    assert model.head[0].weight._label == "0.weight"
    list(model.parameters())
    list(model.head.parameters())
    assert [p._label for p in model.parameters()] == ["first.factor", "head.0.weight", "head.0.bias"]


def test_parameters_and_modules_are_plain_attributes():
    model = Model()
    assert vars(model)["first"] is model.first
    assert vars(model.first)["factor"] is model.first._parameters["factor"]
    del model.second
    assert not hasattr(model, "second")
    model.first = None
    assert [n for n, _ in model.named_parameters()] == ["head.0.weight", "head.0.bias"]
    model.first = Parameter(tensor(1.0))  # another kind of the same name
    assert [n for n, _ in model.named_parameters()] == ["first", "head.0.weight", "head.0.bias"]
    assert "first" not in model._modules
    model.first = None
    model.head[0].bias = None
    assert list(model.state_dict()) == ["head.0.weight"]


class Early(Module):
    def __init__(self, what):
        self.part = what


def test_what_attributes_refuse():
    model = Model()
    early = (
        "Early: super().__init__() must come before the first parameter, buffer or module, got 'part'; call it at the "
        "beginning of __init__"
    )
    assert message(MissingAttributeError, lambda: Early(Scale())) == early
    assert message(MissingAttributeError, lambda: Early(Parameter(tensor(1.0)))) == early
    Early(3)
    assert message(TypeRuleError, lambda: setattr(model.first, "factor", tensor(1.0))) == (
        "Scale: the parameter 'factor' must be a Parameter or None, got a Tensor; wrap it as nn.Parameter(...)"
    )
    assert message(TypeRuleError, lambda: setattr(model, "head", 3)) == (
        "Model: the module 'head' must be a Module or None, got an int; delete the module first"
    )
    assert message(TypeRuleError, lambda: setattr(model.first, "calls", 3)) == (
        "Scale: the buffer 'calls' must be a Tensor or None, got an int; delete the buffer first"
    )
    assert message(InvalidValueError, lambda: model.register_buffer("a.b", None)) == (
        "register_buffer: a name must be a string without dots, got 'a.b'; rename it"
    )
    assert message(InvalidValueError, lambda: model.add_module("forward", Scale())) == (
        "add_module: the name must be free, got 'forward', which Model has; rename it"
    )
    assert message(TypeRuleError, lambda: model.register_parameter("p", tensor(1.0))) == (
        "Model: the parameter 'p' must be a Parameter or None, got a Tensor; wrap it as nn.Parameter(...)"
    )
    assert message(MissingAttributeError, lambda: model.get_submodule("head.3.x")) == (
        "get_submodule: Sequential has no submodule '3', got 'head.3.x'; named_modules() lists the names"
    )
    assert message(MissingAttributeError, lambda: model.get_parameter("head.0.w")) == (
        "get_parameter: Linear has no parameter 'w', got 'head.0.w'; named_parameters() lists the names"
    )
    assert message(TypeRuleError, lambda: Module()(1)) == (
        "Module: a module that is called must define forward(self, ...), got none; add it"
    )


def test_state_dict_round_trip():
    model, other = Model(), Model()
    state = model.state_dict()
    assert list(state) == [
        "first.factor",
        "first.calls",
        "second.factor",
        "second.calls",
        "head.0.weight",
        "head.0.bias",
    ]
    assert not state["first.factor"].requires_grad
    assert model.state_dict(keep_vars=True)["first.factor"] is model.first.factor
    assert next(iter(model.state_dict(prefix="m."))) == "m.first.factor"
    state["first.calls"] = np.array([4], np.int64)  # arrays of any dtype
    weight = other.head[0].weight
    keys = other.load_state_dict(state)
    assert repr(keys) == "<All keys matched successfully>"
    assert other.head[0].weight is weight
    assert weight.requires_grad
    np.testing.assert_array_equal(weight.numpy(force=True), model.head[0].weight.numpy(force=True))
    assert other.first.calls.tolist() == [4.0]
    keys = other.load_state_dict({"first.factor": tensor(5.0), "more": 1}, strict=False)
    assert keys.unexpected_keys == ["more"]
    assert keys.missing_keys[:2] == ["first.calls", "second.factor"]
    assert repr(keys).startswith("IncompatibleKeys(missing_keys=['first.calls'")
    assert other.second.factor.tolist() == [5.0]
    given = Parameter(tensor(9.0))
    other.load_state_dict({"first.factor": given}, strict=False, assign=True)
    assert other.first.factor is given


def test_what_load_state_dict_refuses():
    model = nn.Linear(2, 1)
    before = model.bias.tolist()
    state = {"bias": np.ones(1), "weights": np.ones((1, 2))}
    assert message(InvalidValueError, lambda: model.load_state_dict(state)) == (
        "load_state_dict: the names and shapes must be those of Linear, got no weight and the unexpected weights; pass "
        "strict=False to load what agrees"
    )
    state = {"bias": np.ones(1), "weight": np.ones((2, 1))}
    assert message(InvalidValueError, lambda: model.load_state_dict(state, strict=False)) == (
        "load_state_dict: the names and shapes must be those of Linear, got weight of shape [2, 1] for [1, 2]; change "
        "the model or the dictionary"
    )
    assert message(TypeRuleError, lambda: model.load_state_dict({"bias": "x", "weight": 1})) == (
        "load_state_dict: the entries must be tensors or arrays, got a str for 'bias'; convert it to a NumPy array"
    )
    assert message(TypeRuleError, lambda: model.load_state_dict([1])) == (
        "load_state_dict: a state dictionary must map names to tensors, got a list; pass the result of state_dict()"
    )
    assert model.bias.tolist() == before  # nothing has been loaded


def test_modes_and_freezing():
    model = Model()
    assert model.eval() is model
    assert not any(m.training for m in model.modules())
    assert model.train().head[0].training
    model.first.requires_grad_(False)
    assert [p.requires_grad for p in model.parameters()] == [False, True, True]
    weight = model.head[0].weight
    weight.grad = tensor([np.nan, 1.0])
    model.zero_grad(set_to_none=False)
    assert weight.grad.tolist() == [[0.0, 0.0]]
    model.zero_grad()
    assert weight.grad is None
    seen = []
    assert model.apply(lambda m: seen.append(type(m).__name__)) is model
    assert seen == ["Scale", "Scale", "Linear", "Sequential", "Model"]
    assert message(TypeRuleError, lambda: model.train("no")) == (
        "train: the mode must be a bool, got 'no'; pass True or False"
    )


def test_conversion_keeps_parameters_and_integers():
    norm = nn.BatchNorm1d(2)
    weight = norm.weight
    assert norm.double() is norm
    assert norm.weight is weight
    assert {p.dtype.name for p in (weight, norm.running_mean)} == {"float64"}
    assert norm.num_batches_tracked.dtype == np.int64
    assert norm.half().weight.dtype == np.float16
    assert norm.bfloat16().weight.dtype.name == "bfloat16"
    assert norm.to("cpu", np.float32).weight.dtype == np.float32
    assert norm.to(from_array(np.ones(1))).float().cpu().bias.dtype == np.float32
    cuda = "there is one device, 'cpu', got 'cuda'; use device='cpu', or leave it out"
    assert message(InvalidValueError, norm.cuda) == cuda
    assert (
        message(TypeRuleError, lambda: norm.to(np.int64))
        == "to: the dtype of a module must be a float, got i64; use f32"
    )


def test_hooks_see_and_replace_arguments_and_results():
    model, seen = Scale(2.0), []
    model.register_forward_pre_hook(lambda _m, args: seen.append(len(args)))
    handle = model.register_forward_pre_hook(lambda _m, args: (args[0] + 1.0,))
    first = model.register_forward_pre_hook(lambda _m, args: args[0] * 10.0, prepend=True)
    named = model.register_forward_pre_hook(lambda _m, args, _kwargs: (args, {"shift": 0.5}), with_kwargs=True)
    model.register_forward_hook(lambda _m, _args, result: result * 3.0)
    with model.register_forward_hook(lambda _m, _args, kwargs, _result: seen.append(kwargs), with_kwargs=True):
        results = [model(tensor(1.0))]
    assert isinstance(handle, RemovableHandle)
    handle.remove()
    handle.remove()
    results.append(model(tensor(1.0)))
    first.remove()
    named.remove()
    results.append(model(tensor(1.0)))
    assert [r.tolist() for r in results] == [[((10 + 1) * 2 + 0.5) * 3], [(10 * 2 + 0.5) * 3], [6.0]]
    assert seen == [1, {"shift": 0.5}, 1, 1]
    broken = Module()
    broken.register_forward_hook(lambda _m, _args, result: seen.append(result), always_call=True)
    with pytest.raises(TypeRuleError):
        broken(1)
    assert seen[-1] is None


def test_losses_are_modules():
    class Trained(Module):
        def __init__(self):
            super().__init__()
            self.criterion = nn.MSELoss("sum")

    model = Trained()
    assert [n for n, _ in model.named_modules()] == ["", "criterion"]
    assert not model.eval().criterion.training
    assert model.criterion == losses.MSELoss("sum")
    assert nn.CrossEntropyLoss is losses.CrossEntropyLoss
    assert nn.CrossEntropyLoss(tensor(1.0, 2.0)) == losses.CrossEntropyLoss(weight=[1, 2])
    seen = []
    model.criterion.register_forward_hook(lambda _m, args, _result: seen.append(len(args)))
    assert model.criterion(tensor(1.0, 2.0), tensor(0.0, 4.0)).item() == 5.0
    assert seen == [2]


def test_repr_is_pytorchs():
    assert repr(Model()) == (
        "Model(\n  (first): Scale()\n  (second): Scale()\n  (head): Sequential(\n"
        "    (0): Linear(in_features=2, out_features=1, bias=True)\n  )\n)"
    )
    assert repr(nn.Conv2d(2, 4, 3, padding="same", dilation=2, groups=2, bias=False)) == (
        "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding='same', dilation=(2, 2), groups=2, bias=False)"
    )


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_keep_ties_and_share_nothing(again):
    model = Model().eval()
    other = again(model)
    assert other.first.factor is other.second.factor is other.first._parameters["factor"]
    assert other.first.factor is not model.first.factor
    assert not other.head[0].training
    model.load_state_dict({"first.factor": tensor(8.0)}, strict=False)
    assert other.first.factor.tolist() == [2.0]
    assert other.first.factor.requires_grad
    assert isinstance(other.first.factor, Parameter)
    assert list(other.state_dict()) == list(model.state_dict())


def test_containers():
    relu, linear = nn.ReLU(), nn.Linear(2, 2)
    model = nn.Sequential(OrderedDict(a=linear, b=relu))
    assert model.a is model[0] is linear
    assert model[-1] is relu
    assert list(model[1:].state_dict()) == []
    assert len(model) == 2
    assert list(model) == [linear, relu]
    model = nn.Sequential(linear, relu)
    model.insert(0, nn.Identity())
    assert model.append(nn.Tanh()).pop(0) is not None
    assert [n for n, _ in model.named_children()] == ["0", "1", "2"]
    model[1] = nn.Sigmoid()
    del model[2]
    assert repr(model + nn.Sequential(nn.GELU())) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=2, bias=True)\n  (1): Sigmoid()\n"
        "  (2): GELU(approximate='none')\n)"
    )
    listed = nn.ModuleList([relu]) + nn.ModuleList([linear])
    listed += [nn.Tanh()]
    assert linear in listed
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Sequential(nn.Tanh())])) == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Sequential(\n    (0): Tanh()\n  )\n)"
    )
    assert len(listed[1:]) == 2
    named = nn.ModuleDict({"x": linear})
    named["y"] = relu
    assert list(named) == ["x", "y"]
    assert named.pop("y") is relu
    assert "y" not in named
    assert [k for k, _ in named.items()] == ["x"]
    values = nn.ParameterList([tensor(1.0), Parameter(tensor(2.0))])
    values[0] = Parameter(tensor(3.0))
    assert [p.tolist() for p in values] == [[3.0], [2.0]]
    assert list(values.state_dict()) == ["0", "1"]
    shares = nn.ParameterDict({"a": tensor(1.0)})
    assert isinstance(shares["a"], Parameter)
    assert repr(shares) == "ParameterDict(\n    (a): Parameter containing: [float32 of size 1]\n)"
    assert message(TypeRuleError, lambda: nn.Sequential(3)) == (
        "Sequential: the elements must be modules, got an int; make it an nn.Module"
    )
    assert message(InvalidValueError, lambda: model[7]) == (
        "Sequential: a position must be one of its 2 elements, got 7; append elements first"
    )
    assert message(KeyError, lambda: named["z"]) == (
        "ModuleDict: the name must be one of its own, x, got 'z'; add it first"
    )
    assert message(TypeRuleError, lambda: values.append(3)) == (
        "ParameterList: the elements must be parameters or tensors, got an int; wrap it as nn.Parameter(...)"
    )
