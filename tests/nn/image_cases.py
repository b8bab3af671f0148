"""Layers and functions of sequences, images and volumes, computed here and by PyTorch as in `tests.nn.torch_cases`.

``python -m tests.nn.image_cases`` prints the table `NUMBERS` of `tests/nn/image_numbers.py`, with PyTorch installed.
"""

from tests.nn.torch_cases import Torch, functions, layer, numbers

ODD = (2, 2, 5, 4)


def with_indices(name, *shape, **settings):
    """Maxima, and their positions as numbers."""

    def case(lib):
        values, places = getattr(lib.F, name)(lib.x(*shape), return_indices=True, **settings)
        return values, places.double()

    return case


def unpooled(name, pool, *shape, output_size=None, **settings):
    def case(lib):
        values, places = getattr(lib.F, pool)(lib.x(*shape), return_indices=True, **settings)
        return getattr(lib.F, name)(values, places, output_size=output_size, **settings)

    return case


def instance_norm_of_two(lib):
    """Two batches, then without training."""
    norm = lib.filled(lib.nn.InstanceNorm2d(3, affine=True, track_running_stats=True))
    norm(lib.x(2, 3, 2, 2))
    second = norm(lib.x(3, 3, 2, 2))
    norm.eval()
    return second, norm.running_mean, norm.running_var, norm(lib.x(2, 3, 2, 2))


def convolved_to_size(lib):
    up = lib.filled(lib.nn.ConvTranspose2d(2, 3, 3, stride=3, padding=1))
    return up(lib.x(1, 2, 2, 2), output_size=(5, 6))


def sampled(**settings):
    return lambda lib: lib.F.grid_sample(lib.x(*ODD), lib.x(2, 3, 2, 2), **settings)


def sampled_volumes(lib):
    grid = lib.F.affine_grid(lib.x(1, 3, 4), (1, 2, 2, 1, 3), align_corners=False)
    return lib.F.grid_sample(lib.x(1, 2, 2, 3, 2), grid, align_corners=False)


def zero_vector(lib):
    """The gradient of what is too short to be normalized."""
    return lib.F.normalize(lib.x(2, 3) * lib.constant(numbers((2, 3)) * 0.0), dim=1, eps=0.5)


CASES = {
    "Conv1d": layer("Conv1d", 4, 6, 3, stride=2, padding=1, dilation=2, groups=2, shape=(2, 4, 7)),
    "Conv1d same": layer("Conv1d", 2, 3, 4, padding="same", shape=(2, 5)),
    "Conv2d same": layer("Conv2d", 2, 3, (2, 3), padding="same", dilation=(1, 2), shape=ODD),
    "Conv2d depthwise": layer("Conv2d", 3, 6, 3, stride=2, padding=1, groups=3, shape=(2, 3, 5, 4)),
    "Conv3d": layer("Conv3d", 2, 4, (2, 1, 3), stride=(1, 2, 1), padding=1, groups=2, shape=(1, 2, 2, 3, 3)),
    "Conv3d single": layer("Conv3d", 1, 2, 2, padding="valid", dilation=(1, 2, 1), bias=False, shape=(1, 2, 3, 3)),
    "Conv2d reflect": layer("Conv2d", 2, 3, 3, padding=(1, 2), padding_mode="reflect", shape=ODD),
    "Conv2d replicate": layer("Conv2d", 2, 1, 4, padding="same", padding_mode="replicate", shape=ODD),
    "Conv1d circular": layer("Conv1d", 2, 1, 3, padding=2, padding_mode="circular", shape=(1, 2, 3)),
    "ConvTranspose1d": layer("ConvTranspose1d", 4, 2, 3, 2, 1, 1, groups=2, dilation=2, shape=(2, 4, 3)),
    "ConvTranspose2d": layer("ConvTranspose2d", 4, 6, (3, 2), (2, 3), 1, (1, 2), groups=2, shape=(2, 4, 3, 2)),
    "ConvTranspose2d dilated": layer("ConvTranspose2d", 2, 3, 2, 1, 0, 1, dilation=(2, 3), shape=(1, 2, 2, 3)),
    "ConvTranspose2d to a size": convolved_to_size,
    "ConvTranspose3d": layer("ConvTranspose3d", 2, 2, 2, (2, 1, 2), (0, 1, 0), bias=False, shape=(2, 2, 2, 3)),
    "ZeroPad2d": layer("ZeroPad2d", (1, -1, 2, 0), shape=ODD),
    "ConstantPad1d": layer("ConstantPad1d", 2, 3.5, shape=(2, 3)),
    "ConstantPad3d": layer("ConstantPad3d", (1, 0, 0, 1, 1, 0), -1.0, shape=(1, 2, 1, 2)),
    "ReflectionPad1d": layer("ReflectionPad1d", (2, 1), shape=(2, 3)),
    "ReflectionPad2d": layer("ReflectionPad2d", (2, 1, 0, 3), shape=ODD),
    "ReplicationPad2d": layer("ReplicationPad2d", (3, 1, 0, 2), shape=ODD),
    "CircularPad2d": layer("CircularPad2d", (4, 1, 0, 2), shape=ODD),
    "MaxPool1d": with_indices("max_pool1d", 2, 7, kernel_size=3, stride=2, padding=1, dilation=2),
    "MaxPool2d": with_indices(
        "max_pool2d", *ODD, kernel_size=(3, 2), stride=2, padding=1, dilation=(1, 2), ceil_mode=True
    ),
    "MaxPool2d layer": layer("MaxPool2d", 2, ceil_mode=True, shape=ODD),
    "MaxPool3d": with_indices("max_pool3d", 1, 2, 3, 4, 5, kernel_size=(2, 3, 2), stride=(1, 2, 2), padding=1),
    "AvgPool1d": layer("AvgPool1d", 3, 2, 1, ceil_mode=True, shape=(2, 6)),
    "AvgPool2d": layer("AvgPool2d", (3, 2), 2, 1, ceil_mode=True, count_include_pad=False, shape=ODD),
    "AvgPool3d": layer("AvgPool3d", (2, 3, 2), 2, 1, ceil_mode=True, shape=(2, 3, 4, 3)),
    "AvgPool3d divided": layer("AvgPool3d", 2, divisor_override=3, shape=(1, 2, 2, 3, 4)),
    "LPPool1d": layer("LPPool1d", 2, 3, 2, shape=(2, 7)),
    "LPPool2d": layer("LPPool2d", 4, 2, ceil_mode=True, shape=ODD),
    "AdaptiveAvgPool2d": layer("AdaptiveAvgPool2d", (3, None), shape=ODD),
    "AdaptiveAvgPool3d": layer("AdaptiveAvgPool3d", (2, 3, 1), shape=(1, 2, 3, 4, 2)),
    "AdaptiveMaxPool1d": with_indices("adaptive_max_pool1d", 2, 7, output_size=3),
    "AdaptiveMaxPool2d": with_indices("adaptive_max_pool2d", *ODD, output_size=(3, 2)),
    "AdaptiveMaxPool3d": with_indices("adaptive_max_pool3d", 2, 3, 4, 2, output_size=(2, 3, 1)),
    "max_unpool1d": unpooled("max_unpool1d", "max_pool1d", 2, 3, 6, kernel_size=2),
    "max_unpool2d": unpooled("max_unpool2d", "max_pool2d", *ODD, kernel_size=2, output_size=(2, 2, 5, 4)),
    "max_unpool3d": unpooled("max_unpool3d", "max_pool3d", 1, 1, 2, 4, 4, kernel_size=(1, 2, 2)),
    "InstanceNorm1d": layer("InstanceNorm1d", 3, shape=(3, 5)),
    "InstanceNorm2d with statistics": instance_norm_of_two,
    "InstanceNorm3d": layer("InstanceNorm3d", 2, affine=True, shape=(2, 2, 2, 1, 2)),
    "BatchNorm1d of one": layer("BatchNorm1d", 3, shape=(1, 3, 4)),
    "GroupNorm of rows": layer("GroupNorm", 2, 4, shape=(2, 4)),
    "LocalResponseNorm": layer("LocalResponseNorm", 3, 0.4, 0.6, 1.5, shape=ODD),
    "normalized zeros": zero_vector,
    "pixel_shuffle": functions("pixel_shuffle", 8, 2, 3, upscale_factor=2),
    "PixelUnshuffle": layer("PixelUnshuffle", 2, shape=(1, 2, 4, 6)),
    "ChannelShuffle": layer("ChannelShuffle", 3, shape=(1, 6, 2, 2)),
    "Unfold": layer("Unfold", (2, 3), dilation=(2, 1), padding=1, stride=(1, 2), shape=ODD),
    "Fold": layer("Fold", (5, 4), (2, 3), dilation=(2, 1), padding=1, stride=(1, 2), shape=(2, 12, 10)),
    "interpolate nearest": functions("interpolate", 2, 2, 5, size=8),
    "interpolate nearest twice": layer("UpsamplingNearest2d", scale_factor=2, shape=ODD),
    "interpolate nearest-exact": functions("interpolate", *ODD, scale_factor=(1.3, 0.6), mode="nearest-exact"),
    "interpolate linear": functions("interpolate", 2, 2, 5, scale_factor=1.7, mode="linear"),
    "interpolate bilinear": functions("interpolate", *ODD, size=(3, 7), mode="bilinear"),
    "interpolate bilinear twice": functions("interpolate", *ODD, scale_factor=(2.0, 3.0), mode="bilinear"),
    "interpolate bilinear recomputed": functions(
        "interpolate", *ODD, scale_factor=(1.3, 1.6), mode="bilinear", recompute_scale_factor=True
    ),
    "interpolate bilinear aligned": layer("UpsamplingBilinear2d", size=(3, 7), shape=ODD),
    "interpolate bilinear antialiased": functions("interpolate", *ODD, size=(2, 3), mode="bilinear", antialias=True),
    "interpolate bicubic": functions("interpolate", *ODD, size=(3, 7), mode="bicubic"),
    "interpolate bicubic antialiased": functions("interpolate", *ODD, size=(2, 3), mode="bicubic", antialias=True),
    "interpolate trilinear": functions(
        "interpolate", 1, 1, 2, 3, 2, size=(3, 2, 4), mode="trilinear", align_corners=True
    ),
    "interpolate area": functions("interpolate", *ODD, size=(3, 3), mode="area"),
    "grid_sample aligned border": sampled(align_corners=True, padding_mode="border"),
    "grid_sample reflection": sampled(align_corners=False, padding_mode="reflection"),
    "grid_sample nearest": sampled(align_corners=True, mode="nearest", padding_mode="reflection"),
    "grid_sample bicubic": sampled(align_corners=True, mode="bicubic"),
    "grid_sample bicubic reflection": sampled(align_corners=False, mode="bicubic", padding_mode="reflection"),
    "grid_sample of volumes": sampled_volumes,
}

if __name__ == "__main__":
    import torch

    print(f'"""What PyTorch {torch.__version__} computes for `tests/nn/image_cases.py`: results and gradients."""\n')
    print("NUMBERS = {")
    library = Torch(torch)
    for name, case in CASES.items():
        print(f'    "{name}": ({", ".join(f"{n:.14g}" for n in library.numbers(case))}),')
    print("}")
