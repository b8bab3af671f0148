"""Random numbers of datasets."""

import numpy as np

from adjoint.data.draw import Draw, stream_of


def test_numbers_depend_on_seed_epoch_stream_and_index():
    base = Draw(1, 2)
    streams = [
        base.words(0, 4),
        base.words(1, 4),
        base.words(stream_of(0, 1), 4),
        Draw(1, 3).words(0, 4),
        Draw(2, 2).words(0, 4),
        base.branch(1).words(0, 4),
        base.branch(2).words(0, 4),
        *(base.generator(stream, index).bit_generator.random_raw(4) for stream in (0, 1) for index in (0, 1)),
    ]
    assert len({tuple(each) for each in streams}) == len(streams)
    assert base.words(0, 8)[:4].tolist() == base.words(0, 4).tolist()
    assert base.branch(0) == base
    assert base.repetition(1, 3) == Draw(1, 7)


def test_uniforms_and_permutations_come_from_the_words():
    draw = Draw(5, 0)
    words = draw.words(3, 100)
    assert draw.permutation(3, 100).tolist() == np.argsort(words).tolist()
    assert np.allclose(draw.uniforms(3, 100), words / 2.0**64, rtol=0, atol=2**-52)
