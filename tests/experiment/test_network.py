"""The network of an experiment: whoever brings one, however it is built."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from entrofed.backends.inline import InlineBackend
from entrofed.core.params import Layout
from entrofed.core.seeds import torch_stream
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError
from entrofed.experiment.build import Setup, prepare
from entrofed.experiment.config import parse
from entrofed.experiment.network import OwnNetwork, builder
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.methods import fedconcat, moon
from entrofed.models.networks import build as build_named

IMAGE, CLASSES = (1, 8, 8), 10


@pytest.fixture
def ready() -> Callable[..., Setup]:
    """Digits, and a network."""
    experiment = parse({"rounds": 2, "data": {"name": "digits", "clients": 4}, "method": {"cohort": 2}})
    return lambda model, **more: prepare(experiment, model=model, **more)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x.flatten(1))


class Told(nn.Module):
    """Wants to know shape and classes, and has an option."""

    def __init__(self, classes, shape, width: int = 4) -> None:
        super().__init__()
        self.told, self.width = (shape, classes), width
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), width), nn.Linear(width, classes))

    def forward(self, x):
        return self.layers(x)


class Viewing(nn.Module):
    """As tutorials have it: ``view`` after a convolution, which the order in memory must allow for."""

    def __init__(self, num_classes: int = 3, in_channels: int = 3) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(in_channels, 4, 3, padding=1), nn.Linear(4 * 64, num_classes)

    def forward(self, x):
        return self.out(torch.relu(self.conv(x)).view(-1, 4 * 64))


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(10))


def test_a_name_is_built_as_ever(ready: Callable[..., Setup]) -> None:
    setup = ready({"name": "mlp", "hidden": [7]})
    with torch_stream(0, "init"):
        model = build_named("mlp", IMAGE, CLASSES, hidden=[7])
    assert setup.params.values.tobytes() == Layout.of(model).read(model).values.tobytes()


def test_callables_and_what_they_are_called_with(ready: Callable[..., Setup]) -> None:
    assert isinstance(ready(Plain).build(), Plain)
    told = ready(Told).build()
    assert (told.told, told.width) == ((IMAGE, CLASSES), 4)
    assert ready(partial(Told, width=9)).build().width == 9
    assert ready(lambda shape, n_classes: Told(n_classes, shape)).build().told == (IMAGE, CLASSES)
    viewing = ready(Viewing).build()  # the data's classes and channels in place of the defaults
    assert (viewing.out.out_features, viewing.conv.in_channels) == (10, 1)


def test_the_same_seed_starts_alike_and_another_does_not() -> None:
    def start(seed: int) -> bytes:
        experiment = parse({"seed": seed, "data": {"name": "digits", "clients": 4}})
        return prepare(experiment, model=lazy).params.values.tobytes()

    assert start(1) == start(1) != start(2)


def test_by_reference_with_options(tmp_path: Path) -> None:
    code = "from tests.experiment.test_network import Told, Plain\nnet = Plain()\nwrong = 3\n"
    (tmp_path / "nets.py").write_text(code)
    experiment = {"data": {"name": "digits", "clients": 4}}
    file = tmp_path / "nets.py"
    setup = prepare(parse({**experiment, "model": {"name": f"{file}:Told", "width": 5}}))
    assert setup.build().width == 5
    assert isinstance(prepare(parse({**experiment, "model": f"{file}:net"})).build(), nn.Module)
    for model, said in (
        ({"name": f"{file}:Told", "widht": 5}, "unknown option of model '.*:Told': 'widht'; did you mean 'width'"),
        ({"name": f"{file}:net", "width": 5}, "is a module already and takes no options: width"),
        (f"{file}:wrong", "a callable that returns an nn.Module, or one is expected, found 3"),
    ):
        with pytest.raises(ConfigError, match=said):
            prepare(parse({**experiment, "model": model}))


def test_a_module_is_copied_with_its_weights(ready: Callable[..., Setup]) -> None:
    module = Plain()
    setup = ready(module)
    start = Layout.of(module).read(module)
    assert setup.params.values.tobytes() == start.values.tobytes()
    with torch.no_grad():
        module.layer.weight.zero_()
    assert setup.build().layer.weight.any()
    assert setup.build() is not setup.build()


def test_lazy_layers_are_initialized(ready: Callable[..., Setup]) -> None:
    setup = ready(lazy)
    assert setup.layout.trainable == 4 * 9 + 4 + 8 + 144 * 10 + 10
    counters = setup.layout.split(setup.params)["1.num_batches_tracked"]
    assert counters == 0  # nothing was trained on


def test_view_works_after_convolutions(ready: Callable[..., Setup], tmp_path: Path) -> None:
    data = _colours()
    setup = ready(Viewing, federation=data)
    assert setup.build().channels_last is False
    summary = run(setup.experiment, RunFolder(tmp_path), backend=InlineBackend(), setup=setup)
    assert summary["refused"] == 0

    class Flattening(Viewing):
        def forward(self, x):
            return self.out(torch.relu(self.conv(x)).flatten(1))

    assert not hasattr(ready(Flattening, federation=data).build(), "channels_last")


def _colours() -> Federation:
    rng = np.random.default_rng(0)
    return Federation.partition(rng.random((40, 3, 8, 8), np.float32), np.arange(40) % 3, "iid", clients=4, test=0.2)


def test_three_dimensional_convolutions() -> None:
    x = np.random.default_rng(0).random((12, 1, 4, 4, 4), np.float32)
    federation = Federation.partition(x, np.arange(12) % 2, "iid", clients=2, test=0.25, kind="tensor")
    experiment = parse({"data": {"name": "digits", "clients": 2}})
    setup = prepare(experiment, federation=federation, model=lambda: nn.Sequential(nn.Conv3d(1, 2, 4), nn.Flatten()))
    backend = InlineBackend()
    backend.open(setup.workload)


BAD: list[tuple[Any, str]] = [
    (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 7)),
        r"returns \(4, 7\) for 4 samples; 10 classes need \(4, 10\)",
    ),
    (lambda: nn.Flatten(), "has no parameters that can be trained"),
    (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10).requires_grad_(False)), "has no parameters"),
    (lambda: nn.LSTM(8, 10), "cannot take samples of shape"),
    (lambda: nn.Sequential(nn.Flatten(), nn.LSTM(64, 10)), "returns a tuple; a tensor of logits is expected"),
    (
        lambda: nn.Linear(63, 10),
        r"model 'lambda' cannot take samples of shape \(1, 8, 8\): RuntimeError: mat1 and mat2",
    ),
    (
        lambda: nn.Sequential(nn.LazyLinear(3), nn.Linear(4, 10)),
        r"cannot take samples of shape \(1, 8, 8\): RuntimeErr",
    ),
    (lambda: 3, "model 'lambda' gives 'int'; an nn.Module is expected"),
    (lambda: [][1], r"model 'lambda' cannot be built: IndexError: .* \(<lambda>, test_network.py line"),
    (lambda width: None, "model 'lambda' needs 'width': give it as an option, a default"),
    (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).double(),
        "has type torch.float64; it must be torch.float32",
    ),
    (3, "a callable that returns an nn.Module, or one is expected, found 3"),
    ("no_such_net", "unknown model 'no_such_net'"),
    ({"name": "mlp", "hiden": 3}, "did you mean 'hidden'"),
]


@pytest.mark.parametrize(("model", "said"), BAD, ids=range(len(BAD)))
def test_networks_that_cannot_be_trained(ready: Callable[..., Setup], model: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ready(model)


def test_infinite_logits(ready: Callable[..., Setup]) -> None:
    class Infinite(Plain):
        def forward(self, x):
            return super().forward(x) / 0

    with pytest.raises(ConfigError, match="returns values that are not finite for the first samples"):
        ready(Infinite)


def test_a_users_line_is_named(ready: Callable[..., Setup]) -> None:
    class Raising(Plain):
        def forward(self, x):
            return self.layer(x)

    with pytest.raises(ConfigError, match=r"mat2 .*\(.*Raising.forward, test_network.py line \d+\)"):
        ready(Raising)


def test_methods_that_look_inside_say_what_they_miss(ready: Callable[..., Setup]) -> None:
    with pytest.raises(ConfigError, match="Plain has no method 'represent'"):
        ready(Plain, method=moon())
    with pytest.raises(ConfigError, match="networks that have an 'encoder' and a linear 'output', and Plain has not"):
        ready(Plain, method=fedconcat(clusters=2))


def _dataset(kind: Any, x: np.ndarray) -> Dataset:
    y = np.arange(len(x)) % 3
    return Dataset("own", kind, x, y, x, y, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (_dataset("image", np.zeros((6, 3, 9, 5), np.uint8)), "cnn"),
        (_dataset("table", np.zeros((6, 5), np.float32)), "mlp"),
        (_dataset("text", np.full((6, 5), 8, np.uint8)), "text"),
        (_dataset("tensor", np.zeros((6, 5, 2), np.float32)), "mlp"),
        (_dataset("tensor", np.full((6, 5), 8, np.int64)), "text"),
    ],
    ids=lambda thing: getattr(thing, "kind", thing),
)
def test_auto_is_what_suits_the_data(data: Dataset, name: str) -> None:
    found, expected = builder("auto", data)(), builder(name, data)()
    assert str(found) == str(expected)
    if name == "text":
        assert found.encoder.embedding.num_embeddings == 9
        assert builder({"name": "text", "vocabulary": 50}, data)().encoder.embedding.num_embeddings == 50


def test_own_networks_travel(ready: Callable[..., Setup]) -> None:
    network = builder(Plain, ready("mlp").federation.data)
    assert isinstance(network, OwnNetwork)
    assert replace(network, channels_last=False)().channels_last is False
