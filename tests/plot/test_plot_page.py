"""The page in a real browser without a network: what it asks for, zoom, hover, the legend, the reload."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from simple_dqn.plot import html
from simple_dqn.plot.panels import TITLES, Plot

READY = "window.Bokeh?.documents[0]?.is_idle"
# By title, what a panel shows now: its lines, and the ranges of its axes.
PANELS = """() => Object.fromEntries(
    [...Bokeh.documents[0]._all_models.values()].filter((model) => model.type == "Figure" && model.title.text)
        .map((panel) => [panel.title.text, {
            lines: panel.renderers.filter((line) => line.name && line.visible).map((line) => line.name),
            x: [panel.x_range.start, panel.x_range.end],
            y: [panel.y_range.start, panel.y_range.end],
        }]))"""
VIEWS = """
    const views = [Bokeh.index.roots[0]]
    for (const view of views) {
        views.push(...view.children())
    }
"""
# The middle of the first entry of the legend, in the browser's pixels.
FIRST_OF_LEGEND = f"""() => {{ {VIEWS}
    const legend = views.find((view) => view.model.type == "Legend")
    const box = legend.entries[0].el.getBoundingClientRect()
    return [box.x + box.width / 2, box.y + box.height / 2]
}}"""
# Where the first panel has an epoch and a value, in the browser's pixels.
PLACE = f"""([epoch, value]) => {{ {VIEWS}
    const panel = views.find((view) => view.model.title?.text)
    const box = panel.canvas_view.el.getBoundingClientRect()
    return [box.x + panel.frame.x_scale.compute(epoch), box.y + panel.frame.y_scale.compute(value)]
}}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that may ask for nothing but its file, and must not complain."""
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    yield page
    page.close()
    assert complaints == []
    assert requests
    assert {url.split(":")[0] for url in requests} <= {"file", "data", "blob"}
    assert len({url for url in requests if url.startswith("file")}) == 1


def show(page: Page, plot: Plot, path: Path, reload_seconds: float | None = None) -> None:
    html.save(plot, path, reload_seconds)
    page.goto(path.as_uri())
    page.wait_for_function(READY)


def panels(page: Page) -> dict[str, Any]:
    page.wait_for_function(READY)
    shown: dict[str, Any] = page.evaluate(PANELS)
    return shown


def test_it_shows_the_panels_of_the_plot(page: Page, plot_of: Callable[..., Plot], tmp_path: Path) -> None:
    plot = plot_of(list(TITLES)[-5:], "pong_a", "pong_b")
    show(page, plot, tmp_path / "pong.html")
    assert page.title() == "pong_a, pong_b"
    shown = panels(page)
    assert list(shown) == [panel.title for panel in plot.panels]
    for panel in plot.panels:
        assert shown[panel.title]["lines"] == [line.label for line in panel.lines]


def test_the_wheel_zooms_one_panels_values_and_all_panels_epochs(
    page: Page, plot_of: Callable[..., Plot], tmp_path: Path
) -> None:
    show(page, plot_of(["average_reward", "meanq"]), tmp_path / "pong.html")
    before = panels(page)
    page.mouse.move(300, 300)
    page.mouse.wheel(0, -300)
    page.wait_for_function(f"before => ({PANELS})()['Average reward'].x[0] > before", arg=1)
    after = panels(page)
    assert after["Average reward"]["x"] == after["Average Q-value"]["x"] != before["Average reward"]["x"]
    assert after["Average reward"]["y"] != before["Average reward"]["y"]
    assert after["Average Q-value"]["y"] == before["Average Q-value"]["y"]


def test_a_click_in_the_legend_hides_a_line_in_every_panel_and_shows_it_again(
    page: Page, plot_of: Callable[..., Plot], tmp_path: Path
) -> None:
    show(page, plot_of(["average_reward", "nr_games"]), tmp_path / "pong.html")
    before = panels(page)
    page.mouse.click(*page.evaluate(FIRST_OF_LEGEND))
    page.wait_for_timeout(200)
    hidden = panels(page)
    assert [panel["lines"] for panel in hidden.values()] == [["Train", "Test"]] * 2
    assert hidden["Average reward"]["y"] != before["Average reward"]["y"]  # the others have its room
    page.mouse.click(*page.evaluate(FIRST_OF_LEGEND))
    page.wait_for_timeout(200)
    assert panels(page) == before


def test_hovering_tells_phase_epoch_and_value(
    page: Page, plot_of: Callable[..., Plot], tmp_path: Path
) -> None:
    show(page, plot_of(["average_reward"]), tmp_path / "pong.html")
    page.mouse.move(*page.evaluate(PLACE, [2, -18.5]), steps=5)
    values = page.locator(".bk-tooltip-row-value")
    values.first.wait_for()
    assert values.all_inner_texts() == ["Test", "2", "-18.5"]


def test_a_page_that_reloads_itself_keeps_what_was_zoomed_and_hidden(
    page: Page, plot_of: Callable[..., Plot], tmp_path: Path
) -> None:
    path = tmp_path / "pong.html"
    show(page, plot_of(["average_reward", "meanq"]), path, reload_seconds=2)
    page.mouse.click(*page.evaluate(FIRST_OF_LEGEND))
    page.mouse.move(300, 300)
    page.mouse.wheel(0, -300)
    page.wait_for_function(f"() => ({PANELS})()['Average reward'].x[0] > 1")
    before = panels(page)
    html.save(plot_of(["average_reward", "meanq", "steps"]), path, reload_seconds=1000)
    page.wait_for_function(f"() => {READY} && Object.keys(({PANELS})()).length == 3")
    after = panels(page)
    assert after["Average reward"] == before["Average reward"]
    assert after["Average Q-value"]["x"] == before["Average Q-value"]["x"]
    assert after["Number of steps"]["lines"] == ["Train", "Test"]
