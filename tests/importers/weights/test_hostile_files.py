"""Files that are damaged or made to do harm are refused by one sentence, before anything is executed or allocated."""

import json
import pickle
import re
import tracemalloc

import numpy as np
import pytest

from adjoint.importers.weights import load_adapter, load_pretrained
from adjoint.interop import write_torch
from adjoint.nn.networks import GPT2
from adjoint.training.tensors import write_file
from tests.importers.weights.folders import write_adapter, write_model
from tests.interop.archives import archive, plain, tensor
from tests.tensor.comparing import message


def sentence(folder):
    """The message for a folder, without its path."""
    return message(lambda: load_pretrained(folder)).replace(f"{folder}/", "")


def with_config(folder, **changes):
    write_model(folder, "gpt2 lm")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return sentence(folder)


def with_header(folder, change):
    """The message for a file whose header has been changed."""
    write_model(folder, "gpt2 lm")
    path = folder / "model.safetensors"
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    text = change(json.loads(content[8:end]))
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[end:])
    return sentence(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n_embd": 10**12}, "the tensors must be those of config.json, got wte.weight of shape [11, 8]"),
        ({"n_layer": 10**12}, "the file must have the layers of config.json, got 28 tensors for 1000000000000"),
        (
            {"vocab_size": 10**30},
            "vocab_size in config.json must be an integer from 1 to 1099511627776, got 1000000000",
        ),
        ({"n_head": -1}, "n_head in config.json must be an integer from 1 to 1099511627776, got -1; correct it"),
        ({"n_embd": "8"}, 'n_embd in config.json must be an integer from 1 to 1099511627776, got "8"; correct it'),
        ({"n_embd": True}, "n_embd in config.json must be an integer from 1 to 1099511627776, got true; correct it"),
        ({"resid_pdrop": float("nan")}, "resid_pdrop in config.json must be a number from 0 to 1, got NaN; correct it"),
        ({"activation_function": ["gelu"] * 99}, "activation_function in config.json must be one of gelu,"),
        ({"id2label": []}, "id2label in config.json must be an object with the name of each class, got []; correct it"),
        (
            {"model_type": {}},
            "model_type in config.json must be one of gpt2, bert, distilbert, vit, llama, got a dict;",
        ),
    ],
)
def test_configurations_are_checked_before_anything_is_allocated(changes, said, tmp_path):
    tracemalloc.start()
    try:
        assert with_config(tmp_path, **changes).startswith(f"load_pretrained: {said}")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "config.json must be JSON, got something else; save it again"),
        (b"\xff\xfe", "config.json must be JSON, got something else; save it again"),
        (b"[" * 100_000, "config.json must be JSON, got something else; save it again"),
        (b"1" * 5000, "config.json must be JSON, got something else; save it again"),
        (b"[1]", "config.json must hold an object of JSON, got a list; save it again"),
        (b'{"a": 1, "a": 2}', "config.json must have every name once, got a twice; save it again"),
    ],
)
def test_what_is_no_configuration_is_refused(text, said, tmp_path):
    write_model(tmp_path, "gpt2 lm")
    (tmp_path / "config.json").write_bytes(text)
    assert sentence(tmp_path) == f"load_pretrained: {said}"


def test_truncated_files_are_refused_wherever_they_end(tmp_path):
    write_model(tmp_path, "gpt2 lm")
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    for size in (0, 7, 8, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert re.fullmatch(
            "load_pretrained reads safetensors files, and model.safetensors is truncated or not one: .*; save it again",
            sentence(tmp_path),
        )
    path.write_bytes(content + b"\0")
    assert sentence(tmp_path).endswith("bytes of tensors instead of 4928; save it again")


def changed_entry(**changes):
    def change(header):
        header["transformer.wpe.weight"] |= changes
        return header

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed_entry(shape=[-8, -8]), "its header does not describe transformer.wpe.weight"),
        (changed_entry(shape=[8.0, 8]), "its header does not describe transformer.wpe.weight"),
        (changed_entry(data_offsets=[0]), "its header does not describe transformer.wpe.weight"),
        (changed_entry(more=1), "its header does not describe transformer.wpe.weight"),
        (changed_entry(shape=[2**40, 2**40]), "transformer.wpe.weight has other bytes than its"),
        (changed_entry(shape=[1] * 40 + [8, 8]), "transformer.wpe.weight has 42 axes"),
        (
            changed_entry(data_offsets=[0, 256]),
            "transformer.wpe.weight does not begin where the tensor before it ends",
        ),
    ],
)
def test_headers_that_lie_are_refused(change, said, tmp_path):
    assert with_header(tmp_path, change).startswith(
        f"load_pretrained reads safetensors files, and model.safetensors is truncated or not one: {said}"
    )


def test_names_that_are_there_twice_are_refused(tmp_path):
    entry = b'"x": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}'
    assert with_header(tmp_path, lambda _: b"{%s, %s}" % (entry, entry)) == (
        "load_pretrained: the header of model.safetensors must have every name once, got x twice; save it again"
    )

    arrays = write_model(tmp_path, "gpt2 lm")
    again = {**arrays, "wpe.weight": arrays["transformer.wpe.weight"]}
    write_file(tmp_path / "model.safetensors", again, {}, "test")
    assert sentence(tmp_path) == (
        "load_pretrained: every tensor must be there once, got wpe.weight again as wpe.weight; remove one"
    )


def test_other_dtypes_are_refused(tmp_path):
    assert with_header(tmp_path, changed_entry(dtype="F8_E4M3")) == (
        "load_pretrained: tensors have dtypes among F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL, "
        "and model.safetensors holds transformer.wpe.weight of F8_E4M3; save it in another dtype"
    )


class Harm:
    """What a pickle calls when it is loaded."""

    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


def test_pickles_are_not_executed(tmp_path):
    write_model(tmp_path, "gpt2 lm")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Harm(), protocol=2))
    assert sentence(tmp_path).startswith("read_torch: pytorch_model.bin")
    write_torch(tmp_path / "pytorch_model.bin", {"a": [np.zeros(1)]})
    assert sentence(tmp_path) == (
        "load_pretrained: pytorch_model.bin must hold tensors by name, got a list for 'a'; save a state_dict()"
    )
    repeated = b"}" + plain("a") + tensor((10**5, 6), (0, 1)) + b"s"
    (tmp_path / "pytorch_model.bin").write_bytes(archive(repeated))
    assert sentence(tmp_path) == (
        "load_pretrained: the tensors in pytorch_model.bin must be whole, got a with repeated elements; save a "
        "copy of it"
    )


@pytest.mark.parametrize(
    "file", ["../model.safetensors", "/etc/passwd.safetensors", "a\\b.safetensors", "c:x.safetensors"]
)
def test_an_index_does_not_lead_out_of_its_folder(file, tmp_path):
    write_model(tmp_path, "gpt2 lm")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": file}}))
    assert sentence(tmp_path) == (
        "load_pretrained: the files of model.safetensors.index.json must be next to it and end in .safetensors, got "
        f"{file}; save it again"
    )


def test_an_index_that_does_not_agree_with_its_files_is_refused(tmp_path):
    arrays = write_model(tmp_path, "gpt2 lm")
    (tmp_path / "model.safetensors").rename(tmp_path / "part.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys([*list(arrays), "more"], "part.safetensors")}))
    assert sentence(tmp_path) == (
        "load_pretrained: model.safetensors.index.json must say which tensors part.safetensors has, got another more; "
        "save it again"
    )
    index.write_text('{"weight_map": [1]}')
    assert sentence(tmp_path) == (
        "load_pretrained: model.safetensors.index.json must map names to files in weight_map, got something else; save "
        "it again"
    )
    index.unlink()
    assert message(lambda: load_pretrained(tmp_path)) == (
        "load_pretrained: a folder of a model must have one of model.safetensors, model.safetensors.index.json, "
        f"pytorch_model.bin, pytorch_model.bin.index.json, got {tmp_path} without; check the path"
    )


def test_a_new_head_is_not_larger_than_the_file_justifies(tmp_path):
    write_model(tmp_path, "gpt2 lm")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_labels": 10**12}))
    assert message(lambda: load_pretrained(tmp_path, head="classification")) == (
        "load_pretrained: a new head must not be larger than the network, got 8000000000000 weights for 1232 in the "
        "file; correct the number of classes"
    )


def test_names_in_messages_are_short_and_on_one_line(tmp_path):
    write_adapter(tmp_path, "transformer.h.0.attn.c_attn.lora_A.weight 2 8")
    path = tmp_path / "adapter_model.safetensors"
    text = json.dumps({"x\n" * 1000: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 4)
    found = message(lambda: load_adapter(GPT2(11, 8, 1, 2, 8), tmp_path))
    assert "\n" not in found
    assert len(found) < 300
