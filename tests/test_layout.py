"""Every source file has a test file that is found by its name, or by the table below; workflows make what there is."""

import re
from pathlib import Path

import adjoint

ROOT = Path(adjoint.__file__).parent
TESTS = Path(__file__).parent

#: Where files are tested that have no ``test_<name>.py`` in the folder of their own name under ``tests``. The shared
#: parts of a family are tested by the family.
TESTED_IN = {
    "lower/passes": "test_pipeline.py",
    "__main__": "test_wheel.py",
    "version": "cli/test_cli_words.py",
    "budget": "test_memory_budget.py",
    "cli/builtin": "cli/test_cli_seeing.py",
    "cli/cache": "cli/test_cli_seeing.py",
    "cli/doctor": "cli/test_cli_seeing.py",
    "cli/fit": "cli/test_cli_train.py",
    "cli/options": "cli/test_cli_words.py",
    "cli/plotting": "cli/test_cli_train.py",
    "cli/show": "cli/test_cli_seeing.py",
    "codegen/checks": "lower/test_checks.py",
    "codegen/schedule_fuzzing": "runtime/test_jitter.py",
    "codegen/kernels": "codegen/test_indices.py",
    "codegen/module": "codegen/test_modules.py",
    "codegen/native": "codegen/test_modules.py",
    "codegen/scalars": "lower/test_vector_math.py",
    "codegen/transpose": "lower/contractions/test_contractions.py",
    "codegen/types": "ops/test_compiled.py",
    "codegen/values": "codegen/test_indices.py",
    "codegen/writer": "codegen/test_partial_loads.py",
    "data/files": "data/test_fashion.py",
    "interop/torch_objects": "interop/test_torch_reader.py",
    "func/arguments": "func/test_jit.py",
    "func/calling": "func/test_jit.py",
    "func/compiled": "func/test_jit.py",
    "func/front": "func/test_jit.py",
    "func/jacobians": "func/test_derivatives.py",
    "func/lifting": "func/test_jit.py",
    "func/surroundings": "func/test_jit.py",
    "func/tracing": "func/test_batching.py",
    "func/variant": "func/test_jit.py",
    "func/variables": "func/test_derivatives.py",
    "func/watching": "func/test_jit.py",
    "ir/function": "ir/test_structure.py",
    "ir/literals": "ir/test_text.py",
    "ir/parser": "ir/test_parse_errors.py",
    "ir/printer": "ir/test_text.py",
    "ir/tokens": "ir/test_parse_errors.py",
    "ir/types": "ir/test_verifier.py",
    "ir/value": "ir/test_structure.py",
    "kernel/ir": "kernel/test_verifier.py",
    "kernel/line_parser": "kernel/test_parser.py",
    "kernel/program": "kernel/test_races.py",
    "kernel/rewrite": "kernel/test_structure.py",
    "kernel/scalars": "kernel/test_interpreter.py",
    "losses/base": "losses/test_regression.py",
    "lower/context": "lower/contractions/test_contractions.py",
    "lower/expand": "lower/test_vector_math.py",
    "lower/loops": "lower/contractions/test_contractions.py",
    "lower/program": "lower/fusion/test_groups.py",
    "lower/analysis/access": "lower/fusion/test_groups.py",
    "lower/analysis/footprint": "lower/fusion/test_compute_at.py",
    "lower/attention/plan": "lower/attention/test_online_softmax.py",
    "lower/contractions/contraction": "lower/contractions/test_contractions.py",
    "lower/contractions/conversion": "lower/contractions/test_half.py",
    "lower/contractions/gemm_plan": "lower/contractions/test_gemm.py",
    "lower/contractions/inner_product": "lower/contractions/test_contractions.py",
    "lower/contractions/loop_order": "lower/contractions/test_gemm.py",
    "lower/contractions/m_blocked": "lower/contractions/test_split_k.py",
    "lower/contractions/matching": "lower/contractions/test_contractions.py",
    "lower/contractions/packing": "lower/contractions/test_gemm.py",
    "lower/contractions/schedules": "test_tuning.py",
    "lower/contractions/tile_cost": "lower/contractions/test_gemm.py",
    "lower/contractions/split_k_plan": "lower/contractions/test_split_k.py",
    "lower/contractions/split_k_reduction": "lower/contractions/test_split_k.py",
    "lower/reductions/partition": "lower/reductions/test_reduction.py",
    "lower/reductions/prefix_scan": "ops/test_cumulative.py",
    "lower/reductions/scatter": "ops/test_index.py",
    "lower/vector_math/error_function": "lower/test_vector_math.py",
    "lower/vector_math/gamma": "lower/test_vector_math.py",
    "nn/distance": "tensor/test_mathematics.py",
    "nn/softmax": "nn/test_layers.py",
    "ops/recurrence": "ops/test_cumulative.py",
    "ops/trigonometric": "ops/test_special.py",
    "tensor/binary": "tensor/test_mathematics.py",
    "tensor/cumulative": "tensor/test_mathematics.py",
    "tensor/math_methods": "tensor/test_mathematics.py",
    "tensor/norms": "tensor/test_mathematics.py",
    "lower/vector_math/exponential": "lower/test_vector_math.py",
    "lower/vector_math/logarithm": "lower/test_vector_math.py",
    "lower/vector_math/power": "lower/test_vector_math.py",
    "lower/vector_math/terms": "lower/test_vector_math.py",
    "lower/vector_math/trigonometric": "lower/test_vector_math.py",
    "lower/winograd/algorithm": "lower/winograd/test_winograd.py",
    "lower/winograd/convolution": "lower/winograd/test_winograd.py",
    "lower/winograd/plan": "lower/winograd/test_winograd.py",
    "lower/winograd/transforms": "lower/winograd/test_winograd.py",
    "lower/winograd/weight_gradient_plan": "lower/winograd/test_winograd.py",
    "lower/winograd/weight_gradient": "lower/winograd/test_winograd.py",
    "nativelib/placement": "runtime/test_threads.py",
    "nativelib/waiting": "nativelib/test_barrier.py",
    "ops/attention_base": "ops/test_attention.py",
    "ops/attention_gradients": "ops/test_attention.py",
    "ops/axes": "ops/test_shape.py",
    "ops/base": "ops/test_contracts.py",
    "ops/catalogue": "ops/test_contracts.py",
    "ops/centred": "ops/test_normalization.py",
    "ops/gaussian": "ops/test_attention.py",
    "ops/present": "transforms/test_mask_batch.py",
    "ops/sizes": "transforms/test_mask_batch.py",
    "ops/slicing": "ops/test_shape.py",
    "ops/rules": "ops/test_contracts.py",
    "ops/sampling": "ops/test_contracts.py",
    "ops/sliding": "ops/test_convolution.py",
    "ops/text": "ir/test_catalogue_text.py",
    "ops/views": "ops/test_shape.py",
    "ops/window_places": "ops/test_pooling.py",
    "ops/windows": "ops/test_pooling.py",
    "losses/binary": "nn/test_nn.py",
    "losses/likelihood": "nn/test_nn.py",
    "losses/margin": "nn/test_nn.py",
    "modules/attributes": "modules/test_module.py",
    "modules/state": "modules/test_module.py",
    "modules/walking": "modules/test_module.py",
    "nn/activation": "nn/test_nn.py",
    "nn/attention": "nn/test_nn.py",
    "nn/containers": "modules/test_module.py",
    "nn/convolution": "nn/test_nn.py",
    "nn/embedding": "nn/test_nn.py",
    "nn/functional/activations": "nn/test_nn.py",
    "nn/functional/attention": "nn/test_nn.py",
    "nn/functional/dropout": "nn/test_dropout.py",
    "nn/functional/layers": "nn/test_nn.py",
    "nn/functional/losses": "nn/test_nn.py",
    "nn/functional/normalization": "nn/test_nn.py",
    "nn/functional/pooling": "nn/test_nn.py",
    "nn/functional/recording": "nn/test_nn.py",
    "nn/functional/shapes": "nn/test_nn.py",
    "nn/linear": "nn/test_nn.py",
    "nn/normalization": "nn/test_nn.py",
    "nn/parameters": "nn/test_init.py",
    "nn/pooling": "nn/test_nn.py",
    "nn/reshaping": "nn/test_nn.py",
    "nn/summary": "nn/test_layers.py",
    "nn/transformer": "nn/test_nn.py",
    "tensor/assign": "modules/test_module.py",
    "tensor/autocasting": "test_amp.py",
    "training/state": "training/test_trainer.py",
    "optim/adafactor": "optim/test_families.py",
    "optim/adam_variants": "optim/test_families.py",
    "optim/adaptive": "optim/test_families.py",
    "optim/asgd": "optim/test_families.py",
    "optim/descent": "optim/test_families.py",
    "optim/layerwise": "optim/test_families.py",
    "optim/lion": "optim/test_families.py",
    "optim/muon": "optim/test_families.py",
    "optim/rprop": "optim/test_families.py",
    "optim/adam": "optim/test_optimizers.py",
    "optim/base": "optim/test_optimizers.py",
    "optim/bindable": "optim/test_bound.py",
    "optim/direction": "optim/test_chain.py",
    "optim/lr_scheduler/base": "optim/lr_scheduler/test_schedules.py",
    "optim/lr_scheduler/composed": "optim/lr_scheduler/test_schedules.py",
    "optim/lr_scheduler/cyclic": "optim/lr_scheduler/test_schedules.py",
    "optim/lr_scheduler/cosine": "optim/lr_scheduler/test_schedules.py",
    "optim/lr_scheduler/factors": "optim/lr_scheduler/test_schedules.py",
    "optim/lr_scheduler/plateau": "optim/lr_scheduler/test_schedules.py",
    "optim/norms": "optim/test_clipping.py",
    "optim/schedules/base": "optim/test_schedules.py",
    "optim/schedules/cycles": "optim/test_schedules.py",
    "optim/schedules/formulas": "optim/test_schedules.py",
    "optim/spec": "optim/test_optimizers.py",
    "optim/updates": "optim/test_bound.py",
    "optim/sgd": "optim/test_optimizers.py",
    "profiling/arena": "profiling/test_page.py",
    "profiling/inputs": "profiling/test_step.py",
    "profiling/places": "profiling/test_step.py",
    "profiling/probes": "profiling/test_machine.py",
    "profiling/roofline": "profiling/test_page.py",
    "profiling/shapes": "profiling/test_page.py",
    "runtime/fastcall": "runtime/test_bound.py",
    "runtime/library": "runtime/test_executable.py",
    "runtime/report": "profiling/test_clocks.py",
    "runtime/turn": "runtime/test_turns.py",
    "tensor/checking": "func/test_debugging.py",
    "tensor/residuals": "tensor/test_resuming.py",
    "tensor/step_entry": "tensor/test_updates.py",
    "tensor/structure": "tensor/test_record.py",
    "tensor/accelerators": "tensor/test_environment.py",
    "tensor/diagonals": "tensor/test_shapes.py",
    "tensor/dtypes": "tensor/test_arithmetic.py",
    "tensor/elementwise_methods": "tensor/test_elementwise.py",
    "tensor/in_place": "tensor/test_methods.py",
    "tensor/joining": "tensor/test_shapes.py",
    "tensor/making": "tensor/test_creation.py",
    "tensor/questions": "tensor/test_environment.py",
    "tensor/reduction_methods": "tensor/test_reductions.py",
    "tensor/shape_methods": "tensor/test_shapes.py",
    "tensor/tensor": "tensor/test_conversions.py",
    "tensor/size": "tensor/test_shapes.py",
    "tensor/views": "tensor/test_aliases.py",
    "testing/growing": "testing/test_graphs.py",
    "testing/network_recipes": "testing/test_graphs.py",
    "testing/random_recipes": "testing/test_graphs.py",
    "testing/recipes": "testing/test_graphs.py",
    "training/finite": "training/test_trainer.py",
    "training/layout": "training/test_setup.py",
    "training/passes": "training/test_setup.py",
    "training/profile": "training/test_trainer.py",
    "transforms/observing": "transforms/test_batch_axis.py",
    "transforms/rewrites": "transforms/test_simplify.py",
    "tensor/return_types": "tensor/test_reductions.py",
    "tensor/showing": "modules/test_inspection.py",
    "profiling/doors": "modules/test_inspection.py",
    "profiling/table": "modules/test_inspection.py",
    "linalg": "tensor/test_systems.py",
    "lower/rows/elimination": "lower/rows/test_rows.py",
    "lower/rows/kernel": "lower/rows/test_rows.py",
    "lower/rows/scattering": "lower/rows/test_rows.py",
    "lower/rows/sorting": "lower/rows/test_rows.py",
    "lower/rows/triangular": "lower/rows/test_rows.py",
    "lower/rows/workspace": "lower/rows/test_rows.py",
    "nn/functional/bags": "nn/test_nn.py",
    "ops/diagonals": "tensor/test_arranging.py",
    "ops/einsum": "tensor/test_linear_algebra.py",
    "ops/factorizations": "ops/test_linalg.py",
    "ops/scattering": "ops/test_gathering.py",
    "ops/sorting": "ops/test_ordering.py",
    "tensor/selection_methods": "tensor/test_ordering.py",
}


def sources():
    """Path of each source file without its suffix, except for those that only gather names."""
    for path in sorted(ROOT.rglob("*.py")):
        if path.stem != "__init__":
            yield path.relative_to(ROOT).with_suffix("").as_posix()


def by_name(source):
    """Test files whose name is the source's: ``test_<name>.py`` or ``test_<package>_<name>.py`` in the same folder."""
    folder, _, name = source.rpartition("/")
    package = source.partition("/")[0]
    return [
        path for path in (TESTS / folder).glob("test_*.py") if path.stem in (f"test_{name}", f"test_{package}_{name}")
    ]


def test_every_source_file_has_a_test_file():
    missing = [source for source in sources() if not by_name(source) and source not in TESTED_IN]
    assert missing == [], "give it a test file of its name, or say in TESTED_IN which one has its tests"


def test_every_test_file_of_the_table_is_there():
    missing = [place for place in TESTED_IN.values() if not (TESTS / place).is_file()]
    assert missing == []


def test_the_table_has_exceptions_only():
    found = set(sources())
    assert [source for source in TESTED_IN if source not in found] == [], "no such source file"
    assert [source for source in TESTED_IN if by_name(source)] == [], "it is found by its name"


def test_workflows_and_ci_make_what_the_makefile_has():
    house = TESTS.parent
    targets = set(re.findall(r"^([a-z-]+):", (house / "Makefile").read_text(), re.MULTILINE))
    texts = [path.read_text() for path in (*(house / ".github/workflows").glob("*.yml"), house / ".ci/run")]
    made = {target for text in texts for target in re.findall(r"\bmake ([a-z-]+)", text)}
    assert {"test", "fuzz", "test-minimum"} <= made <= targets
