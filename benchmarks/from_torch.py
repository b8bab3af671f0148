"""PyTorch's models, trained by `adjoint.from_torch`: the same losses as PyTorch's, and how fast.

    python benchmarks/from_torch.py --check                  # 20 steps of every model: losses and weights agree
    python benchmarks/from_torch.py --models resnet18,gpt2   # and the times of steps, as ratios
    python benchmarks/from_torch.py --threads 2

It needs torch; models whose package, of torchvision, timm and transformers, is missing are left out. Weights are
random, and all sizes small enough for 20 steps within seconds. A model with batch normalization is compared in float64:
rounding differences grow in it from step to step, in any framework.
"""

import argparse
import copy
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import torch

import adjoint
from benchmarks import record

STEPS = 20

#: Losses agree if they differ by this part of them at most, and weights by this part of the largest of the tensor.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Case:
    """A model to be trained.

    Parameters
    ----------
    package : str
        What it is from.
    build : callable
        Returns the module.
    batch : callable
        Returns its inputs, a tuple or a dict, and the target or None if it returns its loss.
    wide : bool, default False
        Whether losses are compared in float64.
    rate : float, default 1e-3
        The learning rate.
    """

    package: str
    build: Callable[[], Any]
    batch: Callable[[], tuple[Any, Any]]
    wide: bool = False
    rate: float = 1e-3


def _images(size: int, rows: int = 4) -> Callable[[], tuple[Any, Any]]:
    def batch():
        return (torch.randn(rows, 3, size, size),), torch.randint(0, 10, (rows,))

    return batch


def _tokens(kind: str, length: int = 16, rows: int = 4) -> Callable[[], tuple[Any, Any]]:
    def batch():
        ids = torch.randint(3, 100, (rows, length))
        if kind == "language":
            return {"input_ids": ids, "labels": ids.clone()}, None
        mask = torch.ones_like(ids)
        mask[0, length // 2 :] = 0
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.randint(0, 2, (rows,))}, None

    return batch


def _pixels() -> tuple[Any, Any]:
    return {"pixel_values": torch.randn(4, 3, 32, 32), "labels": torch.randint(0, 2, (4,))}, None


def _torchvision(name: str, **settings: Any) -> Callable[[], Any]:
    def build():
        torchvision = import_module("torchvision")
        if name == "vit":
            return torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10)
        return getattr(torchvision.models, name)(num_classes=10, **settings)

    return build


def _timm(name: str, **settings: Any) -> Callable[[], Any]:
    def build():
        return import_module("timm").create_model(name, num_classes=10, **settings)

    return build


def _transformers(model: str, config: str, **settings: Any) -> Callable[[], Any]:
    def build():
        transformers = import_module("transformers")
        return getattr(transformers, model)(getattr(transformers, config)(vocab_size=100, **settings))

    return build


_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_GPT2 = {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
_GPT2_OFF = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
_DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "dropout": 0.0, "attention_dropout": 0.0}
_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.0, "use_cache": False}
_VIT = {"image_size": 32, "patch_size": 8, **_BERT, **_NO_DROPOUT}

CASES: dict[str, Case] = {
    "resnet18": Case("torchvision", _torchvision("resnet18"), _images(32), True),
    "mobilenet_v3_small": Case("torchvision", _torchvision("mobilenet_v3_small", dropout=0.0), _images(32), True),
    "vit": Case("torchvision", _torchvision("vit"), _images(32)),
    "timm/resnet10t": Case("timm", _timm("resnet10t"), _images(32), True),
    "timm/mobilenetv3_small_050": Case("timm", _timm("mobilenetv3_small_050"), _images(32), True),
    "timm/tinynet_e": Case("timm", _timm("tinynet_e"), _images(32), True),
    "timm/lcnet_035": Case("timm", _timm("lcnet_035"), _images(32), True),
    "timm/regnetx_002": Case("timm", _timm("regnetx_002"), _images(32), True),
    "timm/ghostnet_050": Case("timm", _timm("ghostnet_050", drop_rate=0.0), _images(64, 8), True),
    "timm/convnext_atto": Case("timm", _timm("convnext_atto", depths=(1, 1, 2, 1)), _images(32)),
    "timm/vit_tiny": Case("timm", _timm("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2), _images(32)),
    "timm/mixer_s32": Case("timm", _timm("mixer_s32_224", img_size=64), _images(64), True),
    "timm/resmlp_12": Case("timm", _timm("resmlp_12_224", img_size=32), _images(32), True),
    "timm/poolformer_s12": Case("timm", _timm("poolformer_s12"), _images(32), True),
    "timm/swin": Case(
        "timm",
        _timm(
            "swin_tiny_patch4_window7_224",
            img_size=32,
            window_size=4,
            embed_dim=32,
            depths=(2, 2),
            num_heads=(2, 4),
            drop_path_rate=0.0,
        ),
        _images(32),
    ),
    "gpt2": Case(
        "transformers", _transformers("GPT2LMHeadModel", "GPT2Config", **_GPT2, **_GPT2_OFF), _tokens("language")
    ),
    "bert": Case(
        "transformers",
        _transformers("BertForSequenceClassification", "BertConfig", **_BERT, **_NO_DROPOUT),
        _tokens("classes"),
    ),
    "distilbert": Case(
        "transformers",
        _transformers("DistilBertForSequenceClassification", "DistilBertConfig", **_DISTIL, seq_classif_dropout=0.0),
        _tokens("classes"),
    ),
    "llama": Case(
        "transformers",
        _transformers("LlamaForCausalLM", "LlamaConfig", **_BERT, num_key_value_heads=1, use_cache=False),
        _tokens("language"),
    ),
    "t5": Case(
        "transformers",
        _transformers("T5ForConditionalGeneration", "T5Config", **_T5, decoder_start_token_id=0),
        _tokens("language"),
    ),
    "vit_hf": Case("transformers", _transformers("ViTForImageClassification", "ViTConfig", **_VIT), _pixels),
}


def prepare(name: str, wide: bool) -> tuple[Any, Any, Any, Any]:
    """The module, its optimizer's settings, its inputs and the target of a case."""
    torch.manual_seed(0)
    case = CASES[name]
    module = case.build().train()
    inputs, target = case.batch()
    if wide:
        module = module.double()
        inputs = _map(lambda x: x.double() if x.is_floating_point() else x, inputs)
    return module, {"lr": case.rate, "eps": 1e-4}, inputs, target


def _map(function: Any, inputs: Any) -> Any:
    if isinstance(inputs, dict):
        return {key: function(x) for key, x in inputs.items()}
    return tuple(function(x) for x in inputs)


def torch_step(module: Any, optimizer: Any, inputs: Any, target: Any, called: Any = None) -> Callable[[], float]:
    """A training step in PyTorch, which returns the loss."""
    run = module if called is None else called

    def step():
        optimizer.zero_grad()
        found = run(**inputs) if isinstance(inputs, dict) else run(*inputs)
        loss = found.loss if target is None else torch.nn.functional.cross_entropy(found, target)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def own_step(module: Any, optimizer: Any, inputs: Any, target: Any) -> tuple[Any, Callable[[], float]]:
    """The same as a trainer of adjoint, and its step."""
    loss = None if target is None else torch.nn.CrossEntropyLoss()
    trainer = adjoint.from_torch(module, loss, optimizer, inputs)
    if isinstance(inputs, dict):
        return trainer, lambda: trainer.update(inputs).item()
    return trainer, lambda: trainer.update(*inputs, target).item()


def check(name: str) -> tuple[float, float]:
    """The largest relative differences of the losses of 20 steps, and of the weights after them, written back."""
    module, settings, inputs, target = prepare(name, CASES[name].wide)
    theirs = copy.deepcopy(module)
    optimizer = torch.optim.AdamW(module.parameters(), **settings)
    trainer, step = own_step(module, optimizer, inputs, target)
    reference = torch_step(theirs, torch.optim.AdamW(theirs.parameters(), **settings), inputs, target)
    losses = np.array([(step(), reference()) for _ in range(STEPS)])
    trainer.sync()
    pairs = zip(module.state_dict().values(), theirs.state_dict().values(), strict=True)
    apart = [float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in pairs if b.numel()]
    return float(np.max(np.abs(losses[:, 0] - losses[:, 1]) / np.abs(losses[:, 1]))), max(apart)


def measure(name: str) -> dict[str, float]:
    """Seconds per step of adjoint, PyTorch and ``torch.compile``: medians of interleaved rounds, in float32."""
    steps = {}
    for kind in ("adjoint", "eager", "compile"):
        module, settings, inputs, target = prepare(name, False)
        optimizer = torch.optim.AdamW(module.parameters(), **settings)
        if kind == "adjoint":
            steps[kind] = own_step(module, optimizer, inputs, target)[1]
        else:
            steps[kind] = torch_step(
                module, optimizer, inputs, target, torch.compile(module) if kind == "compile" else None
            )
    for step in steps.values():
        for _ in range(3):
            step()
    times: dict[str, list[float]] = {kind: [] for kind in steps}
    count = max(1, int(0.1 / max(_timed(steps["eager"], 1), 1e-6)))
    for _ in range(9):
        for kind, step in steps.items():
            times[kind].append(_timed(step, count))
    return {kind: statistics.median(found) for kind, found in times.items()}


def _timed(step: Callable[[], float], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - begin) / count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare losses and weights")
    parser.add_argument("--models", help=f"separated by commas, from {', '.join(CASES)}")
    parser.add_argument("--threads", type=int, default=1)
    record.json_options(parser)
    options = parser.parse_args()
    try:
        record.check_clean(options.json, options.allow_dirty)
    except record.DirtyError as error:
        parser.error(str(error))
    run = record.provenance("from_torch.py", sys.argv[1:], {"steps": STEPS, "threads": options.threads})
    torch.set_num_threads(options.threads)
    adjoint.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    names = options.models.split(",") if options.models else list(CASES)
    print("| model | losses differ by | weights by | adjoint | vs. eager | vs. torch.compile |")
    print("| --- | --: | --: | --: | --: | --: |")
    failed = []
    for name in names:
        if find_spec(CASES[name].package) is None:
            print(f"| {name} | {CASES[name].package} is not installed |")
            continue
        try:
            loss, weights = check(name)
            bad = not loss <= TOLERANCE or not weights <= TOLERANCE
            row = f"| {name} | {loss:.1e} | {weights:.1e} |"
            if not options.check:
                times = measure(name)
                ratios = (times[kind] / times["adjoint"] for kind in ("eager", "compile"))
                if options.json is not None and not bad:
                    entry = {"run": run, "torch": torch.__version__, "loss": loss, "weights": weights, "seconds": times}
                    record.store(options.json, ("from_torch", name, str(options.threads)), entry)
                row += f" {1e3 * times['adjoint']:.3f} ms | " + " | ".join(f"{one:.2f}x" for one in ratios) + " |"
        except Exception as error:  # the other models are still compared
            bad, row = True, f"| {name} | {type(error).__name__}: {str(error)[:400]} |"
        if bad:
            failed.append(name)
        print(row, flush=True)
    print(f"{len(names) - len(failed)} of {len(names)} agree" + (f"; not {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
