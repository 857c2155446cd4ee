"""The papers' networks, with their exact sizes, and how a network is built by its name.

Every network is an encoder (everything before the last linear layer) and a linear output layer; it returns
logits. Sizes are given as *parameters / buffer elements*; buffers are batch-norm statistics and counters.

Weights start as torch starts them, drawn from torch's default generator: whoever builds a network seeds it.
Only the networks for tables start as Keras would start them: Glorot uniform weights, zero biases.

Papers write a convolution as conv, ReLU, pool. Here it is conv, pool, ReLU: the same function with the same gradients,
because ReLU is monotone, on a quarter of the values.

>>> network = build("lenet5", (3, 32, 32), classes=10)
>>> sum(p.numel() for p in network.parameters())
62006
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, Literal, get_args

from torch import Tensor, nn

from entrofed.errors import ConfigError, check_options, unknown
from entrofed.models.classifier import Classifier, ProjectingClassifier, ProjectionHead
from entrofed.models.text import text

VggHead = Literal["linear", "hidden"]
Shape = tuple[int, ...]
LARGEST = 8
"""Sides of what enters the linear layers of :func:`cnn`, at most."""


def lenet5(shape: Shape, classes: int) -> Classifier:
    """LeNet-5: conv 6 5x5, pool, conv 16 5x5, pool, 120-84-C; the fully connected part fits the image size.

    3x32x32: 62,006 / 0 for 10 classes, 62,856 / 0 for 20. 1x28x28: 44,426 / 0 for 10 classes.
    """
    channels, height, width = _image(shape, 16)
    encoder = nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU()),
        nn.Flatten(),
        *_hidden(16 * _after_lenet(height) * _after_lenet(width), 120, 84),
    )
    return Classifier(encoder, nn.Linear(84, classes))


def lenet_bn(shape: Shape, classes: int, *, head: ProjectionHead = "features") -> ProjectingClassifier:
    """LeNet with batch norm and a projection (FedKLEntropy, MNIST); dropout 0.5 after the first linear layer.

    1x28x28, 10 classes: 398,410 / 194; with ``head="projection"`` 399,690 / 194.
    """
    channels, height, width = _image(shape, 16)
    features = nn.Sequential(
        *(nn.Conv2d(channels, 32, 5), nn.BatchNorm2d(32), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(32, 64, 5), nn.BatchNorm2d(64), nn.MaxPool2d(2), nn.ReLU()),
        nn.Flatten(),
        *_hidden(64 * _after_lenet(height) * _after_lenet(width), 256),
        nn.Dropout(0.5),
        *_hidden(256, 128),
    )
    return ProjectingClassifier(features, 128, classes, head)


def cnn(shape: Shape, classes: int, *, head: ProjectionHead = "features") -> ProjectingClassifier:
    """Three convolution blocks, a linear layer and a projection (FedKLEntropy, Fashion-MNIST).

    1x28x28, 10 classes: 1,082,570 / 451; with ``head="projection"`` 1,080,010 / 451.
    Differs from the paper: dropout 0.3 comes after the 512-unit layer, not before it, because the authors'
    code has it there; images of other sizes are pooled less often, or more, so that 1x1 to 8x8 values are left.
    """
    channels, height, width = _image(shape, 1)
    blocks: list[nn.Module] = []
    for a, b in pairwise((channels, 32, 64, 128)):
        pool = (min(height, 2), min(width, 2))
        height, width = height // pool[0], width // pool[1]
        blocks.append(nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.MaxPool2d(pool), nn.ReLU()))
    if max(height, width) > LARGEST:
        height, width = min(height, LARGEST), min(width, LARGEST)
        blocks.append(nn.AdaptiveAvgPool2d((height, width)))
    features = nn.Sequential(
        *blocks,
        nn.Flatten(),
        *_hidden(128 * height * width, 512),
        nn.Dropout(0.3),
    )
    return ProjectingClassifier(features, 512, classes, head)


def mlp(shape: Shape, classes: int, *, hidden: tuple[int, ...] = (256, 128)) -> Classifier:
    """Fully connected network for inputs of any shape (FedEP).

    1x28x28, 10 classes: 235,146 / 0. Registered as ``digits_mlp`` with one hidden layer of 64 units:
    4,810 / 0 for 8x8 digits.
    """
    whole = isinstance(hidden, list | tuple) and all(isinstance(units, int) for units in hidden)
    if not whole or not hidden or min(hidden) < 1:
        raise ConfigError(f"hidden must be at least one layer of at least 1 unit, such as [64, 32], not {hidden!r}")
    encoder = nn.Sequential(nn.Flatten(), *_hidden(prod(shape), *hidden))
    return Classifier(encoder, nn.Linear(hidden[-1], classes))


def table_mlp(
    features: int,
    hidden: tuple[int, int],
    drops: Literal[1, 2],
    shape: Shape,
    classes: int,
    *,
    dropout: float = 0.2,
) -> Classifier:
    """Two hidden layers, each of the first ``drops`` with dropout (inverse prediction entropy, tables 2-5).

    Registered as ``heart_mlp`` 13-256-128-2 with 36,738 / 0, ``iris_mlp`` 4-32-16-3 with 739 / 0,
    ``pumpkin_mlp`` 12-32-16-2 with 978 / 0 and ``seeds_mlp`` 7-32-16-3 with 835 / 0.
    Differs from the paper: logits instead of softmax outputs, because the loss is computed from logits;
    and its table 3 counts only the biases of the last two Iris layers.
    """
    if shape != (features,):
        raise ConfigError(f"expects rows of {features} numbers, shape ({features},){_found(shape)}")
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout must be at least 0 and below 1, not {dropout}")
    first = _hidden(features, hidden[0], dropout=dropout)
    second = _hidden(*hidden, dropout=dropout if drops == 2 else 0)
    network = Classifier(nn.Sequential(*first, *second), nn.Linear(hidden[1], classes))
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return network


def simple_mobilenet(shape: Shape, classes: int) -> Classifier:
    """A convolution and five depthwise-separable blocks, averaged over the image (FedEP, CIFAR-10).

    3 channels, 10 classes: 136,778 / 2,955 whatever the image size.
    """
    channels, _, _ = _image(shape, 4)

    def convolve(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
        conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())

    blocks = [convolve(channels, 32, 3)]
    for (a, b), stride in zip(pairwise((32, 64, 128, 128, 256, 256)), (1, 2, 1, 2, 1), strict=True):
        blocks += [convolve(a, a, 3, stride, groups=a), convolve(a, b, 1)]
    encoder = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Classifier(encoder, nn.Linear(256, classes))


def vgg11(shape: Shape, classes: int, *, head: VggHead = "linear") -> Classifier:
    """VGG configuration A without batch norm (FedEntOpt).

    3x32x32, 10 classes: 9,225,610 / 0; with ``head="hidden"``, two layers of 512 units before the output,
    9,750,922 / 0. The paper's "over 4 million" fits neither, but fits `vgg8`.
    """
    if head not in get_args(VggHead):
        raise unknown("head", head, get_args(VggHead))
    return _vgg(shape, classes, ((64,), (128,), (256, 256), (512, 512), (512, 512)), hidden=head == "hidden")


def vgg8(shape: Shape, classes: int) -> Classifier:
    """The VGG with five convolutions and two hidden layers of the FedRS experiments.

    3x32x32, 10 classes: 4,441,226 / 0.
    """
    return _vgg(shape, classes, ((64,), (128,), (256,), (512,), (512,)), hidden=True)


class LastState(nn.Module):
    """Tokens [batch, length], of any integer type, to the top LSTM layer's state after the last one."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """States [batch, 256]."""
        states: Tensor = self.lstm(self.embedding(tokens.long()))[0]
        return states[:, -1]


def char_lstm(shape: Shape, classes: int) -> Classifier:
    """Next-character prediction with two LSTM layers of 256; the characters are the classes (InfoDiv).

    80 characters: 819,920 / 0. The layout is that of LEAF's Shakespeare network, as the paper prints none.
    """
    if len(shape) != 1:
        raise ConfigError(f"expects lines of tokens, shape (length,){_found(shape)}")
    return Classifier(LastState(classes), nn.Linear(256, classes))


def auto(shape: Shape, classes: int, *, kind: str, vocabulary: int | None = None) -> Classifier:
    """What suits the kind of the data: ``cnn`` for images, ``text`` for tokens, else ``mlp``.

    A tensor of whole numbers in a row is taken for tokens.
    """
    if kind == "image":
        return cnn(shape, classes)
    if vocabulary is not None:
        return text(shape, classes, vocabulary=vocabulary)
    return mlp(shape, classes)


MODELS: dict[str, Callable[..., nn.Module]] = {
    "auto": auto,
    "lenet5": lenet5,
    "lenet_bn": lenet_bn,
    "cnn": cnn,
    "mlp": mlp,
    "digits_mlp": partial(mlp, hidden=(64,)),
    "heart_mlp": partial(table_mlp, 13, (256, 128), 2),
    "iris_mlp": partial(table_mlp, 4, (32, 16), 1),
    "pumpkin_mlp": partial(table_mlp, 12, (32, 16), 1),
    "seeds_mlp": partial(table_mlp, 7, (32, 16), 1),
    "simple_mobilenet": simple_mobilenet,
    "vgg11": vgg11,
    "vgg8": vgg8,
    "char_lstm": char_lstm,
    "text": text,
}


def build(name: str, sample_shape: tuple[int, ...], classes: int, **options: Any) -> nn.Module:
    """The registered network for samples of this shape (without the batch axis) and this many classes."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    if not sample_shape or min(sample_shape) < 1:
        raise ConfigError(f"samples need at least one axis, none empty; the data has shape {sample_shape}")
    if classes < 2:
        raise ConfigError(f"a classifier needs at least 2 classes; the data has {classes}")
    check_options(f"model {name!r}", MODELS[name], options)
    try:
        return MODELS[name](tuple(sample_shape), classes, **options)
    except ConfigError as error:
        raise ConfigError(f"model {name!r}: {error}") from None


def _found(shape: Shape) -> str:
    return f"; the data has samples of shape {shape}; choose another model"


def _image(shape: Shape, smallest: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < smallest:
        rule = f"expects images, shape (channels, height, width), of at least {smallest}x{smallest} pixels"
        raise ConfigError(rule + _found(shape))
    return shape[0], shape[1], shape[2]


def _after_lenet(side: int) -> int:
    """Pixels left of a side after twice a 5x5 convolution and a pooling."""
    return ((side - 4) // 2 - 4) // 2


def _hidden(*widths: int, dropout: float = 0.0) -> list[nn.Module]:
    """Linear layers between the given widths, each with a ReLU and, if wanted, dropout."""
    drop = [nn.Dropout(dropout)] if dropout else []
    return [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU(), *drop)]


def _vgg(shape: Shape, classes: int, blocks: tuple[tuple[int, ...], ...], *, hidden: bool) -> Classifier:
    channels, height, width = _image(shape, 32)
    layers: list[nn.Module] = []
    for block in blocks:
        for outputs in block:
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU()]
            channels = outputs
        layers.append(nn.MaxPool2d(2))
    flat = 512 * (height // 32) * (width // 32)
    layers += [nn.Flatten(), *(_hidden(flat, 512, 512, dropout=0.5) if hidden else [])]
    return Classifier(nn.Sequential(*layers), nn.Linear(512 if hidden else flat, classes))
