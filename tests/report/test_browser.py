"""The page in a real browser."""

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrofed.core.records import RoundRecord
from entrofed.experiment.config import parse, to_toml
from entrofed.experiment.run_folder import RunFolder, find_runs
from entrofed.experiment.summary import summarize
from entrofed.report import write_report

from .conftest import maker, metrics, record
from .test_report import peer_records

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

EVIL = "<img src=x onerror=alert(1)>"
Make = Callable[..., RunFolder]
MARKS = """() => [...document.querySelectorAll(".picture")].map((figure) => {
  const count = (item) => (item.items ?? []).reduce((sum, inner) => sum + (inner.items ? count(inner) : 1), 0);
  const marks = (group) => group.items.flatMap((item) => item.items).filter((mark) => /^(mark|scope)$/.test(mark.role));
  return figure.vegaView ? marks(figure.vegaView.scenegraph().root).reduce((sum, mark) => sum + count(mark), 0) : 0;
})"""
ALL_DRAWN = "() => [...document.querySelectorAll('.picture')].every((figure) => figure.vegaView)"
DRAW_ALL = "() => { dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint')); }"


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test on an error in the console or a request to anywhere but files."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    bad: list[str] = []
    opened.on("console", lambda message: bad.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: bad.append(str(error)))
    opened.on("request", lambda request: None if request.url.startswith("file:") else bad.append(request.url))
    yield opened
    context.close()
    assert bad == []


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report with every kind of picture: with and without a server, held-out data, refusals."""
    root = tmp_path_factory.mktemp("report")
    make = maker(root)
    extras = {"id": metrics(0.7), "refused": [{"client": 5, "reason": "dropped out"}]}
    folders = [make("fedavg", seed, [0.3, 0.5, 0.6 + seed / 50]) for seed in range(3)]
    folders += [make(EVIL, seed, [record(i, 0.4 + i / 10, **extras) for i in range(3)]) for seed in range(3)]
    folders.append(make("peers", 0, peer_records(), topology={"kind": "ring"}))
    output = root / "page.html"
    write_report(folders, output)
    return output.as_uri()


def colour(page: Any, selector: str) -> str:
    return str(page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).backgroundColor"))


def test_every_chart_is_drawn_with_data(page: Any, report: str) -> None:
    page.goto(report)
    assert page.locator(".picture").count() == 20
    page.evaluate(DRAW_ALL)
    page.wait_for_function(ALL_DRAWN)
    assert min(page.evaluate(MARKS)) > 0
    assert page.locator(".chart svg, .chart canvas").count() == 20


def test_all_charts_are_drawn_without_scrolling(page: Any, report: str) -> None:
    """Whoever captures the whole page, or prints it, scrolls to none of them."""
    page.goto(report)
    page.wait_for_function(ALL_DRAWN)
    assert page.evaluate("scrollY") == 0
    assert min(page.evaluate(MARKS)) > 0


AXES = """() => [...document.querySelectorAll(".picture")].flatMap((figure) =>
  [...figure.querySelectorAll(".chart .role-axis")].map((axis) => ({
    picture: figure.querySelector("h3").textContent,
    labels: [...axis.querySelectorAll(".role-axis-label text")].filter((label) => label.getAttribute("opacity") !== "0")
      .map((label) => ({ text: label.textContent, ...label.getBoundingClientRect().toJSON() }))
      .filter(({ text }) => text),
  })).filter(({ labels }) => labels.length > 1 && Math.abs(labels[0].top - labels[1].top) < 1))"""
"""Of every horizontal axis the labels that are seen."""


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_of_axes(page: Any, make: Make, tmp_path: Path, width: int) -> None:
    """They stand apart, axes of rounds end at the last round, and gains are read from 0."""
    gains = {"fedavg": 0.0, "a": 0.27, "b": 0.09, "c": -0.12, "d": -0.36}
    folders = [
        make(name, seed, [0.2 + i / 50 + (gain * i / 20) + seed * gain / 9 for i in range(20)])
        for name, gain in gains.items()
        for seed in range(3)
    ]
    write_report(folders, tmp_path / "page.html")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_function(ALL_DRAWN)
    axes = {axis["picture"]: axis["labels"] for axis in page.evaluate(AXES)}
    for labels in axes.values():
        places = sorted(labels, key=lambda label: label["left"])
        assert all(a["right"] + 5 <= b["left"] for a, b in pairwise(places)), [label["text"] for label in places]
    assert "+0" in [label["text"] for label in axes["Against the reference"]]
    for title in ("Test accuracy", "Bytes sent", "Weight, as a multiple of an equal share"):
        assert max(int(label["text"]) for label in axes[title]) == 20, title


def test_every_view_can_be_chosen(page: Any, report: str) -> None:
    page.goto(report)
    for choice in page.locator(".choice select").all():
        figure = choice.locator("xpath=ancestor::figure")
        for option in choice.locator("option").all():
            choice.select_option(option.get_attribute("value"))
            page.wait_for_timeout(50)
            words = figure.locator(".words").inner_text()
            assert figure.locator(".chart").get_attribute("aria-label").endswith(words)
        number = figure.get_attribute("data-picture")
        page.wait_for_function(f"() => document.querySelector('[data-picture=\"{number}\"]').vegaView")
    assert min(count for count in page.evaluate(MARKS) if count) > 0


def test_tables_stand_for_charts(page: Any, report: str) -> None:
    page.goto(report)
    for figure in page.locator(".picture").all():
        assert figure.locator(".chart").get_attribute("role") == "img"
        figure.locator(".data summary").click()
        figure.locator(".data tbody tr").first.wait_for(timeout=5000)
    assert EVIL in page.locator(".data tbody th").all_inner_texts()


def test_dark_and_light(page: Any, report: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(report)
    page.wait_for_function("() => document.querySelector('.picture').vegaView")
    label = "() => document.querySelector('.chart .role-axis-label text').getAttribute('fill')"
    before = colour(page, "body"), page.evaluate(label)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => ({label})() !== {before[1]!r}")
    assert colour(page, "body") != before[0]


def test_paper_is_light_and_has_all_charts(page: Any, report: str) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(report)
    dark = colour(page, ".picture")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(ALL_DRAWN)
    assert colour(page, ".picture") == "rgb(255, 255, 255)" != dark
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert colour(page, ".picture") == dark


def test_phone(page: Any, report: str) -> None:
    page.set_viewport_size({"width": 375, "height": 700})
    page.goto(report)
    page.evaluate(DRAW_ALL)
    page.wait_for_function(ALL_DRAWN)
    for details in page.locator("details").all():
        details.evaluate("(element) => { element.open = true; }")
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    inside = """(box) => [...box.querySelectorAll(".chart svg, .chart canvas")].every(
      (drawing) => drawing.getBoundingClientRect().right <= box.getBoundingClientRect().right)"""
    assert all(figure.evaluate(inside) for figure in page.locator(".picture").all())


def test_keyboard(page: Any, report: str) -> None:
    page.goto(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'content'")
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((head) => Number(head.tagName[1]))")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_reader_chooses_what_has_a_colour(page: Any, report: str) -> None:
    page.goto(report + "#courses")
    figure = page.locator("#courses .picture").first
    chip = figure.get_by_role("button", name="fedavg")
    chip.wait_for()
    slots = "(f) => f.vegaView.signal('chosen')"
    page.wait_for_function("() => document.querySelector('#courses .picture').vegaView")
    assert figure.evaluate(slots)[:3] == ["fedavg", EVIL, "peers"]
    chip.focus()
    page.keyboard.press("Enter")
    assert figure.evaluate(slots)[:3] == [None, EVIL, "peers"]
    assert chip.get_attribute("aria-pressed") == "false"
    assert page.evaluate("document.activeElement.dataset.name") == "fedavg"


def test_pictures_can_be_saved(page: Any, report: str) -> None:
    page.goto(report)
    with page.expect_download() as download:
        page.locator(".save").first.click()
    assert download.value.suggested_filename == "Ranking.svg"
    assert "<svg" in Path(download.value.path()).read_text()[:200]


def test_tables_can_be_sorted(page: Any, report: str) -> None:
    page.goto(report)
    table = page.locator("#overview table.sortable").first
    names = table.locator("tbody th").all_inner_texts()
    head = table.get_by_role("button", name="Accuracy %")
    head.click()
    assert table.locator("th[aria-sort=descending]").count() == 1
    head.click()
    place = table.locator("thead th").all_inner_texts().index("Accuracy %") + 1
    values = [float(text.split()[0]) for text in table.locator(f"tbody td:nth-child({place})").all_inner_texts()]
    assert values == sorted(values)
    assert sorted(names) == sorted(table.locator("tbody th").all_inner_texts())


def test_live_page_reloads_and_can_be_paused(page: Any, make: Make, tmp_path: Path) -> None:
    folder, output = make("x", 0, [0.5], finished=False), tmp_path / "page.html"
    write_report([folder], output, refresh=0.5)
    page.goto(output.as_uri())
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(record(1, 0.875)) + "\n")
    write_report([folder], output, refresh=0.5)
    page.get_by_text("87.50", exact=True).first.wait_for(timeout=5000)
    page.locator("#pause").click()
    page.wait_for_timeout(1200)  # a reload that was under way may end first
    loaded = page.evaluate("performance.timeOrigin")
    page.wait_for_timeout(1200)
    assert page.evaluate("performance.timeOrigin") == loaded
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"


def test_a_pause_while_the_page_reloads_is_kept(page: Any, browser: Any, make: Make, tmp_path: Path) -> None:
    """A click on the page that was going, or on the next before its script had run, was lost."""
    folder, output = make("x", 0, [0.5], finished=False), tmp_path / "page.html"
    write_report([folder], output, refresh=1000)
    page.goto(output.as_uri())
    before = page.evaluate("performance.timeOrigin")
    page.evaluate("() => { location.reload(); document.getElementById('pause').click(); }")
    anew = "(before) => performance.timeOrigin !== before && !document.getElementById('pause').disabled"
    page.wait_for_function(anew, arg=before)
    pause = page.locator("#pause")
    assert (pause.get_attribute("aria-pressed"), pause.inner_text()) == ("true", "Go on")
    pause.click()
    assert (pause.get_attribute("aria-pressed"), pause.inner_text()) == ("false", "Pause")
    without_script = browser.new_context(java_script_enabled=False)
    early = without_script.new_page()
    early.goto(output.as_uri())
    assert early.locator("#pause").is_disabled()
    without_script.close()


COLOURED = """async (figure) => {
  const canvas = await figure.vegaView.toCanvas(2);
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1).match(/../g);
  return ["--c0", "--c1"].map((name) => {
    const [r, g, b] = of(name).map((part) => parseInt(part, 16));
    let count = 0;
    for (let i = 0; i < pixels.length; i += 4)
      count += pixels[i] === r && pixels[i + 1] === g && pixels[i + 2] === b && pixels[i + 3] === 255;
    return count;
  });
}"""
"""Pixels of a chart, drawn at twice its size, that have the colour of the first two experiments."""


def test_experiments_with_the_same_course_are_both_seen(page: Any, make: Make, tmp_path: Path) -> None:
    """Of many experiments, the solid line was drawn last, and hid the dashed one below it."""
    names = ["a", *(f"method-{number}" for number in range(8)), "z"]
    folders = [
        make(name, 0, [record(i, best * i / 10, cohort_entropy=entropy * (1 + i % 3 / 4)) for i in range(10)])
        for name, best, entropy in zip(names, [0.8, *[0.1] * 8, 0.9], [1, *np.linspace(0.1, 0.8, 8), 1], strict=True)
    ]
    write_report(folders, tmp_path / "page.html")
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_function(ALL_DRAWN)
    figure = page.locator("#diversity .picture").first
    assert figure.evaluate("(figure) => figure.vegaView.signal('chosen')")[:2] == ["z", "a"]
    solid, dashed = figure.evaluate(COLOURED)
    assert min(solid, dashed) > 200
    assert "Lines that lie on each other: z, a." in figure.locator(".words").inner_text()


def test_of_many_experiments_some_have_a_colour(page: Any, make: Make, tmp_path: Path) -> None:
    folders = [make(f"method-{number}", 0, [0.1, number / 20]) for number in range(12)]
    folders.append(make("fedavg", 0, [0.1, 0.01]))
    write_report(folders, tmp_path / "page.html")
    page.goto((tmp_path / "page.html").as_uri())
    page.locator("#courses").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('#courses .picture').vegaView")
    figure = page.locator("#courses .picture").first
    slots = "(f) => f.vegaView.signal('chosen')"
    best = [f"method-{number}" for number in (11, 10, 9, 8, 7)]
    assert figure.evaluate(slots) == [*best, "fedavg", None, None]
    figure.locator(".legend select").select_option("method-0")
    assert figure.evaluate(slots) == [*best, "fedavg", "method-0", None]
    figure.get_by_role("button", name="method-11").click()
    assert figure.evaluate(slots)[0] is None
    assert "method-11" in figure.locator(".legend select").inner_text()


def large(root: Path, experiments: int = 20, seeds: int = 5, rounds: int = 500, clients: int = 100) -> None:
    """Many long runs of ten clients per round, written fast: the seeds of an experiment share their records."""
    labels = [f"class {number}" for number in range(10)]
    counts = [[(client * label) % 7 + 1 for label in range(10)] for client in range(clients)]
    facts = json.dumps({"classes": labels, "participants": list(range(clients)), "label_counts": counts})
    entry = {"examples": 10, "steps": 2, "train_loss": 1.0, "train_loss_last_epoch": 0.5}
    for number in range(experiments):
        records = []
        for i in range(rounds):
            cohort = [(7 * i + 3 * k) % clients for k in range(10)]
            made = [{"client": client, "weight": (k + 1) / 55, **entry} for k, client in enumerate(cohort)]
            made_of = record(i, (1 - 1 / (1 + i / 20)) * (1 - number / 50), cohort=cohort, clients=made)
            made_of["test"]["class_accuracy"] = [made_of["test"]["accuracy"]] * 10
            records.append(made_of)
        lines = "".join(json.dumps(line) + "\n" for line in records)
        summary = json.dumps(summarize([RoundRecord.from_json(line) for line in records]))
        for seed in range(seeds):
            folder = root / f"method-{number}" / f"seed-{seed}"
            folder.mkdir(parents=True)
            table = {"seed": seed, "rounds": rounds, "data": {"name": "digits", "clients": clients}}
            (folder / "experiment.toml").write_text(to_toml(parse(table)))
            (folder / "metrics.jsonl").write_text(lines)
            (folder / "summary.json").write_text(summary)
            (folder / "federation.json").write_text(facts)


def test_a_hundred_long_runs_load_fast(page: Any, tmp_path: Path) -> None:
    """A hundred runs take a few times as long as one: seconds would say more about the machine."""
    one, many = tmp_path / "one.html", tmp_path / "many.html"
    for output, size in ((one, {"experiments": 1, "seeds": 1}), (many, {})):
        large(tmp_path / output.stem, **size)
        write_report(find_runs([tmp_path / output.stem]), output)
    assert many.stat().st_size < 15e6

    def seconds(output: Path) -> float:
        begun = time.perf_counter()
        page.goto(output.as_uri())
        page.wait_for_function(ALL_DRAWN)
        return time.perf_counter() - begun

    took = [(seconds(one), seconds(many)) for _ in range(4)]
    assert min(long / short for short, long in took) < 4  # about 2.1
    assert min(page.evaluate(MARKS)) > 0
