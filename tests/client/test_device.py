"""Where tensors lie: all that is computed for a client lies on its device, shown on a GPU that is pretended."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.client.pretend import MixedDevicesError, Pretended, pretending

from entrofed.backends.base import Workload
from entrofed.client import device as devices_of
from entrofed.client.augment import AUGMENTS
from entrofed.client.device import check_device, devices, place, resolved
from entrofed.client.evaluate import confusion_sums
from entrofed.client.model import LocalModel
from entrofed.client.optimizers import OPTIMIZERS
from entrofed.client.runtime import ClientRuntime
from entrofed.client.train import train
from entrofed.client.work import work
from entrofed.core.params import Params
from entrofed.core.seeds import torch_stream
from entrofed.core.tasks import FactTask, GradientTask, PredictTask, TrainTask
from entrofed.core.types import ClientData, ClientTable
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError
from entrofed.experiment.sections.method import MethodSection
from entrofed.facts import FACTS
from entrofed.facts.mean_prediction import MeanPrediction
from entrofed.models.concatenated import Concatenated
from entrofed.models.networks import Classifier
from entrofed.objectives import OBJECTIVES
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.proximal import Proximal
from entrofed.privacy.updates import Private
from entrofed.servers import CLIENT_RULES, SERVERS
from entrofed.servers.average import Average
from entrofed.servers.concat import Concat
from entrofed.servers.scaffold import Scaffold

CLASSES, SAMPLES = 3, 6
CUDA, META = "cuda:0", "meta"


class Small(Classifier):
    """A convolution with batch norm and dropout, as the larger networks have them."""

    def __init__(self) -> None:
        layers = (torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.MaxPool2d(2), torch.nn.ReLU())
        encoder = torch.nn.Sequential(*layers, torch.nn.Dropout(0.3), torch.nn.Flatten())
        super().__init__(encoder, torch.nn.Linear(16, CLASSES))


def federation() -> Federation:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (SAMPLES, 3, 6, 6), dtype=np.uint8), np.arange(SAMPLES) % CLASSES
    rows, half = np.arange(SAMPLES), np.full(3, 0.5, np.float32)
    data = Dataset("six", "image", x, y, x, y, tuple("abc"), valid_x=x, valid_y=y)
    return Federation(data, half, half, (rows,), (rows[:0],), np.arange(1), np.bincount(y)[None])


@pytest.fixture(params=[CUDA, META])
def device(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretended]:
    """Both ways to pretend a device."""
    with pretending(request.param, monkeypatch) as pretended:
        yield pretended


def runtime(device: Pretended, network: Any = Small) -> ClientRuntime:
    return ClientRuntime(federation(), network, compiled=False, device=device.device)


def start(runtime: ClientRuntime) -> Params:
    layout = runtime.model.layout
    return Params(np.ones(layout.floats, np.float32), np.zeros(layout.counters, np.int64))


def broadcast_of(server: Any, params: Params, trainable: int) -> dict[str, Any]:
    """What goes to clients of a rule; FedConcat's own is in its second phase, and in its first beside other rules."""
    table = ClientTable(
        np.full(6, 5), CLASSES, trainable=trainable, facts={"label_counts": np.arange(18.0).reshape(6, 3)}
    )
    sent = dict(server.broadcast(server.init(params, table, np.arange(6))))
    return {**sent, "clusters": np.zeros(6, np.int64), "phase": np.array(int(server.name == "concat"))}


RULES: dict[Any, Any] = {part().client: part() for part in SERVERS.values()}
"""A server rule for each way in which clients train: those that ask nothing of clients are all the same to them."""
RULES[Concat().client] = Concat(clusters=2)
RULES[Scaffold(variant="niid_bench").client] = Scaffold(variant="niid_bench")
PRIVATE = Private(Average(), clip=1.0, noise=1.0, where="client", simulate=True)
RULES[PRIVATE.client] = PRIVATE

LOSSES = {
    **{name: part() for name, part in OBJECTIVES.items()},
    "weighted": CrossEntropy(0.1, (1.0, 2.0, 3.0)),
    "balanced": CrossEntropy(class_weights="balanced"),
    "around": Proximal(0.1, OBJECTIVES["contrastive"]()),
}

OPTIONS: dict[str, dict[str, Any]] = {
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "clipped": {"clip_gradients": 1.0},
    "augmented": {"augment": tuple(AUGMENTS)},
}


def test_every_client_rule_is_among_them() -> None:
    assert {rule.name for rule in RULES if rule is not None} == set(CLIENT_RULES)


def train_by_every_rule(device: Pretended, objective: Any, optimizer: str = "sgd", **options: Any) -> None:
    """Each time with what the client kept the time before."""
    there = runtime(device, (lambda: Concatenated(Small, 2)) if objective.name == "branch" else Small)
    training = MethodSection(optimizer=optimizer, batch_size=4, weight_decay=0.1, persist_optimizer=True).training()
    params, kept = start(there), {}
    for number, (rule, server) in enumerate(RULES.items()):
        sent = broadcast_of(server, params, there.model.layout.trainable)
        task = TrainTask(0, number, 0, params, objective, replace(training, **options), rule=rule, broadcast=sent)
        update = train(replace(task, client_state=kept, limits=np.full(CLASSES, 2)), there.client_data(0), there.model)
        assert update.num_steps == 2
        assert update.params.problem(there.model.layout) is None
        assert tuple(update.terms) == (() if rule == PRIVATE.client else objective.terms)
        kept = update.client_state
    assert all(tensor.device == device.device for tensor in there.model.module.state_dict().values())
    assert {f"aten::_fused_{optimizer}_", "aten::convolution"} <= set(device.seen)
    assert ("aten::convolution_backward" in device.seen) == (device.device.type == META)


@pytest.mark.parametrize("device", [CUDA], indirect=True)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("objective", LOSSES.values(), ids=LOSSES)
def test_training_stays_on_the_device(device: Pretended, objective: Any, optimizer: str) -> None:
    """Every objective with every optimizer and every rule."""
    train_by_every_rule(device, objective, optimizer)


@pytest.mark.parametrize("device", [META], indirect=True)
@pytest.mark.parametrize("objective", LOSSES.values(), ids=LOSSES)
def test_gradients_stay_on_the_device(device: Pretended, objective: Any) -> None:
    train_by_every_rule(device, objective)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_what_else_training_does_stays_on_the_device(device: Pretended, options: dict[str, Any]) -> None:
    train_by_every_rule(device, CrossEntropy(), **options)


def test_evaluation_facts_predictions_and_gradients_stay_on_the_device(device: Pretended) -> None:
    there = runtime(device)
    params, rows = start(there), np.arange(SAMPLES)
    there.model.load(params)
    sums = confusion_sums(there.samples("test", rows), there.model)
    assert sums.confusion.sum() == SAMPLES
    for name in FACTS.keys() - {"first_update"}:
        value = work(FactTask(FACTS[name](), 0, params), there)
        assert FACTS[name]().problem(value, CLASSES) is None
    assert work(PredictTask((params, params), rows), there).samples == SAMPLES
    assert work(GradientTask(params, rows), there).shape == (there.model.layout.trainable,)
    logits = [found for found, _ in there.model.predictions(there.samples("valid", rows))]
    assert [found.device.type for found in logits] == ["cpu"]


def test_samples_move_once_per_visit_as_bytes(device: Pretended) -> None:
    there = runtime(device)
    params = start(there)
    device.moved.clear()
    data = there.client_data(0)
    assert (data.x.device, data.y.device) == (device.device, torch.device("cpu"))
    facts = (MeanPrediction(),)
    task = TrainTask(0, 0, 0, params, CrossEntropy(), replace(MethodSection().training(), epochs=3), facts=facts)
    train(task, data, there.model)
    moved = [tensor for tensor in device.moved if tensor.shape[:1] == (SAMPLES,)]
    assert [(tensor.dtype, tensor.ndim) for tensor in moved] == [
        (torch.uint8, 4),
        (torch.int64, 1),  # the labels
        *[(torch.int64, 1)] * 3,  # the order of each epoch
    ]
    assert not [tensor for tensor in device.moved if tensor.ndim == 0 and tensor.is_floating_point()]  # in every step


@dataclass(frozen=True)
class Careless(CrossEntropy):
    """Forgets that the model may be elsewhere."""

    name: ClassVar[str] = "careless"

    number: bool = False

    def begin(self, task: Any, data: Any, model: Any) -> Any:
        left_behind = torch.ones(()) if self.number else torch.ones(CLASSES)
        return lambda x: {"margin": left_behind}

    def loss(self, model: Any, x: Any, y: Any, given: Any) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(x) - given["margin"], y)


@pytest.mark.parametrize("number", [False, True])
def test_a_tensor_left_on_the_cpu_is_noticed(device: Pretended, number: bool) -> None:
    """Be it a single number, which torch itself would let pass."""
    there = runtime(device)
    task = TrainTask(0, 0, 0, start(there), Careless(number=number), MethodSection().training())
    with pytest.raises(MixedDevicesError, match=r"aten.sub.Tensor on (cuda:0|meta) \(6, 3\), cpu"):
        train(task, there.client_data(0), there.model)


def test_an_optimizer_left_on_the_cpu_is_noticed(device: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(OPTIMIZERS["adam"]):  # type: ignore[misc]
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.steps = [torch.tensor(0.0) for _ in self.steps]

    monkeypatch.setitem(OPTIMIZERS, "adam", Careless)
    there = runtime(device)
    training = replace(MethodSection().training(), optimizer="adam")
    with pytest.raises(MixedDevicesError, match="fused_adam"):
        train(TrainTask(0, 0, 0, start(there), CrossEntropy(), training), there.client_data(0), there.model)


def test_inputs_left_on_the_cpu_are_noticed(device: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrofed.client.model.Inputs.move", lambda self, device: None)
    there = runtime(device)
    with pytest.raises(MixedDevicesError, match=r"aten\.sub"):
        train(
            TrainTask(0, 0, 0, start(there), CrossEntropy(), MethodSection().training()),
            there.client_data(0),
            there.model,
        )


def test_data_that_a_client_loads_itself_moves_in_training(device: Pretended) -> None:
    """As on Flower, where no federation is at hand."""
    model = LocalModel(Small, device=device.device)
    data = ClientData(torch.rand(SAMPLES, 3, 6, 6), torch.arange(SAMPLES) % CLASSES, CLASSES)
    params = Params(np.ones(model.layout.floats, np.float32), np.zeros(model.layout.counters, np.int64))
    limits = np.array([1, 2, 1])
    update = train(TrainTask(0, 0, 0, params, CrossEntropy(), MethodSection().training(), limits=limits), data, model)
    assert update.num_examples == 4


@pytest.mark.parametrize("device", [CUDA], indirect=True)
def test_draws_on_a_device_come_from_named_streams(device: Pretended) -> None:
    (generator,) = torch.cuda.default_generators
    before = generator.get_state()

    def drawn(*name: Any) -> list[float]:
        with torch_stream(*name, device=device.device):
            return torch.rand(4, generator=generator).tolist()

    first = drawn(1, "layers", 2, 3)
    assert drawn(1, "layers", 2, 3) == first
    assert drawn(1, "layers", 2, 4) != first
    assert torch.equal(generator.get_state(), before)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class About:
        name, total_memory = "Imagined", 8e9

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: About())
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # restored afterwards
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    cudnn = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    yield
    torch.use_deterministic_algorithms(before[0])
    torch.utils.deterministic.fill_uninitialized_memory = before[1]
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = cudnn


def test_workers_take_turns_among_gpus(two_gpus: None) -> None:
    assert [str(place("cuda", worker)) for worker in range(5)] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]
    assert [str(place("cuda:1", worker)) for worker in range(2)] == ["cuda:1", "cuda:1"]
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert devices()["cuda:1"] == "Imagined, 8 GB"
    assert resolved("auto") == "cuda"


def test_the_cpu_is_left_as_it_is() -> None:
    assert place("cpu", 3) == torch.device("cpu")
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps"])
def test_a_device_that_is_not_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_of, "devices", lambda: {"cpu": "2 cores"})
    words = f"engine.device = '{name}': there is none on this machine, which has cpu; choose one of these or 'auto'"
    with pytest.raises(ConfigError, match=words):
        check_device(name)
    with pytest.raises(ConfigError, match=words):
        Workload(federation(), Small, LocalModel(Small).layout, device=name).runtime()
    assert resolved("auto") == "cpu"


def test_one_gpu_too_far(two_gpus: None) -> None:
    with pytest.raises(ConfigError, match="which has cpu, cuda:0, cuda:1; choose"):
        check_device("cuda:2")


def test_mixed_precision_trains_nearly_as_well() -> None:
    """On the CPU; parameters, gradients and what is sent stay float32."""
    whole, mixed = (ClientRuntime(federation(), Small, compiled=False, precision=p) for p in ("float32", "bf16"))
    params = LocalModel(Small).dump()
    task = TrainTask(0, 0, 0, params, CrossEntropy(), replace(MethodSection().training(), batch_size=4, lr=0.1))
    first, second = (train(task, there.client_data(0), there.model) for there in (whole, mixed))
    assert first.params.values.dtype == second.params.values.dtype == np.float32
    assert (first.params.values != second.params.values).any()
    np.testing.assert_allclose(second.params.values, first.params.values, atol=0.02)
    again = train(task, mixed.client_data(0), mixed.model)
    assert again.params.values.tobytes() == second.params.values.tobytes()
