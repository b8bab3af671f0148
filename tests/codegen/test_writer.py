"""The writer of LLVM functions: which instructions are reused, and which are moved out of loops."""

from adjoint.codegen.writer import Writer


def loop(w, label):
    """A scope of a loop with a counter, and the counter's name."""
    scope = w.scope(loop=True)
    scope.__enter__()
    w.line(f"{label}:")
    counter = w.name()
    w.line(f"  {counter} = phi")
    return scope, counter


def close(scope):
    scope.__exit__(None, None, None)


def test_an_equal_instruction_is_reused_in_its_scope_and_in_those_inside():
    w = Writer({})
    first = w.pure("add i64 %a, 1")
    with w.scope():
        assert w.pure("add i64 %a, 1") == first
        inner = w.pure("add i64 %a, 2")
    assert w.pure("add i64 %a, 2") != inner
    assert len(w.lines) == 3


def test_hoisted_instructions_are_outside_of_loops_that_do_not_change_them():
    w = Writer({})
    outer, i = loop(w, "outer")
    inner, j = loop(w, "inner")
    row = w.hoisted(f"mul i64 {i}, 8", i)
    w.hoisted("mul i64 %unit, 64", "%unit")
    place = w.hoisted(f"add i64 {row}, {j}", row, j)
    w.line(f"  use {place}")
    close(inner)
    close(outer)
    assert w.lines == [
        "  %v4 = mul i64 %unit, 64",
        "outer:",
        "  %v1 = phi",
        "  %v3 = mul i64 %v1, 8",
        "inner:",
        "  %v2 = phi",
        "  %v5 = add i64 %v3, %v2",
        "  use %v5",
    ]
    # What the loops computed is not known after them, and what precedes them is.
    assert w.pure("mul i64 %unit, 64") == "%v4"
    assert w.pure(f"mul i64 {i}, 8") != row


def test_instructions_stay_in_their_branch_unless_a_loop_in_it_does_not_change_them():
    w = Writer({})
    around, i = loop(w, "loop")
    with w.scope():
        w.line("  branch")
        with w.scope():
            w.line("then:")
            w.hoisted(f"mul i64 {i}, 8", i)
            inner, _ = loop(w, "inner")
            w.hoisted(f"mul i64 {i}, 9", i)
            close(inner)
            w.hoisted("mul i64 %unit, 64", "%unit")
    close(around)
    texts = [line.split(" = ")[-1].strip() for line in w.lines]
    assert texts == [
        "mul i64 %unit, 64", "loop:", "phi", "branch", "then:", "mul i64 %v1, 8", "mul i64 %v1, 9", "inner:", "phi",
    ]  # fmt: skip


def test_stack_memory_is_known_everywhere():
    w = Writer({})
    scope, _ = loop(w, "loop")
    slot = w.alloca("[4 x float]")
    assert w.depth(slot) == 0
    w.hoisted(f"getelementptr float, ptr {slot}, i64 %unit", slot, "%unit")
    close(scope)
    assert w.lines[0] == f"  %v3 = getelementptr float, ptr {slot}, i64 %unit"
    assert w.entry == [f"  {slot} = alloca [4 x float]"]
