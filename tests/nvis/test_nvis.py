"""The page of nvis: its game and peaks, against loops; the page in a real browser; and the verb."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, sync_playwright

from nvis import page as nvis_page
from nvis.page import PlayedGame, draw, find_peaks, percent_of_strongest, play_game
from simple_dqn import main
from simple_dqn.agent import Player
from simple_dqn.config import BackendConfig, EnvironmentConfig, NetworkConfig
from simple_dqn.dqn import DeepQNetwork
from simple_dqn.environment import make
from simple_dqn.networks import NETWORKS
from simple_dqn.types import QValues, States
from tests.command_line import Capsys, Patch
from tests.watch.test_record import save

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing: apt-get install chromium")
HISTORY_LENGTH = 3
SCREEN_SHAPE = (40, 36)
FILTERS = 2
FACTS = {"game": "catch <b>", "snapshot": "catch_1.pkl", "epoch": 1, "exploration_rate": 0.5, "seed": 7}
READY = "window.Bokeh && Bokeh.documents.length == 1 && Bokeh.documents[0].is_idle"
FIND = "window.find = name => Bokeh.documents[0].get_model_by_name(name)"  # a Bokeh model of the page


@pytest.fixture(scope="module")
def network() -> DeepQNetwork:
    backend, rng = BackendConfig(backend="cpu", threads=1), np.random.default_rng(3)
    config, spec = NetworkConfig(network="small"), NETWORKS["small"]
    return DeepQNetwork(3, HISTORY_LENGTH, SCREEN_SHAPE, config, backend, rng, spec=spec)


def player_of(shape: tuple[int, int], predict: Any, games: int = 1) -> Player:
    config = EnvironmentConfig(environment="catch", screen_height=shape[0], screen_width=shape[1])
    streams = [np.random.default_rng(seed) for seed in range(games)]
    environment = make(config, streams, training=False)
    return Player(environment, predict, HISTORY_LENGTH, np.random.default_rng(1))


@pytest.fixture(scope="module")
def catch(network: DeepQNetwork) -> PlayedGame:
    return play_game(player_of(SCREEN_SHAPE, network.predict), HISTORY_LENGTH, exploration_rate=0.5)


@pytest.fixture(scope="module")
def noise() -> PlayedGame:
    """A game with more states than are looked at together, none like another."""
    rng = np.random.default_rng(5)
    screens = rng.integers(0, 256, (75, *SCREEN_SHAPE), dtype=np.uint8)
    actions, rewards = rng.integers(0, 3, 75), rng.integers(-1, 2, 75).astype(np.float32)
    return PlayedGame(HISTORY_LENGTH, ("LEFT", "NOOP", "RIGHT"), screens, actions, rewards)


@pytest.mark.parametrize("games", [1, 3])
def test_states_are_those_that_the_player_saw(games: int) -> None:
    seen: list[States] = []

    def predict(states: States) -> QValues:
        seen.append(states[0].copy())
        return np.tile(np.eye(3, dtype=np.float32)[len(seen) % 3], (len(states), 1))

    player = player_of((16, 10), predict, games)
    for _ in range(3):
        seen.clear()
        game = play_game(player, 3, exploration_rate=0)
        assert len(game) == 7
        np.testing.assert_array_equal(game.states(np.arange(7)), np.stack(seen))
        np.testing.assert_array_equal(game.actions, (np.arange(7) + 1) % 3)
        assert (game.rewards[:-1] == 0).all()
        assert abs(game.rewards[-1]) == 1
        assert game.action_names == ("LEFT", "NOOP", "RIGHT")


def test_states_in_any_order_and_those_without_a_screen_from_before_the_game(noise: PlayedGame) -> None:
    states = noise.states(np.array([40, 0, 40, 1]))
    np.testing.assert_array_equal(states[0], noise.screens[38:41])
    np.testing.assert_array_equal(states[2], states[0])
    assert not states[1, :2].any()
    np.testing.assert_array_equal(states[3, 1:], noise.screens[:2])
    np.testing.assert_array_equal(noise.whole(), np.arange(2, 75))
    short = PlayedGame(5, ("NOOP",), np.ones((2, 4, 4), np.uint8), *np.zeros((2, 2), np.int64))
    np.testing.assert_array_equal(short.whole(), [1])


@pytest.mark.parametrize("kind", ["noise", "catch"])
def test_peaks_are_the_highest(request: pytest.FixtureRequest, network: DeepQNetwork, kind: str) -> None:
    game: PlayedGame = request.getfixturevalue(kind)
    guided = network.guided_backpropagation()
    for layer in guided.layers:
        peaks, whole = find_peaks(game, guided, layer, 64), game.whole()
        activations = guided.activations(game.states(whole), layer.name)
        highest = activations.max(axis=(0, 2, 3))
        assert sorted(peaks.filters.tolist()) == np.flatnonzero(highest > 0).tolist()
        assert (np.diff(peaks.activations) <= 0).all()
        for number, filter_ in enumerate(peaks.filters):
            _, activation, time, row, column = (one[number] for one in peaks)
            assert activation == pytest.approx(highest[filter_], rel=1e-5, abs=1e-7)
            here = activations[time - whole[0], filter_, row, column]
            assert here == pytest.approx(activation, rel=1e-5, abs=1e-7)
        for number, two in enumerate(find_peaks(game, guided, layer, 2)):
            np.testing.assert_array_equal(peaks[number][:2], two)


def test_of_equal_activations_the_first_counts(network: DeepQNetwork, catch: PlayedGame) -> None:
    many, nothing = np.concatenate([catch.screens] * 6), np.zeros(6 * len(catch))
    names, rewards = catch.action_names, nothing.astype(np.float32)
    twice = PlayedGame(catch.history_length, names, many, nothing.astype(int), rewards)
    guided = network.guided_backpropagation()
    once, again = (find_peaks(game, guided, guided.layers[0], 64) for game in (catch, twice))
    first, second = (dict(zip(one.filters, one.activations, strict=True)) for one in (once, again))
    same = [one for one in first if np.isclose(first[one], second[one], rtol=1e-5)]
    assert same, "every filter is most active where one game follows another"
    times = [dict(zip(peaks.filters, peaks.times, strict=True)) for peaks in (once, again)]
    assert [times[0][one] for one in same] == [times[1][one] for one in same]


def test_pictures_of_states_gradients_and_saliency() -> None:
    for screens, channels in ((1, [0, 0, 0]), (2, [0, 0, 1]), (3, [0, 1, 2]), (4, [1, 2, 3])):
        state = np.random.default_rng(0).integers(0, 256, (screens, 3, 5), dtype=np.uint8)
        pixels = nvis_page.state_picture(state).view(np.uint8).reshape(3, 5, 4)  # bytes, for the browser
        assert np.array_equal(pixels[:, :, :3], state[channels].transpose(1, 2, 0))
        assert (pixels[:, :, 3] == 255).all()
    gradient = np.zeros((3, 2, 2), np.float32)
    gradient[0, 0, 0], gradient[1, 0, 1], gradient[2, 1, 0] = -4e-3, 2e-3, 4e-3
    levels = nvis_page.gradient_picture(gradient).view(np.uint8).reshape(4, 4).tolist()
    assert levels == [[0, 128, 128, 255], [128, 191, 128, 255], [128, 128, 255, 255], [128, 128, 128, 255]]
    assert (nvis_page.gradient_picture(np.zeros((3, 2, 2), np.float32)).view(np.uint8)[:, :3] == 128).all()
    gradients = np.zeros((3, 2, 2, 2), np.float32)
    gradients[0, :, 0, 0] = (-8, 2)
    gradients[0, :, 1, 1] = (1, 4)
    gradients[2, 1, 1, 0] = 1e-9
    expected = [[[100, 0], [0, 50]], [[0, 0], [0, 0]], [[0, 0], [100, 0]]]
    assert percent_of_strongest(gradients).tolist() == expected


@dataclass
class Reader:
    """The opened page, and what the browser said and asked for meanwhile."""

    page: Page
    address: str
    said: list[str]
    asked: list[str]

    def value(self, expression: str) -> Any:
        return self.page.evaluate(f"() => {expression}")

    def wait(self, expression: str) -> None:
        self.page.wait_for_function(f"() => {expression}", timeout=20_000)

    def ranges(self, name: str) -> list[float]:
        ends = ("x_range.start", "x_range.end", "y_range.start", "y_range.end")
        return [self.value(f"find({name!r}).{end}") for end in ends]

    def middle(self, name: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
        """Scroll a figure into view and return a place in its frame, in pixels of the window."""
        x, y, width, height = self.value(
            f"{{ const view = Bokeh.index.find_one(find({name!r})), frame = view.frame.bbox;"
            "view.el.scrollIntoView({block: 'center'});"
            "const box = view.el.getBoundingClientRect();"
            "return [box.x + frame.x, box.y + frame.y, frame.width, frame.height] }"
        )
        return x + width * across, y + height * down


@pytest.fixture(scope="module")
def opened(
    network: DeepQNetwork, noise: PlayedGame, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    file = tmp_path_factory.mktemp("results") / "a page.html"
    file.write_text(draw(noise, network, FILTERS, FACTS), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1300, "height": 900}, offline=True)
        page = context.new_page()
        page.add_init_script(FIND)
        reader = Reader(page, file.as_uri(), [], [])
        page.on("console", lambda message: reader.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: reader.said.append(f"error: {error}"))
        page.on("request", lambda request: reader.asked.append(request.url))
        page.goto(reader.address)
        page.wait_for_function(READY, timeout=60_000)
        yield reader
        browser.close()


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    """The page as it was when it was opened; afterward, that nothing was wrong with it meanwhile."""
    opened.page.mouse.move(0, 0)
    opened.value("(find('play').active = false, find('step').value = 0)")
    yield opened
    assert opened.asked == [opened.address]
    assert not [words for words in opened.said if not words.startswith(("log:", "info:"))]


@needs_chromium
def test_the_wheel_zooms_both_pictures(reader: Reader, network: DeepQNetwork, noise: PlayedGame) -> None:
    guided = network.guided_backpropagation()
    best = find_peaks(noise, guided, guided.layers[1], 1).filters[0]
    whole = [-0.5, 35.5, 39.5, -0.5]
    for one, other in (("screen", "saliency"), (f"conv2_{best}_state", f"conv2_{best}_gradient")):
        assert reader.ranges(one) == reader.ranges(other) == whole
        reader.page.mouse.move(*reader.middle(other))
        reader.page.mouse.wheel(0, -300)
        reader.wait(f"find({one!r}).x_range.end < 35.5")
        left, right, bottom, top = zoomed = reader.ranges(one)
        assert right - left < 36
        assert bottom - top < 40
        assert reader.ranges(other) == zoomed
        reader.page.mouse.dblclick(*reader.middle(one))
        reader.wait(f"find({other!r}).x_range.end == 35.5")
        assert reader.ranges(one) == reader.ranges(other) == whole


@needs_chromium
def test_every_layer_and_the_scrubber(reader: Reader, network: DeepQNetwork, noise: PlayedGame) -> None:
    text = reader.page.inner_text("main")
    assert reader.page.title() == "What the network sees: catch <b>"
    assert all(words in text for words in ("catch <b>", "conv1\n", "16 filters", "conv2\n", "32 filters"))
    assert reader.page.locator(".pairs canvas").count() >= 2 * FILTERS * 2
    saliency = percent_of_strongest(
        network.guided_backpropagation().saliency(noise.states(np.arange(75)), noise.actions)
    )

    def check(step: int) -> None:
        reader.wait(f"find('marker').location == {step}")
        columns = "find('screen').renderers[0].data_source.data"
        for name, pictures in (("screen", noise.screens), ("saliency", saliency)):
            shown = np.reshape(reader.value(f"Array.from({columns}.{name}[0])"), (40, 36))
            assert np.abs(shown - pictures[step].astype(int)).max() <= (name == "saliency")
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
def test_hovering_tells_where_how_strongly(reader: Reader, network: DeepQNetwork, noise: PlayedGame) -> None:
    guided = network.guided_backpropagation()
    layer = guided.layers[1]
    peaks = find_peaks(noise, guided, layer, 1)
    states = noise.states(peaks.times)
    gradients = guided.guided_gradients(states, layer.name, peaks.filters, peaks.rows, peaks.columns)
    row, column = np.unravel_index(np.abs(gradients[0]).max(0).argmax(), (40, 36))
    shown = {
        "state": " ".join(str(gray) for gray in states[0, :, row, column]),
        "gradient": " ".join(f"{influence:.4f}" for influence in gradients[0, :, row, column]),
    }
    for kind, levels in shown.items():
        name = f"{layer.name}_{peaks.filters[0]}_{kind}"
        reader.page.mouse.move(*reader.middle(name, (column + 0.5) / 36, (row + 0.5) / 40))
        words = f"{column}, {row}"
        tooltip = reader.page.locator(".bk-tooltip-content:visible").filter(has_text=words)
        tooltip.wait_for(timeout=20_000)
        assert levels in tooltip.inner_text().replace("−", "-").replace("\n", " ")


def test_long_games_and_silent_networks(network: DeepQNetwork, noise: PlayedGame, monkeypatch: Patch) -> None:
    monkeypatch.setattr(nvis_page, "MOST_MOMENTS", 10)
    moments = nvis_page.look_at_moments(noise, network, network.guided_backpropagation())
    assert moments.times.tolist() == list(range(0, 75, 8))
    np.testing.assert_allclose(moments.qvalues, network.predict(noise.states(moments.times)), rtol=1e-5)
    assert len(moments.saliency) == 10
    rich = replace(noise, rewards=1_234_560 * (np.arange(75) == 3) + noise.rewards)
    page, scores = draw(rich, network, 1, FACTS), rich.rewards.cumsum()
    assert "one step in 8 is shown" in page
    assert f"Score so far: {scores[71]:.0f}." in page
    assert f"score {scores[74]:.0f}, played" in page
    black, weights = np.zeros_like(noise.screens[:1]), network.get_weights()
    dark = PlayedGame(HISTORY_LENGTH, noise.action_names, black, noise.actions[:1], noise.rewards[:1])
    network.set_weights({name: np.full_like(values, -1) for name, values in weights.items()})
    try:
        assert draw(dark, network, 4, FACTS).count("None of them was active") == 2
    finally:
        network.set_weights(weights)


def nvis(*words: str) -> int:
    flags = ["--backend", "cpu", "--random_seed", "3", "--log_level", "ERROR", "--visualization_filters", "1"]
    return main.run(["nvis", *words, *flags])


def test_the_page_is_in_results_under_the_name_of_the_run(home: Path, capsys: Capsys) -> None:
    concurrent = {"workers": 4, "processes": 2, "concurrent": True, "target_steps": 40}
    save(home / "catch_long_3.pkl", game="catch", environment="catch", **concurrent)
    assert nvis("catch_long_3.pkl") == 0
    page = home / "results" / "catch_long.html"
    assert str(page) in capsys.readouterr().out
    html = page.read_text(encoding="utf-8")
    assert "Snapshot catch_long_3.pkl, of epoch 3" in html
    assert "One game of 7 steps" in html
    assert html.count("the filters with the strongest activations in this game (1)") == 2
    assert nvis("catch_long_3.pkl", "--visualization_file", "elsewhere/page.html") == 0
    assert (home / "elsewhere" / "page.html").exists()
    assert [path.name for path in (home / "results").iterdir()] == ["catch_long.html"]
