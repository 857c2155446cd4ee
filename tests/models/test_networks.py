import copy

import pytest
import torch
from torch import nn

from entrofed.errors import ConfigError
from entrofed.models.networks import MODELS, Classifier, ProjectingClassifier, build

# name, sample shape, classes, options, parameters, buffer elements
NETWORKS = [
    ("lenet5", (3, 32, 32), 10, {}, 62_006, 0),
    ("lenet5", (3, 32, 32), 20, {}, 62_856, 0),
    ("lenet5", (1, 28, 28), 10, {}, 44_426, 0),
    ("lenet_bn", (1, 28, 28), 10, {}, 398_410, 194),
    ("lenet_bn", (1, 28, 28), 10, {"head": "projection"}, 399_690, 194),
    ("cnn", (1, 28, 28), 10, {}, 1_082_570, 451),
    ("cnn", (1, 28, 28), 10, {"head": "projection"}, 1_080_010, 451),
    ("mlp", (1, 28, 28), 10, {}, 235_146, 0),
    ("mlp", (30,), 2, {"hidden": [8]}, 266, 0),
    ("digits_mlp", (1, 8, 8), 10, {}, 4_810, 0),
    ("digits_mlp", (64,), 10, {}, 4_810, 0),
    ("heart_mlp", (13,), 2, {}, 36_738, 0),
    ("iris_mlp", (4,), 3, {}, 739, 0),
    ("pumpkin_mlp", (12,), 2, {}, 978, 0),
    ("seeds_mlp", (7,), 3, {}, 835, 0),
    ("simple_mobilenet", (3, 32, 32), 10, {}, 136_778, 2_955),
    ("vgg11", (3, 32, 32), 10, {}, 9_225_610, 0),
    ("vgg11", (3, 32, 32), 10, {"head": "hidden"}, 9_750_922, 0),
    ("vgg8", (3, 32, 32), 10, {}, 4_441_226, 0),
    ("char_lstm", (80,), 80, {}, 819_920, 0),
    ("text", (80,), 4, {"vocabulary": 1000}, 139_012, 0),
    ("text", (80,), 4, {"vocabulary": 1000, "reader": "lstm", "embedding": 8, "hidden": 16}, 9_732, 0),
    ("text", (80,), 4, {"vocabulary": 1000, "reader": "mean", "embedding": 8}, 8_036, 0),
    ("auto", (1, 28, 28), 10, {"kind": "image"}, 1_082_570, 451),
    ("auto", (30,), 2, {"kind": "table"}, 41_090, 0),
    ("auto", (80,), 4, {"kind": "text", "vocabulary": 1000}, 139_012, 0),
]
TOKENS = {"char_lstm", "text"}


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def sample(name, shape, batch=2):
    generator = torch.Generator().manual_seed(0)
    if name in TOKENS or (name == "auto" and shape == (80,)):
        return torch.randint(0, 80, (batch, *shape), generator=generator, dtype=torch.uint8)
    return torch.rand(batch, *shape, generator=generator)


def test_every_registered_model_is_tested():
    assert {name for name, *_ in NETWORKS} == set(MODELS)


@pytest.mark.parametrize(("name", "shape", "classes", "options", "parameters", "buffers"), NETWORKS)
def test_size_and_shape(name, shape, classes, options, parameters, buffers):
    network = build(name, shape, classes, **options).eval()
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert sum(b.numel() for b in network.buffers()) == buffers
    # no tensor is stored under two names
    assert sum(t.numel() for t in network.state_dict().values()) == parameters + buffers

    assert isinstance(network, Classifier)
    x = sample(name, shape)
    logits = network(x)
    assert logits.shape == (2, classes)
    assert torch.equal(logits, network.output(network.encoder(x)))
    assert not torch.equal(logits[0], logits[1])
    # logits, not probabilities
    assert not torch.allclose(logits.sum(-1), torch.ones(2))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_weights_come_from_the_default_generator(name):
    _, shape, classes, options, *_ = next(n for n in NETWORKS if n[0] == name)

    def start(seed):
        torch.manual_seed(seed)
        return build(name, shape, classes, **options).output.weight

    assert torch.equal(start(1), start(1))
    assert not torch.equal(start(1), start(2))


@pytest.mark.parametrize("name", ["lenet_bn", "cnn"])
@pytest.mark.parametrize("head", ["features", "projection"])
def test_represent_gives_logits_and_projection(name, head):
    network = build(name, (1, 28, 28), 10, head=head).eval()
    assert isinstance(network, ProjectingClassifier)
    x = sample(name, (1, 28, 28))
    logits, z = network.represent(x)
    assert z.shape == (2, 256)
    assert torch.equal(logits, network(x))
    assert torch.equal(z, network.projection(network.encoder(x)))
    if head == "projection":
        assert torch.equal(logits, network.output(z))


def test_a_side_branch_gets_no_gradient_from_the_logits():
    network = build("lenet_bn", (1, 28, 28), 10)
    network(sample("lenet_bn", (1, 28, 28))).sum().backward()
    idle = {name for name, p in network.named_parameters() if p.grad is None}
    assert idle == {f"projection.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")}
    assert sum(p.numel() for p in network.projection.parameters()) == 49_536


@pytest.mark.parametrize(("name", "rates"), [("heart_mlp", [0.2, 0.2]), ("iris_mlp", [0.2]), ("seeds_mlp", [0.2])])
def test_tables_have_dropout_and_glorot_start(name, rates):
    _, shape, classes, *_ = next(n for n in NETWORKS if n[0] == name)
    network = build(name, shape, classes)
    assert [m.p for m in network.modules() if isinstance(m, nn.Dropout)] == rates
    for layer in (m for m in network.modules() if isinstance(m, nn.Linear)):
        bound = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.8 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()
    assert not [m for m in build(name, shape, classes, dropout=0.0).modules() if isinstance(m, nn.Dropout)]


def test_tokens_of_any_integer_type_and_order_matters():
    network = build("char_lstm", (80,), 80)
    tokens = sample("char_lstm", (80,))
    assert torch.equal(network(tokens), network(tokens.long()))
    assert not torch.equal(network(tokens), network(tokens.flip(1)))


@pytest.mark.parametrize(
    ("name", "shape", "expects"),
    [
        ("lenet5", (64,), "16x16"),
        ("lenet5", (1, 8, 8), "16x16"),
        ("cnn", (28, 28), "1x1"),
        ("text", (3, 32, 32), "(length,)"),
        ("vgg11", (1, 28, 28), "32x32"),
        ("simple_mobilenet", (3,), "4x4"),
        ("iris_mlp", (5,), "(4,)"),
        ("char_lstm", (3, 32, 32), "(length,)"),
    ],
)
def test_wrong_shape_says_what_is_expected_and_what_is_there(name, shape, expects):
    with pytest.raises(ConfigError) as caught:
        build(name, shape, 10, **({"vocabulary": 9} if name == "text" else {}))
    message = str(caught.value)
    assert repr(name) in message
    assert expects in message
    assert f"the data has samples of shape {shape}" in message


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "says"),
    [
        ("lenet6", (3, 32, 32), 10, {}, "did you mean 'lenet5'"),
        ("cnn", (1, 28, 28), 10, {"heads": "features"}, "did you mean 'head'"),
        ("cnn", (1, 28, 28), 10, {"head": "projections"}, "did you mean 'projection'"),
        ("vgg11", (3, 32, 32), 10, {"head": "mlp"}, "hidden, linear"),
        ("iris_mlp", (4,), 3, {"features": 9}, "unknown option"),
        ("iris_mlp", (4,), 3, {"dropout": 1.0}, "below 1, not 1.0"),
        ("mlp", (4,), 3, {"hidden": ()}, "at least one layer"),
        ("mlp", (4,), 3, {"hidden": 64}, "such as [64, 32], not 64"),
        ("mlp", (4,), 3, {"hidden": ["a"]}, "at least one layer"),
        ("text", (4,), 3, {}, "needs vocabulary"),
        ("text", (4,), 3, {"vocabulary": 0}, "at least 1, not 0"),
        ("text", (4,), 3, {"vocabulary": 9, "reader": "bert"}, "gru, lstm, mean"),
        ("mlp", (), 3, {}, "at least one axis"),
        ("mlp", (4, 0), 3, {}, "(4, 0)"),
        ("mlp", (4,), 1, {}, "at least 2 classes"),
    ],
)
def test_bad_arguments(name, shape, classes, options, says):
    with pytest.raises(ConfigError) as caught:
        build(name, shape, classes, **options)
    assert says in str(caught.value)


@pytest.mark.parametrize(("name", "shape"), [("lenet5", (3, 32, 32)), ("lenet_bn", (1, 28, 28)), ("cnn", (1, 28, 28))])
def test_pooling_before_relu_is_what_the_papers_write(name: str, shape: tuple[int, ...]) -> None:
    """Outputs and gradients are those of conv, ReLU, pool, to the last bit."""
    torch.manual_seed(0)
    ours = build(name, shape, 10)
    written = copy.deepcopy(ours)
    for block in written.modules():
        if isinstance(block, nn.Sequential):
            layers = list(block)
            for i in range(len(layers) - 1):
                if isinstance(layers[i], nn.MaxPool2d) and isinstance(layers[i + 1], nn.ReLU):
                    block[i], block[i + 1] = layers[i + 1], layers[i]
    x, y = torch.randn(16, *shape), torch.arange(16) % 10
    gradients = []
    for network in (ours, written):
        torch.manual_seed(1)  # dropout
        loss = nn.functional.cross_entropy(network(x), y)
        gradients.append(torch.autograd.grad(loss, list(network.parameters()), allow_unused=True))
    assert [a is None for a in gradients[0]] == [b is None for b in gradients[1]]
    assert all(a is None or torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize(
    ("shape", "left"),
    [((1, 1, 1), 1), ((3, 2, 5), 1), ((3, 8, 8), 1), ((1, 28, 28), 9), ((1, 71, 64), 64), ((3, 224, 300), 64)],
)
def test_cnn_takes_images_of_any_size(shape: tuple[int, ...], left: int) -> None:
    network = build("cnn", shape, 3).eval()
    first = next(layer for layer in network.modules() if isinstance(layer, nn.Linear))
    assert first.in_features == 128 * left
    assert network(torch.rand(2, *shape)).shape == (2, 3)


@pytest.mark.parametrize("reader", ["gru", "lstm", "mean"])
def test_padding_does_not_count(reader: str) -> None:
    network = build("text", (4,), 3, vocabulary=9, embedding=5, hidden=6, reader=reader).eval()
    short, long = torch.tensor([[3, 7, 0, 0]]), torch.tensor([[3, 7, 0, 0, 0, 0, 0]])
    assert torch.equal(network(short), network(long))
    assert torch.equal(network(short), network(short.to(torch.uint8)))
    assert not torch.equal(network(short), network(torch.tensor([[3, 7, 1, 0]])))
    assert network(torch.zeros(1, 4, dtype=torch.int64)).isfinite().all()


def test_a_mean_is_that_of_the_embeddings() -> None:
    network = build("text", (4,), 3, vocabulary=9, embedding=2, reader="mean")
    weight = network.encoder.embedding.weight
    assert torch.allclose(network.encoder(torch.tensor([[3, 7, 0, 0]])), (weight[3] + weight[7]) / 2)
