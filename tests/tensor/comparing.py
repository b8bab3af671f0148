"""Compare many results of one recorded program with NumPy."""

import numpy as np


def check(*pairs, rtol=1e-5, atol=1e-6):
    """Each pair is a tensor and what NumPy computes for it; all pending tensors are computed by one program."""
    for n, (found, wanted) in enumerate(pairs):
        wanted = np.asarray(wanted)
        array = found.detach().numpy()
        assert array.shape == wanted.shape, f"pair {n}"
        np.testing.assert_allclose(
            array.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol, err_msg=f"pair {n}"
        )


def message(call):
    """The sentence with which a call is refused, without the line."""
    try:
        call()
    except Exception as error:
        return error.message
    raise AssertionError("nothing was refused")
