"""The page in a real browser, opened from a file, without a network."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from nvis import game
from nvis.game import PlayedGame, find_peaks, percent_of_strongest
from nvis.page import draw
from simple_dqn.dqn import DeepQNetwork

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing: apt-get install chromium")

FILTERS = 2
FACTS = {"game": "catch <b>", "snapshot": "catch_1.pkl", "epoch": 1, "exploration_rate": 0.5, "seed": 7}
READY = "window.Bokeh && Bokeh.documents.length == 1 && Bokeh.documents[0].is_idle"
FIND = "name => Bokeh.documents[0].get_model_by_name(name)"


@dataclass
class Reader:
    """The opened page, and what the browser said and asked for meanwhile."""

    page: Page
    address: str
    said: list[str]
    asked: list[str]

    def value(self, expression: str) -> Any:
        """Return a JavaScript value; `find(name)` is the Bokeh model of that name."""
        return self.page.evaluate(f"() => {{ const find = {FIND}; return {expression} }}")

    def wait(self, expression: str) -> None:
        self.page.wait_for_function(f"() => {{ const find = {FIND}; return {expression} }}", timeout=20_000)

    def ranges(self, name: str) -> list[float]:
        pane = f"find({name!r})"
        return list(
            self.value(
                f"[{pane}.x_range.start, {pane}.x_range.end, {pane}.y_range.start, {pane}.y_range.end]"
            )
        )

    def middle(self, name: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
        """Scroll a figure into view and return a place in its frame, in pixels of the window."""
        view = f"Bokeh.index.find_one(find({name!r}))"
        self.page.evaluate(f"() => {{ const find = {FIND}; {view}.el.scrollIntoView({{block: 'center'}}) }}")
        x, y, width, height = self.value(
            f"(() => {{ const view = {view}; const frame = view.frame.bbox;"
            "const box = view.el.getBoundingClientRect();"
            "return [box.x + frame.x, box.y + frame.y, frame.width, frame.height] })()"
        )
        return x + width * across, y + height * down


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def html(network: DeepQNetwork, noise: PlayedGame) -> str:
    return draw(noise, network, FILTERS, FACTS)


@pytest.fixture(scope="module")
def opened(browser: Browser, html: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The page, opened from a file with the network cut."""
    file = tmp_path_factory.mktemp("results") / "a page.html"
    file.write_text(html, encoding="utf-8")
    context = browser.new_context(viewport={"width": 1300, "height": 900}, offline=True)
    page = context.new_page()
    reader = Reader(page, file.as_uri(), [], [])
    page.on("console", lambda message: reader.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: reader.said.append(f"error: {error}"))
    page.on("request", lambda request: reader.asked.append(request.url))
    page.goto(reader.address)
    page.wait_for_function(READY, timeout=60_000)
    yield reader
    context.close()


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    """The page as it was when it was opened; afterward, that nothing was wrong with it meanwhile."""
    opened.page.mouse.move(0, 0)
    opened.value("(find('play').active = false, find('step').value = 0)")
    yield opened
    assert opened.asked == [opened.address]
    assert not [words for words in opened.said if not words.startswith(("log:", "info:"))]


@needs_chromium
def test_it_shows_every_layer_and_asks_the_network_for_nothing(reader: Reader) -> None:
    assert reader.page.title() == "What the network sees: catch <b>"
    text = reader.page.inner_text("main")
    assert "catch <b>" in text
    for number, filters in ((1, 32), (2, 64), (3, 64)):
        assert f"conv{number}\n" in text
        assert f"{filters} filters" in text
    assert reader.page.locator(".pairs canvas").count() >= 3 * FILTERS * 2


@needs_chromium
@pytest.mark.parametrize("kind", ["filter", "game"])
def test_the_wheel_zooms_both_pictures(
    reader: Reader, network: DeepQNetwork, noise: PlayedGame, kind: str
) -> None:
    names = ["screen", "saliency"]
    if kind == "filter":
        guided = network.guided_backpropagation()
        best = find_peaks(noise, guided, guided.layers[1]).most_active(1).filters[0]
        names = [f"conv2_{best}_state", f"conv2_{best}_gradient"]
    whole = [-0.5, 35.5, 39.5, -0.5]
    assert [reader.ranges(name) for name in names] == [whole, whole]
    zoomed = [whole]
    for name in names:
        reader.page.mouse.move(*reader.middle(name))
        reader.page.mouse.wheel(0, -300)
        reader.wait(f"find({name!r}).x_range.end < {zoomed[-1][1]}")
        left, right, bottom, top = reader.ranges(name)
        assert right - left < zoomed[-1][1] - zoomed[-1][0]
        assert bottom - top < zoomed[-1][2] - zoomed[-1][3]
        assert [reader.ranges(name) for name in names] == [[left, right, bottom, top]] * 2
        zoomed.append([left, right, bottom, top])
    reader.page.mouse.dblclick(*reader.middle(names[0]))
    reader.wait(f"find({names[1]!r}).x_range.end == 35.5")
    assert [reader.ranges(name) for name in names] == [whole, whole]


def picture(reader: Reader, name: str) -> np.ndarray:
    """Return the picture of the game that the page shows now, uint8 [H, W]."""
    columns = "find('screen').renderers[0].data_source.data"
    return np.reshape(np.array(reader.value(f"Array.from({columns}.{name}[0])"), np.uint8), (40, 36))


@needs_chromium
def test_the_scrubber_moves(reader: Reader, network: DeepQNetwork, noise: PlayedGame) -> None:
    saliency = percent_of_strongest(
        network.guided_backpropagation().saliency(noise.states(np.arange(75)), noise.actions)
    )

    def check(step: int) -> None:
        reader.wait(f"find('marker').location == {step}")
        np.testing.assert_array_equal(picture(reader, "screen"), noise.screens[step])
        assert np.abs(picture(reader, "saliency").astype(int) - saliency[step]).max() <= 1
        caption = reader.value("find('caption').text")
        assert f"Step <b>{step}</b> of 75" in caption
        assert f"<b>{noise.action_names[noise.actions[step]]}</b>" in caption
        assert caption.endswith(f"{noise.rewards[:step].sum():g}.")

    check(0)
    reader.page.locator(".noUi-handle").focus()
    for step in (1, 2):
        reader.page.keyboard.press("ArrowRight")
        check(step)
    reader.page.keyboard.press("End")
    check(74)
    reader.page.mouse.click(*reader.middle("curves", across=0.5))
    reader.wait("find('step').value == 37")
    check(37)


@needs_chromium
def test_it_plays_to_the_end_and_then_from_the_start(reader: Reader) -> None:
    reader.value("(find('step').value = 70, 0)")
    button = reader.page.get_by_role("button", name="Play")
    button.click()
    reader.wait("find('step').value == 74 && !find('play').active")
    assert reader.value("find('marker').location") == 74
    button.click()
    reader.wait("find('step').value > 0 && find('step').value < 60")
    reader.page.get_by_role("button", name="Pause").click()
    reader.wait("!find('play').active")
    assert reader.value("find('step').value") < 74


@needs_chromium
def test_hovering_tells_where_and_how_strongly(
    reader: Reader, network: DeepQNetwork, noise: PlayedGame
) -> None:
    guided = network.guided_backpropagation()
    layer = guided.layers[2]
    peaks = find_peaks(noise, guided, layer).most_active(1)
    states = noise.states(peaks.times)
    gradients = guided.guided_gradients(states, layer.name, peaks.filters, peaks.rows, peaks.columns)
    row, column = np.unravel_index(np.abs(gradients[0]).max(0).argmax(), (40, 36))
    shown = {
        "state": " ".join(str(grey) for grey in states[0, :, row, column]),
        "gradient": " ".join(f"{influence:.4f}" for influence in gradients[0, :, row, column]),
    }
    for kind, levels in shown.items():
        name = f"{layer.name}_{peaks.filters[0]}_{kind}"
        reader.page.mouse.move(*reader.middle(name, (column + 0.5) / 36, (row + 0.5) / 40))
        words = f"{column}, {row}"
        tooltip = reader.page.locator(".bk-tooltip-content:visible").filter(has_text=words)
        tooltip.wait_for(timeout=20_000)
        assert levels in tooltip.inner_text().replace("−", "-").replace("\n", " ")


def test_a_long_game_is_thinned_out(
    network: DeepQNetwork, noise: PlayedGame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(game, "MOST_MOMENTS", 10)
    moments = game.look_at_moments(noise, network, network.guided_backpropagation())
    assert moments.times.tolist() == [0, 8, 16, 24, 32, 40, 48, 56, 64, 72]
    states = noise.states(moments.times)
    np.testing.assert_allclose(moments.qvalues, network.predict(states), rtol=1e-5)
    assert len(moments.saliency) == 10
    assert "one step in 8 is shown" in draw(noise, network, 1, FACTS)


def test_a_network_without_activations_has_a_page_too(network: DeepQNetwork, noise: PlayedGame) -> None:
    dark = PlayedGame(
        noise.history_length, noise.action_names, np.zeros_like(noise.screens[:1]), noise.actions[:1],
        noise.rewards[:1],
    )  # fmt: skip
    weights = network.get_weights()
    silent = {name: np.full_like(values, -1) for name, values in weights.items()}
    network.set_weights(silent)
    try:
        assert draw(dark, network, 4, FACTS).count("None of them was active") == 3
    finally:
        network.set_weights(weights)
