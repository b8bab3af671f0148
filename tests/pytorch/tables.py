"""What differs between OpInfos and the functions of adjoint, and what is not run: tables of names with reasons.

Imports nothing of PyTorch: arguments are those that adjoint's functions receive.
"""

import adjoint
from adjoint.nn import functional

__all__ = ["ADAPTED", "ANY_OF_TIES", "COMPARED", "GRADIENTS_DIFFER", "NOT_COVERED", "NOT_RUN", "REFUSED", "SHAPES_ONLY"]


def _method(name):
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


#: OpInfos whose samples have their arguments in another order than the function of that name, and methods and
#: attributes of tensors whose name means something else in the module.
ADAPTED = {
    "where": lambda x, condition, other: adjoint.where(condition, x, other),
    "polygamma": lambda x, n: adjoint.polygamma(n, x),
    "einsum": lambda tensors, equation: adjoint.einsum(equation, *tensors),
    "nn.functional.embedding": lambda table, ids, **kwargs: functional.embedding(ids, table, **kwargs),
    "nn.functional.embedding_bag": lambda table, ids, **kwargs: functional.embedding_bag(ids, table, **kwargs),
    "zero_": lambda x: x.clone().zero_(),
    "linalg.pinv": lambda x, *args, **kwargs: adjoint.linalg.pinv(x @ args[0].mT if args else x, **kwargs),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "mH": lambda x: x.mH,
} | {name: _method(name) for name in ("bool", "bfloat16", "double", "float", "half", "int", "long", "short")}


def _always(kwargs):  # noqa: ARG001
    return True


#: OpInfos of random numbers or undefined elements, of which only shapes and dtypes are compared, and for which of
#: their keyword arguments. Tests of distributions are in tests/ops/test_random.py and tests/distributions/.
SHAPES_ONLY = {
    **dict.fromkeys(("bernoulli", "multinomial", "normal", "randn"), _always),
    **dict.fromkeys(("rand_like", "randint", "randint_like", "randn_like"), _always),
    **dict.fromkeys(("empty", "empty_like", "new_empty"), _always),
    **dict.fromkeys(("nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d"), _always),
    "nn.functional.rrelu": lambda kwargs: kwargs.get("training", False),
    "nn.functional.scaled_dot_product_attention": lambda kwargs: kwargs.get("dropout_p", 0) > 0,
}

#: OpInfos with a result that holds positions, of which PyTorch may return any if elements are equal, as those of
#: integers and bools often are. adjoint has the first one, which tests/tensor/test_ordering.py compares with NumPy.
ANY_OF_TIES = ("argsort", "kthvalue", "median", "nanmedian", "mode", "sort", "topk")

#: What is compared of results of which parts are arbitrary, of either library: vectors without their signs, and least
#: squares without the rank and the singular values, which depend on LAPACK's driver.
COMPARED = {
    "linalg.eigh": lambda found: (found[0], found[1].abs()),
    "linalg.svd": lambda found: (found[0].abs(), found[1], found[2].abs()),
    "linalg.lstsq": lambda found: tuple(found)[:2],
}

#: OpInfos, also with their variants, whose results adjoint computes in the same way, but whose gradients differ by a
#: convention that the docstring states.
GRADIENTS_DIFFER = {
    "linalg.pinv.singular": "of matrices of full rank only",
    "linalg.norm.subgradients_at_zero": "zeros for a matrix of zeros; PyTorch's is another subgradient",
    "nn.functional.max_unpool1d": "equal positions share the gradient; in PyTorch each has all of it",
    "nn.functional.max_unpool2d": "equal positions share the gradient; in PyTorch each has all of it",
    "nn.functional.max_unpool3d": "equal positions share the gradient; in PyTorch each has all of it",
}

#: OpInfos, with their variants, of functions that adjoint has, which are not run, and why.
NOT_RUN = {
    "normal.in_place": "the samples call normal_ with the arguments of normal",
    "nn.functional.batch_norm.without_cudnn": "the samples are for GPUs",
}

#: Parts of the sentences with which adjoint refuses samples that PyTorch accepts, and how many of an OpInfo at most.
#: A sample that is refused otherwise fails the test, and so does a sentence that no longer occurs.
REFUSED = {
    # Integers, for which PyTorch rounds results of floats.
    "nn.functional.avg_pool1d": {"the dtype must be float, got i64": 9},
    "nn.functional.avg_pool2d": {"the dtype must be float, got i64": 7},
    "nn.functional.avg_pool3d": {"the dtype must be float, got i64": 8},
    "nn.functional.cosine_embedding_loss": {"predictions must have a float dtype, got i64": 12},
    "nn.functional.hardtanh": {"the dtype must be float, got i64": 5},
    "nn.functional.local_response_norm": {"the dtype must be float, got i64": 11},
    "nn.functional.margin_ranking_loss": {"predictions must have a float dtype, got i64": 24},
    "nn.functional.max_pool2d": {"the dtype must be float, got i64": 60},
    "nn.functional.max_pool3d": {"the dtype must be float, got i64": 60},
    "nn.functional.poisson_nll_loss": {"predictions must have a float dtype, got i64": 36},
    "nn.functional.relu6": {"the dtype must be float, got i64": 3},
    "nn.functional.triplet_margin_loss": {"predictions must have a float dtype, got i64": 7},
    # Settings that are probably mistakes.
    "nn.functional.batch_norm": {
        "momentum must be between 0 and 1, got -1.0": 1,
        "the operand must have the shape [N, C, ...], got f32[0]": 2,
    },
    "nn.functional.group_norm": {"eps must be at least 0, got -0.5": 4},
    "nn.functional.layer_norm": {"eps must be at least 0, got -0.5": 1},
    # Shapes other than those that PyTorch documents.
    "nn.functional.multi_margin_loss": {
        "predictions must be [N, C] or [C] with C >= 1, got f32[]": 1,
        "targets must be class indices of shape [], got i64[1]": 1,
    },
    "nn.functional.multilabel_margin_loss": {"predictions must be [N, C] or [C] with C >= 1, got f32[]": 1},
    "nn.functional.multilabel_soft_margin_loss": {"weight must have one f32 per class": 1},
    "tensordot": {"the axes must have the same sizes": 2},
    # Of singular values.
    "norm.nuc": {"got 'nuc'": 2},
    "linalg.svd": {"full_matrices=True needs square matrices": 18},
    # Not implemented.
    "linalg.lstsq": {"driver must be 'gels'": 27},
    "linalg.lstsq.grad_oriented": {"driver must be 'gels'": 27},
    "nn.functional.grid_sample": {"got 'bicubic'": 6},
}

#: Names of OpInfos that adjoint has no function for, by the reason.
NOT_COVERED = {
    "complex numbers": """
        angle cdouble cfloat chalf complex conj conj_physical imag isreal polar real resolve_conj resolve_neg
        view_as_complex view_as_real
        """,
    "Fourier transforms, whose results are complex, and what is computed by them": """
        fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ifftshift
        fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn istft stft
        """,
    "sparse layouts; operations of sparse matrices are functions of their parts": """
        sparse.mm sparse.sampled_addmm to_sparse
        """,
    "eigenvalues of matrices that are not symmetric, LU and other factorizations": """
        geqrf linalg.eig linalg.eigvals linalg.householder_product
        linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.lu linalg.lu_factor
        linalg.lu_factor_ex linalg.lu_solve lu
        lu_solve lu_unpack matrix_exp ormqr pca_lowrank pinverse qr svd svd_lowrank
        """,
    "reports errors of numerics as results": "linalg.cholesky_ex linalg.inv_ex linalg.solve_ex",
    "compositions of functions that adjoint has": """
        corrcoef cov cumulative_trapezoid gradient linalg.tensorinv linalg.tensorsolve linalg.vander
        nn.functional.linear_cross_entropy nn.functional.pdist nonzero_static sum_to_size unravel_index
        """,
    "special functions without an operator": """
        frexp gcd i0 igamma igammac lcm mvlgamma nextafter special.airy_ai special.bessel_j0 special.bessel_j1
        special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t special.chebyshev_polynomial_u
        special.chebyshev_polynomial_v special.chebyshev_polynomial_w special.entr special.erfcx
        special.hermite_polynomial_h special.hermite_polynomial_he special.i0e special.i1 special.i1e
        special.laguerre_polynomial_l special.legendre_polynomial_p special.log_ndtr special.modified_bessel_i0
        special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1 special.ndtr special.ndtri
        special.polygamma special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
        special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
        special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w special.spherical_bessel_j0
        special.xlog1py special.zeta
        """,
    "windows of signals, which are data": """
        signal.windows.bartlett signal.windows.blackman signal.windows.cosine signal.windows.exponential
        signal.windows.gaussian signal.windows.general_cosine signal.windows.general_hamming signal.windows.hamming
        signal.windows.hann signal.windows.kaiser signal.windows.nuttall
        """,
    "tensors with a mask of their own": """
        masked.amax masked.amin masked.argmax masked.argmin masked.cumprod masked.cumsum masked.log_softmax
        masked.logaddexp masked.logsumexp masked.mean masked.median masked.norm masked.normalize masked.prod
        masked.softmax masked.softmin masked.std masked.sum masked.var
        """,
    "memory: strides, storage and variants that copy": """
        alias_copy as_strided as_strided_copy as_strided_scatter diagonal_copy empty_permuted empty_strided expand_copy
        narrow_copy new_empty_strided permute_copy put resize_ resize_as_ slice split_with_sizes_copy
        squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsafe_chunk unsafe_split unsqueeze_copy view_copy
        """,
    "random numbers that methods in place draw, compared by tests of distributions": """
        cauchy exponential geometric log_normal uniform
        """,
    "parts of PyTorch's implementation, kernels of GPUs and their formats": """
        __rdiv__ _batch_norm_with_update _chunk_cat _native_batch_norm_legit _segment_reduce _softmax_backward_data
        _unsafe_masked_index _unsafe_masked_index_put_accumulate _upsample_bilinear2d_aa grid_sampler_2d
        grid_sampler_3d hash_tensor jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary
        jiterator_binary_return_by_ref jiterator_unary max_pool2d_with_indices_backward native_batch_norm
        native_dropout_backward native_group_norm native_layer_norm torch._scaled_mm torch._scaled_mm_v2
        torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward
        torch.ops.aten._safe_softmax.default
        """,
    "layers of their own here, or not implemented": """
        char diagonal_scatter histogram histogramdd nn.functional.alpha_dropout
        nn.functional.feature_alpha_dropout nn.functional.fractional_max_pool2d
        nn.functional.fractional_max_pool3d nn.functional.multi_head_attention_forward
        nn.functional.upsample_bilinear nn.functional.upsample_nearest
        """,
}
