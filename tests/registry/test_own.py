"""A user's own objects and functions as parts."""

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import cloudpickle
import numpy as np
import pytest
import torch
from torch import nn

from entrofed.core.params import Layout, Params
from entrofed.core.parts import ALL_CLIENTS, Fact, Method, Selector, Weigher
from entrofed.core.types import ClientTable, Context, Selection, Update, Weighing
from entrofed.errors import ConfigError, EntrofedError
from entrofed.experiment.run_folder import method_facts
from entrofed.facts.label_counts import LabelCounts
from entrofed.methods import METHODS, fedavg, fedentopt, fedprox, method_of
from entrofed.registry import PART_KINDS, build, completed, describe, known
from entrofed.registry.own import OwnWeigher
from entrofed.servers.average import Average
from entrofed.weighers.capped import Capped
from entrofed.weighers.uniform import Uniform

MODEL = nn.Linear(2, 3)
LAYOUT = Layout.of(MODEL)
PARAMS = LAYOUT.read(MODEL)
UPDATES = [Update(k, PARAMS, 10 * (k + 1), 1, 1.0, 1.0) for k in range(3)]
CONTEXT = Context(PARAMS, 0, ClientTable(np.full(3, 10), 3), LAYOUT, 0, predict=lambda models: None)  # type: ignore[arg-type, return-value]


class Rooted:
    """A weigher that says only what it must."""

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def weigh(self, updates, context):
        return [update.num_examples**self.power for update in updates]


class First(Selector):
    """Inherits, but is no dataclass, and does not name itself."""

    def select(self, state, clients, among, size, rng):
        return among[:size]


class Last:
    """A selector with a memory."""

    name = "the_last"
    facts = (LabelCounts(),)
    needs = frozenset({ALL_CLIENTS})

    def init(self, clients, participants):
        return {"played": np.zeros((), np.int64)}

    def select(self, state, clients, among, size, rng):
        return Selection(among[-size:].tolist(), {"played": state["played"] + 1})


class Smoothed:
    def loss(self, model, x, y, given):
        return nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)


class Halfway:
    def apply(self, updates, weights, context, state):
        return Params((updates[0].params.values + context.params.values) / 2, context.params.counters)


@dataclass(frozen=True)
class Whole(Weigher):
    """A complete part that is not registered."""

    name: ClassVar[str] = "whole"
    power: float = 1.0

    def weigh(self, updates, context):
        return Weighing(np.ones(len(updates)) / len(updates))


def half(updates: Any, context: Any, power: float = 1.0) -> Any:
    return np.full(len(updates), 0.5**power)


def make_rooted(power: float = 2.0) -> Rooted:
    return Rooted(power)


def test_an_object_says_only_what_it_must() -> None:
    part = build("weigher", Rooted(2.0))
    assert (part.name, part.reference, part.facts, part.needs) == ("rooted", "", (), frozenset())
    assert part.weigh(UPDATES, CONTEXT).weights.tolist() == [100, 400, 900]
    assert part.part.power == 2.0
    assert build("weigher", Rooted).part.power == 0.5
    assert build("weigher", part) is part


def test_what_an_object_says_counts() -> None:
    part = build("selector", Last())
    assert (part.name, part.facts, part.needs) == ("the_last", (LabelCounts(),), {ALL_CLIENTS})
    table = ClientTable(np.ones(5, np.int64))
    state = part.init(table, np.arange(5))
    assert state["played"] == 0
    found = part.select(state, table, np.arange(5), 2, np.random.default_rng(0))
    assert (found.clients, int(found.state["played"])) == ([3, 4], 1)
    assert part.observe(state, PARAMS, []) is state
    assert part.candidates(table, np.arange(5), 2, np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 4]


def test_a_class_that_inherits_needs_no_name() -> None:
    part = build("selector", First())
    assert part.name == "first"
    assert part.select({}, ClientTable(np.ones(3, np.int64)), np.arange(3), 2, None).clients == [0, 1]


def test_functions_are_parts() -> None:
    assert build("weigher", half).weigh(UPDATES, CONTEXT).weights.tolist() == [0.5] * 3
    assert build("weigher", half).name == "half"
    assert build("weigher", partial(half, power=2)).weigh(UPDATES, CONTEXT).weights.tolist() == [0.25] * 3
    part = build("selector", lambda clients, candidates, size, rng: rng.permutation(candidates)[:size])
    chosen = part.select(
        {"kept": np.ones(1)}, ClientTable(np.ones(4, np.int64)), np.arange(4), 2, np.random.default_rng(0)
    )
    assert part.name == "lambda"
    assert len(chosen.clients) == 2
    assert "kept" in chosen.state
    assert all(type(client) is int for client in chosen.clients)


def test_objectives() -> None:
    x, y = torch.ones(4, 2), torch.tensor([0, 1, 2, 0])
    expected = nn.functional.cross_entropy(MODEL(x), y, label_smoothing=0.1)
    for thing in (
        Smoothed(),
        Smoothed,
        nn.CrossEntropyLoss(label_smoothing=0.1),
        partial(nn.functional.cross_entropy, label_smoothing=0.1),
        lambda logits, y: nn.functional.cross_entropy(logits, y, label_smoothing=0.1),
        {"name": "torch.nn:CrossEntropyLoss", "label_smoothing": 0.1},
    ):
        part = build("objective", thing)
        assert torch.equal(part.loss(MODEL, x, y, {}), expected)
        assert (part.terms, part.pull, part.plain, part.remember(None, None)) == ((), 0.0, False, {})
        assert part.begin(None, None, None)(x) == {}
    nested = build("objective", {"name": "proximal", "mu": 0.1, "objective": Smoothed()})
    assert torch.equal(nested.loss(MODEL, x, y, {}), expected)


@pytest.mark.parametrize("returned", [1.0, torch.ones(4), None])
def test_a_loss_is_a_scalar(returned: Any) -> None:
    part = build("objective", lambda logits, y: returned)
    with pytest.raises(
        ConfigError, match=r"objective 'lambda' returned .*; the mean over the batch, a scalar tensor, is"
    ):
        part.loss(MODEL, torch.ones(4, 2), torch.zeros(4, dtype=torch.int64), {})


def test_servers() -> None:
    part = build("server", Halfway())
    params, state = part.apply(UPDATES, np.ones(3) / 3, CONTEXT, {"kept": np.ones(1)})
    np.testing.assert_array_equal(params.values, PARAMS.values)
    assert "kept" in state
    assert (part.client, part.replaces_network, part.broadcast({})) == (None, False, {})

    class Broken:
        def apply(self, updates, weights, context, state):
            return PARAMS.values

    with pytest.raises(EntrofedError, match="server rule 'broken' returned no Params of this network, but: ndarray"):
        build("server", Broken()).apply(UPDATES, np.ones(3) / 3, CONTEXT, {})


def test_a_rule_for_clients_comes_with_the_server() -> None:
    class Hasty(Halfway):
        client = Few()

    rule = build("server", Hasty()).client
    assert rule is not None
    assert (rule.name, rule.max_steps(None), rule.correction(None), rule.report(None, UPDATES[0])) == (
        "few",
        3,
        None,
        UPDATES[0],
    )
    part = build("server", Hasty())
    assert part.client is part.client


def test_a_whole_part_stays_as_it_is() -> None:
    part = Whole(2.0)
    assert build("weigher", part) is part
    assert describe(part) == {"name": f"{__name__}:Whole", "power": 2.0}
    assert build("weigher", describe(part)) == part


def test_a_dataclass_that_cannot_be_hashed_is_wrapped() -> None:
    """Gradients are found again by their objective."""

    @dataclass(frozen=True)
    class Listed(Whole):
        edges: list[float] = field(default_factory=list)

    part = build("weigher", Listed(edges=[1.0]))
    assert isinstance(part, OwnWeigher)
    assert hash(part) == hash(build("weigher", Listed()))
    assert part == build("weigher", Listed(edges=[1.0])) != build("weigher", Listed())
    assert describe(part)["edges"] == [1.0]


class Few:
    """A rule for clients."""

    def max_steps(self, task):
        return 3


def test_facts_and_client_rules_by_reference() -> None:
    fact = build("fact", f"{__name__}:Told")
    assert isinstance(fact, Told)
    assert describe(fact) == {"name": f"{__name__}:Told"}
    rule = build("client_rule", {"name": f"{__name__}:Few"})
    assert (rule.name, rule.max_steps(None), describe(rule)) == ("few", 3, {"name": f"{__name__}:Few"})


@pytest.mark.parametrize("kind", PART_KINDS)
def test_our_own_parts_pass(kind: str) -> None:
    for name in known(kind):
        part = build(kind, name)
        assert build(kind, part) is part


def test_a_function_can_make_the_part() -> None:
    part = build("weigher", {"name": f"{__name__}:make_rooted", "power": 3.0})
    assert part.part.power == 3.0
    assert describe(part) == {"name": f"{__name__}:make_rooted", "power": 3.0}
    assert build("weigher", make_rooted).part.power == 2.0


@pytest.mark.parametrize(
    "thing",
    [Rooted(2.0), half, partial(half, power=2.0), {"name": f"{__name__}:Rooted", "power": 0.25}, make_rooted, Whole()],
    ids=["object", "function", "partial", "reference", "maker", "dataclass"],
)
def test_a_description_makes_the_same_part(thing: Any) -> None:
    part = build("weigher", thing)
    table = describe(part)
    json.dumps(table)
    again = build("weigher", table)
    assert describe(again) == table
    assert again.name == part.name
    assert again.weigh(UPDATES, CONTEXT).weights.tolist() == part.weigh(UPDATES, CONTEXT).weights.tolist()


def test_options_of_a_class() -> None:
    name = f"{__name__}:Rooted"
    with pytest.raises(ConfigError, match=r"unknown hyperparameter of weigher .*: 'powr'; did you mean 'power'"):
        build("weigher", {"name": name, "powr": 1})
    with pytest.raises(ConfigError, match="does not take these options: power"):
        build("weigher", {"name": f"{__name__}:INSTANCE", "power": 1})
    with pytest.raises(ConfigError, match=r"weigher 'Needy': TypeError: .*missing 1 required positional argument"):
        build("weigher", Needy)
    with pytest.raises(
        ConfigError, match=r"weigher 'Picky': ValueError: too picky \(.*Picky.__init__, test_own.py line"
    ):
        build("weigher", Picky)


INSTANCE = Rooted()


class Needy(Rooted):
    def __init__(self, power):
        super().__init__(power)


class Picky(Rooted):
    def __init__(self):
        raise ValueError("too picky")


def test_own_parts_wrap_and_are_wrapped() -> None:
    capped = build("weigher", {"name": "capped", "share": 0.4, "weigher": Rooted(1.0)})
    assert isinstance(capped, Capped)
    assert capped.weigh(UPDATES, CONTEXT).weights.max() == pytest.approx(0.4)
    assert describe(capped)["weigher"] == {"name": f"{__name__}:Rooted", "power": 1.0}

    class Around:
        def __init__(self, weigher):
            self.weigher = weigher

        def weigh(self, updates, context):
            return self.weigher.weigh(updates, context)

    part = build("weigher", Around, around=Uniform())
    assert part.part.weigher == Uniform()


def test_copies_are_equal_and_others_are_not() -> None:
    """The gradients of an objective are found again in a worker, for a copy of it."""
    one, other = build("weigher", Rooted()), build("weigher", Rooted())
    copy = pickle.loads(cloudpickle.dumps(one))  # noqa: S301 (our own bytes)
    assert copy == one
    assert hash(copy) == hash(one)
    assert copy.table == one.table
    assert one != other
    assert one != Rooted()
    assert "Rooted" in repr(one)


BAD: list[tuple[str, Any, str]] = [
    (
        "weigher",
        object(),
        r"weigher 'object': an object with a method weigh\(updates, context\), or a function of \(updates",
    ),
    ("weigher", lambda updates: 1, r"weigher 'lambda': an object with a method weigh"),
    ("selector", lambda clients, size: 1, r"or a function of \(clients, candidates, size, rng\), is expected"),
    (
        "server",
        lambda updates: 1,
        r"server 'lambda': an object with a method apply\(updates, weights, context, state\) is exp",
    ),
    ("objective", nn.Linear, "objective 'Linear': TypeError"),
    ("weigher", 3, "weigher: a name, a table of hyperparameters, an object or a function is expected, found 3"),
    (
        "weigher",
        type("W", (), {"weigh": lambda self, updates: 1}),
        r"'W': its weigh must be a method that takes \(updates, c",
    ),
    ("weigher", type("W", (), {"weigh": 3}), r"'W': its weigh must be a method"),
    ("weigher", type("W", (Rooted,), {"name": 3}), "'W': its name is 3; text is expected"),
    ("weigher", type("W", (Rooted,), {"facts": LabelCounts()}), "'W': its facts are .*; a tuple of facts is expected"),
    ("weigher", type("W", (Rooted,), {"needs": "validation"}), "'W': its needs are 'validation'; a set of words"),
    (
        "weigher",
        type("W", (Rooted,), {"facts": (3,)}),
        r"fact 'int': an object with a method measure\(data, model\) is exp",
    ),
    (
        "selector",
        type("S", (First,), {"init": lambda self: {}}),
        r"'S': its init must be a method that takes \(clients, part",
    ),
]


@pytest.mark.parametrize(("kind", "thing", "said"), BAD, ids=range(len(BAD)))
def test_what_is_missing_is_said_at_once(kind: str, thing: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(kind, thing)


class Told:
    """A fact that declares all there is."""

    name, when, reveals = "told", "with_update", "a number"

    def measure(self, data, model):
        return np.ones(1)

    def problem(self, value, classes):
        return None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"when": "sometimes"}, "its when is 'sometimes'; one of once, before_round, with_update, at_end is expected"),
        ({"reveals": ""}, "its reveals is ''; what it reveals, in words, is expected"),
        ({"name": None}, "its name is None; text is expected"),
        ({"problem": None}, "lacks a method problem"),
    ],
)
def test_what_leaves_a_client_is_declared(changes: Mapping[str, Any], said: str) -> None:
    Asks = type("Asks", (Rooted,), {"facts": (Told(),)})
    fact: Fact = build("weigher", Asks()).facts[0]
    assert fact.name == "told"
    bad = type("Bad", (Told,), {k: v for k, v in changes.items() if v is not None or k == "name"})()
    if changes.get("problem", 0) is None:
        bad = type("Bad", (), {k: v for k, v in vars(Told).items() if k != "problem" and k[:2] != "__"})()
    with pytest.raises(ConfigError, match=said):
        build("weigher", type("W", (Rooted,), {"facts": (bad,)})())


# Methods


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_recipe_takes_parts(name: str) -> None:
    method = METHODS[name](weigher=Rooted(), selector="full")
    assert isinstance(method.weigher, OwnWeigher)
    assert method.selector == build("selector", "full")
    plain = METHODS[name]()
    assert (method.objective, method.server) == (plain.objective, plain.server)
    assert method.name == plain.name == name
    json.dumps(method_facts(method))


def test_recipes_take_names_tables_objects_and_hyperparameters() -> None:
    method = fedentopt(buffer=0.3, weigher={"name": "capped", "share": 0.5}, server=Average(), objective=Smoothed)
    assert method.selector.buffer == 0.3  # type: ignore[attr-defined]
    assert method.weigher == Capped(share=0.5)  # around the recipe's own
    assert method.objective.name == "smoothed"
    assert fedprox(mu=0.5).objective.mu == 0.5  # type: ignore[attr-defined]
    with pytest.raises(
        ConfigError, match="unknown hyperparameter of method 'fedentopt': 'bufer'; did you mean 'buffer'"
    ):
        fedentopt(bufer=1)
    with pytest.raises(ConfigError, match="objective 'proximal': mu = 'x'"):
        fedprox(mu="x")
    with pytest.raises(ConfigError, match="unknown weigher 'unifrom'; did you mean 'uniform'"):
        fedavg(weigher="unifrom")


def test_a_method_of_raw_objects_is_completed() -> None:
    method = completed(Method(First(), half, nn.CrossEntropyLoss(), Halfway()))  # type: ignore[arg-type]
    assert [part.name for part in method.parts] == ["first", "half", "cross_entropy_loss", "halfway"]
    assert method.facts == ()
    assert completed(method) == method


def theirs() -> Method:
    return fedavg(weigher=half)


def not_a_method() -> int:
    return 3


def raises() -> Method:
    raise RuntimeError("not today")


def test_methods_by_reference() -> None:
    assert method_of(f"{__name__}:theirs").weigher.name == "half"
    assert method_of("fedavg") == fedavg()
    with pytest.raises(ConfigError, match="a function that returns a Method is expected; it returned 3"):
        method_of(f"{__name__}:not_a_method")
    with pytest.raises(ConfigError, match=r"RuntimeError: not today \(raises, test_own.py line"):
        method_of(f"{__name__}:raises")
