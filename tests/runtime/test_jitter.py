"""Steps whose threads are held up at random: nothing they leave may depend on who comes when."""

import subprocess
import sys
import textwrap

import pytest

from adjoint.codegen.module import emit_modules
from adjoint.compiler import host
from adjoint.pipeline import finish_program, lower_function
from tests.runtime.networks import module_of

START = """
    import sys
    from dataclasses import replace
    import numpy as np
    from adjoint import Trainer, costs
    from adjoint.codegen.module import emit_modules
    from adjoint.codegen.native import compile_native
    from adjoint.compiler import CompileOptions, host
    from adjoint.pipeline import finish_program, lower_function
    from adjoint.runtime.bound import Bound
    from adjoint.runtime.library import Library
    from tests.runtime.networks import batches, module_of, trained
    name, steps = sys.argv[1], int(sys.argv[2])
    module = module_of(name)
    plain = Trainer(module, threads=1, seed=5)
"""

STRESS = """
    expected = trained(plain, steps)
    for threads in (2, 3, 7):
        trainer = Trainer(module, threads=threads, options=CompileOptions(jitter=True, cache=False), seed=5)
        same = trained(trainer, steps) == expected
        print(threads, "same" if same else "differs")
"""

#: The same where threads claim the units of all kernels that they share.
CLAIMED = f"""
    costs.CLAIMED_NANOSECONDS = 0
{STRESS}
"""

#: The same step with the barriers of one kernel after the other removed.
WITHOUT = """
    plain_step = plain.compile()._bound
    program = finish_program(lower_function(module["step"], host()))
    plain.init_parameters()
    start = {name: array.copy() for name, array in plain._resident().items()}
    data = list(batches(module, steps))

    def left(library, threads):
        kept = {name: array.copy() for name, array in start.items()}
        bound = Bound(plain_step.entry, plain_step.runtime, library, kept, threads)
        losses = [bound(x, y) for x, y in data]
        return np.array(losses).tobytes(), *(kept[name].tobytes() for name in sorted(kept))

    def built(barriers):
        changed = replace(program, barriers=barriers)
        objects = compile_native(emit_modules(changed, host(), jitter=True), host())
        return Library(objects, (program.symbol, program.check_symbol))

    expected = left(built(program.barriers), 1)
    print("all", "same" if left(built(program.barriers), 3) == expected else "differs")
    for barrier in sorted(program.barriers):
        same = left(built(program.barriers - {barrier}), 3) == expected
        print(barrier, "same" if same else "differs")
"""


def outcomes(code, name, steps):
    """Which runs of the code gave the bits of one thread; in a process of its own, because a hang is one of them."""
    whole = textwrap.dedent(START) + textwrap.dedent(code)
    words = [sys.executable, "-c", whole, name, str(steps)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.mark.parametrize(("name", "steps"), [("mlp", 500), ("lenet", 50), ("gpt", 75)])
def test_random_delays_change_no_bit(name, steps):
    assert outcomes(STRESS, name, steps) == dict.fromkeys("237", "same")


@pytest.mark.parametrize(("name", "steps"), [("mlp", 500), ("gpt", 50)])
def test_claimed_units_run_once_under_random_delays(name, steps):
    assert outcomes(CLAIMED, name, steps) == dict.fromkeys("237", "same")


def test_missing_barriers_change_bits():
    """What the test above would see. Not every one has to: tests/kernel/test_races.py refuses each of them."""
    found = outcomes(WITHOUT, "mlp", 150)
    assert found.pop("all") == "same"
    assert list(found.values()).count("differs") > len(found) / 2, found


def test_steps_are_delayed_on_request_only():
    program = finish_program(lower_function(module_of("linreg")["step"], host()))
    (plain,) = emit_modules(program, host())
    (jittered,) = emit_modules(program, host(), jitter=True)
    assert "jitter" not in plain
    assert jittered.count("call void @jitter(i64 %thread, ") == len(program.kernels)
