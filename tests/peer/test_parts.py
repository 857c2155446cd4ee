"""The pieces by themselves: messages, the outbox, limits, what neighbours tell."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.core.params import Params
from entrofed.core.types import Update
from entrofed.errors import DataError
from entrofed.peer.handshakes import refusal
from entrofed.peer.limits import AT_A_TIME, Limit, Meter, TooMuchError
from entrofed.peer.outbox import KEEP, Outbox
from entrofed.peer.wire import Answer, Ask, frame, read_update, unframe, write_update


def update(loss=0.1, **changes):
    params = Params(np.arange(3, dtype=np.float32), np.array([4]))
    found = Update(2, params, 10, 5, loss, 0.30000000000000004, seconds=1.5, facts={"loss": np.array([0.25])})
    return Update(**{**found.__dict__, "client_state": {"velocity": np.ones(2)}, **changes})


def test_a_message_brings_the_bits_and_keeps_what_is_private():
    header, arrays = unframe(write_update(update(0.1 + 0.2), run="r", number=7), Answer)
    assert (header.kind, header.round, header.run) == ("model", 7, "r")
    found = read_update(header, arrays, 2)
    np.testing.assert_array_equal(found.params.values, [0, 1, 2])
    assert found.params.values.dtype == np.float32
    assert found.params.counters.tolist() == [4]
    assert found.train_loss == 0.1 + 0.2
    assert found.facts["loss"].tolist() == [0.25]
    assert not found.client_state
    assert found.seconds == 0
    kept = read_update(*unframe(write_update(update(), run="r", number=7, private=True), Answer), 2)
    assert kept.client_state["velocity"].tolist() == [1, 1]
    assert kept.seconds == 1.5


def test_a_loss_may_be_nan():
    header, _ = unframe(write_update(update(float("nan")), run="r", number=0), Answer)
    assert np.isnan(header.train_loss)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_or_read(raw):
    for message in (raw, b"EFP1" + raw, frame(Ask(run="r", round=0, oldest=0, wait=0.0))[:-8] + raw):
        with suppress(DataError):  # and nothing else
            unframe(message, Ask)


@given(st.integers(0, 300), st.integers(0, 255))
def test_a_flipped_byte_is_refused_or_changes_a_value(place, byte):
    raw = bytearray(write_update(update(), run="r", number=1))
    raw[place % len(raw)] = byte
    with suppress(DataError):  # and nothing else
        header, arrays = unframe(bytes(raw), Answer)
        read_update(header, arrays, 2)


@pytest.mark.parametrize("arrays", [{}, {"values": np.zeros(3)}, {"values": 1, "counters": 1, "code": 1}])
def test_a_model_is_values_and_counters(arrays):
    header = Answer(run="r", kind="model", round=0)
    with pytest.raises(DataError, match="a model is"):
        read_update(header, {name: np.zeros(1) for name in arrays}, 0)


def outbox(folder):
    return Outbox(folder, "r", 2)


def test_what_was_sent_is_sent_again_after_a_restart(tmp_path):
    before = outbox(tmp_path)
    for number in range(6):
        before.put(number, None if number == 4 else update(number / 10))
    after = outbox(tmp_path)
    after.restore(5)
    assert [after.of(number) is not None for number in range(6)] == [False] * (6 - KEEP) + [True] * KEEP
    assert after.of(5).message == before.of(5).message
    assert after.of(5).update.client_state["velocity"].tolist() == [1, 1]
    assert after.of(4).update is None
    again = outbox(tmp_path)
    again.restore(4)  # the checkpoint of round 5 was never written
    assert again.of(5) is None
    assert len(list(tmp_path.iterdir())) == KEEP - 1


def test_answers_of_an_outbox(tmp_path):
    """Rounds 3, 4 and 5 are kept."""
    box = outbox(tmp_path)
    for number in range(6):
        box.put(number, update())
    kinds = {
        (5, 5): 5,
        (4, 4): 4,
        (0, 0): 5,  # long ago: the newest
        (7, 5): 5,  # not there yet, and an old one will do
    }
    for (asked, oldest), found in kinds.items():
        assert box.answer(asked, oldest)[0] == found
    assert unframe(box.answer(6, 6)[1], Answer)[0].kind == "later"
    assert unframe(outbox(tmp_path / "new").answer(0, 0)[1], Answer)[0].kind == "later"


def test_a_bucket_fills_with_time():
    now = [0.0]
    limit = Limit(rate=2.0, burst=3.0, clock=lambda: now[0])

    def passed():
        try:
            with limit.one():
                return True
        except TooMuchError:
            return False

    assert [passed() for _ in range(5)] == [True] * 3 + [False] * 2
    now[0] = 1.0
    assert [passed() for _ in range(3)] == [True, True, False]
    now[0] = 100.0
    assert sum(passed() for _ in range(9)) == 3


def test_few_answers_at_a_time():
    limit = Limit(burst=100.0)
    held = [limit.one() for _ in range(AT_A_TIME)]
    for one in held:
        one.__enter__()
    with pytest.raises(TooMuchError), limit.one():
        pass
    held[0].__exit__(None, None, None)
    with limit.one():
        pass


def test_bytes_are_counted_once():
    meter = Meter()
    meter.count(up=3, down=4)
    meter.count(up=1)
    assert meter.taken() == (4, 4)
    assert meter.taken() == (0, 0)


def test_words_of_refused_connections():
    line = "I1 ssl.cc:2] Handshake failed with error SSL_ERROR_SSL: error:1:SSL routines:OPENSSL_internal:{}: {}"
    assert refusal(line.format("CERTIFICATE_VERIFY_FAILED", "self signed certificate")).endswith("not known here")
    assert refusal(line.format("WRONG_VERSION_NUMBER", "Invalid")) == "it does not speak TLS"
    assert refusal(line.format("NEW_ONE", "reason")) == "NEW_ONE: reason"
    assert refusal("something else") is None
