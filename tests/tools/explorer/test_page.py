"""The page in a browser: what it shows, what it asks for, and how quickly."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from triton_dsl import explore, import_model
from triton_dsl.dialects import tensor
from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.passes.analysis.replacement import replace
from triton_dsl.passes.fuse_linear import FuseLinearPass
from triton_dsl.runtime import ternary_resnet18
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.explorer.exploration import Exploration
from triton_dsl.tools.explorer.page import page as page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "examples" / "models" / "digits.tri"
SPIKING = """layer Net {
    let hidden = SpikingLinear(16, 12)
    let head = SpikingLinear(12, 4)
    fn forward(x: Tensor[N, 16]) -> Tensor[N, 4] {
        return decode(head(hidden(encode(x, timesteps=9, scheme="rate"))))
    }
}
"""
HOSTILE = "</script><img src=x onerror='window.hurt=1'><b>"


@pytest.fixture(scope="module")
def browser(require_tool: Any) -> Iterator[Browser]:
    chromium = require_tool("chromium", "on Debian 'apt-get install chromium'")
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with api.sync_playwright() as playwright:
        # Without a sandbox, since a container may give none; the pages are our own.
        yield playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


class Opened:
    """A page in the browser, with all that it asked for and complained of."""

    def __init__(self, browser: Browser, path: Path, theme: str = "dark") -> None:
        size: Any = {"width": 1400, "height": 860}
        scheme: Any = theme
        self.page: Page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.set_default_timeout(10_000)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready]", timeout=60_000)

    def get(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def wait(self, expression: str) -> None:
        """Until something is true; asked from here, as the page's policy allows no `eval`."""
        for _ in range(200):
            if self.get(expression):
                return
            self.page.wait_for_timeout(25)
        pytest.fail(f"never true: {expression}")

    def chosen(self) -> str:
        return self.get("explorer.op === null ? '' : explorer.stage.ops[explorer.op].name")

    def tab(self, name: str) -> None:
        self.page.click(f"#tabs button:has-text('{name}')")

    def key(self, key: str) -> None:
        self.page.focus("#graph")
        self.page.keyboard.press(key)


def written(found: Exploration | dict[str, Any], folder: Path, name: str) -> Path:
    path = folder / f"{name}.html"
    data = found.data if isinstance(found, Exploration) else found
    path.write_text(page_of(data), encoding="utf-8")
    return path


def digits(seed: int = 0) -> tuple[ModuleOp, list[Any]]:
    module = fill_parameters(import_model(MODEL, layer="FloatCNN"), seed)
    return module, [np.random.default_rng(seed).random((2, 1, 8, 8)).astype(np.float32)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def cnn(folder: Path) -> Path:
    module, inputs = digits()
    passes = "canonicalize,fuse-linear,fold-constants,ternarize"
    found = explore(module, inputs, passes=passes, targets=["onnx"], path=MODEL)
    return written(found, folder, "cnn")


@pytest.fixture(scope="module")
def shown(browser: Browser, cnn: Path) -> Opened:
    return Opened(browser, cnn)


@pytest.fixture
def opened(shown: Opened) -> Iterator[Opened]:
    """One page for many tests, each of which begins at the first stage."""
    shown.tab("IR")
    shown.get("explorer.go(0, null).then(() => explorer.choose(null))")
    yield shown
    assert shown.complaints == []
    shown.page.keyboard.press("Escape")
    shown.page.fill("#search", "")


def test_nothing_is_asked_for(opened: Opened, cnn: Path) -> None:
    for tab in ("Source", "Diff", "Checks", "IR"):
        opened.tab(tab)
    assert [url for url in opened.asked if not url.startswith("blob:")] == [cnn.as_uri()]
    policy = opened.get("document.querySelector('meta[http-equiv]').content")
    assert policy.startswith("default-src 'none'") and "http" not in policy


def test_it_is_small(cnn: Path) -> None:
    assert cnn.stat().st_size < 2_000_000


def test_a_node_is_chosen_by_a_click(opened: Opened) -> None:
    where = opened.get(
        "(() => { const g = explorer.graph, n = g.view.nodes.find((n) => n.title === 'max_pool');"
        "return [g.x + g.scale * (n.x + 20), g.y + g.scale * (n.y + 12)]; })()"
    )
    box = opened.page.locator("#graph").bounding_box()
    assert box is not None
    opened.page.mouse.click(box["x"] + where[0], box["y"] + where[1])
    assert opened.chosen() == "tensor.max_pool"
    assert "tensor.max_pool" in opened.page.inner_text("#inspector")
    assert "tensor.max_pool" in opened.page.inner_text(".ln.on >> nth=0")


def test_a_line_of_text_chooses_the_op(opened: Opened) -> None:
    opened.page.click(".ln:has-text('tensor.relu') >> nth=0")
    assert opened.chosen() == "tensor.relu"
    assert opened.get("explorer.graph.selected.title") == "relu"


def test_source_and_graph_are_linked_both_ways(opened: Opened) -> None:
    opened.tab("Source")
    text = opened.page.locator(".ln.near:has-text('return head(flatten(h))')")
    text.click()
    assert opened.chosen() in ("tensor.flatten", "tensor.linear", "func.return", "ternary.linear")
    opened.get("explorer.choose(explorer.stage.ops.findIndex((o) => o.name === 'tensor.max_pool'))")
    assert "max_pool2d" in opened.page.inner_text(".ln.on")


def test_a_stage_follows_the_chosen_op(opened: Opened) -> None:
    opened.get(
        "explorer.go(0, explorer.record.stages[0].ops.findIndex((o) => /conv$/.test(o.name)))"
    )
    opened.page.click(".stage >> nth=1")
    opened.wait("explorer.stage.index === 1 && explorer.op !== null")
    assert "conv" in opened.chosen()


def test_two_stages_side_by_side(opened: Opened) -> None:
    opened.get("explorer.go(1, null)")
    opened.wait("explorer.stage.index === 1")
    opened.tab("Diff")
    assert opened.page.locator(".ln.del, .ln.mod").count() > 0
    rows = opened.get(
        "aligned(explorer.record.stages[0], explorer.stage, explorer.record.relation(0, 1))"
    )
    texts = opened.get("explorer.record.stages.slice(0, 2).map((s) => s.text)")
    # Whatever stands where: each line is there once and in its order.
    assert [r["left"] for r in rows if "left" in r] == list(range(len(texts[0])))
    assert [r["right"] for r in rows if "right" in r] == list(range(len(texts[1])))
    assert all(
        re.sub(r"%\d+", "%", texts[0][r["left"]]) == re.sub(r"%\d+", "%", texts[1][r["right"]])
        for r in rows
        if not r["change"]
    )


def test_what_comes_from_what_across_targets(opened: Opened) -> None:
    last = opened.get("explorer.record.stages.length - 1")
    found = opened.get(f"explorer.record.relation(0, {last}).map((set) => [...set])")
    stages = opened.get("explorer.record.stages.map((s) => s.ops.map((o) => o.name))")
    pools = [n for n, name in enumerate(stages[last]) if name == "tensor.max_pool"]
    assert pools and all(stages[0][found[n][0]] == "tensor.max_pool" for n in pools)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("max_pool", "tensor.max_pool"),
        ("shape:10", "linear"),
        ("attr:kernel", "tensor.max_pool"),
        ("type:f32 name:relu", "tensor.relu"),
    ],
)
def test_search(opened: Opened, text: str, name: str) -> None:
    opened.key("/")
    opened.page.keyboard.type(text)
    assert opened.page.locator("#hits li").count() > 0
    names = opened.get("explorer.hits.map((n) => explorer.stage.ops[n].name)")
    assert any(name in found for found in names)
    opened.page.keyboard.press("Enter")
    assert opened.chosen() == names[0]


def test_a_search_that_finds_nothing(opened: Opened) -> None:
    opened.page.fill("#search", "there is no such op")
    assert "nothing in this stage" in opened.page.inner_text("#hits")


def test_keys(opened: Opened) -> None:
    opened.key("j")
    first = opened.get("explorer.op")
    opened.key("j")
    assert opened.get("explorer.op") > first
    opened.key("k")
    assert opened.get("explorer.op") == first
    opened.key("]")
    opened.wait("explorer.stage.index === 1")
    opened.key("d")
    assert opened.page.inner_text("#tabs .on") == "Diff"
    opened.key("Escape")
    assert opened.get("explorer.op") is None
    opened.key("?")
    assert opened.page.locator("dialog[open]").count() == 1
    assert "Eclipse Public License" in opened.page.inner_text("dialog")


def test_constants_appear_and_go(opened: Opened) -> None:
    before = opened.get("explorer.graph.view.nodes.length")
    opened.key("c")
    opened.wait(f"explorer.graph.view.nodes.length > {before}")
    opened.key("c")
    opened.wait(f"explorer.graph.view.nodes.length === {before}")


def test_nodes_do_not_overlap(opened: Opened) -> None:
    boxes = np.array(
        opened.get("explorer.graph.view.nodes.map((n) => [n.x, n.y, n.width, n.height])")
    )
    low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    apart = ((high[:, None] <= low[None]) | (low[:, None] >= high[None])).any(axis=2)
    assert (apart | np.eye(len(boxes), dtype=bool)).all()


def test_light_and_dark(browser: Browser, cnn: Path) -> None:
    light = Opened(browser, cnn, "light")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert light.get("document.documentElement.dataset.theme") == "light"
    before = light.get(colour)
    light.key("t")
    assert light.get("document.documentElement.dataset.theme") == "dark"
    assert light.get(colour) != before
    light.page.context.close()


def test_pointing_at_an_edge_tells_its_value(opened: Opened) -> None:
    where = opened.get(
        "(() => { const g = explorer.graph; g.fit(); const e = g.view.edges.find((e) => e.points"
        " && !e.from.startsWith('arg')), [a, b] = e.points;"
        "return [g.x + g.scale * (a[0] + b[0]) / 2, g.y + g.scale * (a[1] + b[1]) / 2]; })()"
    )
    box = opened.page.locator("#graph").bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + where[0], box["y"] + where[1])
    tip = opened.page.inner_text("#tip")
    assert "f32" in tip and "zeros" in tip and "bit" in tip


def test_a_wrong_pass_is_found_in_two_clicks(browser: Browser, folder: Path) -> None:
    def wrong(self: FuseLinearPass, ctx: Context, op: ModuleOp) -> None:
        relus = [inner for inner in op.walk() if isinstance(inner, tensor.ReluOp)]
        replace(relus[1], tensor.AbsOp(relus[1].operands[0]))

    module, inputs = digits()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FuseLinearPass, "apply", wrong)
        found = explore(module, inputs, passes="canonicalize,fuse-linear,cse,ternarize")
    shown = Opened(browser, written(found, folder, "wrong"))
    marked = shown.page.locator(".stage.wrong")
    assert marked.count() == 1 and "fuse-linear" in marked.inner_text()
    marked.click()
    shown.page.click("#first")
    assert shown.chosen() == "tensor.abs"
    assert "wrong by" in shown.page.inner_text("#inspector")
    assert "tensor.abs" in shown.page.inner_text(".ln.on >> nth=0")
    shown.page.context.close()


def test_spikes_have_a_raster_and_a_slider(browser: Browser, folder: Path) -> None:
    path = folder / "net.tri"
    path.write_text(SPIKING, encoding="utf-8")
    module = fill_parameters(import_model(path), 0)
    found = explore(module, [np.random.default_rng(0).random((1, 16)).astype(np.float32)])
    for raster in found.data["rasters"]:
        assert [len(step) for step in raster["fired"]] == raster["counts"]
        assert sum(raster["counts"]) == raster["spikes"] and raster["steps"] == 9
    shown = Opened(browser, written(found, folder, "spiking"))
    shown.tab("Spikes")
    assert shown.page.locator(".raster").count() == 3
    shown.page.evaluate(
        "() => { const time = document.getElementById('time'); time.value = 5;"
        "time.dispatchEvent(new Event('input')); }"
    )
    assert shown.get("explorer.step") == 5
    fired = found.data["rasters"][1]["counts"][5]
    assert f"step 5: {fired} fire" in shown.page.inner_text(".raster >> nth=1")
    shown.tab("Costs")
    assert "Synapses".lower() in shown.page.inner_text("#pane").lower()
    assert shown.complaints == []
    shown.page.context.close()


def test_hostile_names_stay_text(browser: Browser, folder: Path) -> None:
    quoted = HOSTILE.replace("\\", "\\\\").replace('"', '\\"')
    module = parse_module(
        f"""
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %y = tensor.relu %x {{note = "{quoted}"}} : (tensor<2xf32>) -> tensor<2xf32>
    loc("{quoted}"("{quoted}.py":1:1))
  func.return %y : tensor<2xf32> loc("a/{quoted}/b"("m.py":2:1))
}}"""
    )
    data = explore(module, [np.ones(2, np.float32)]).data
    data["title"] = HOSTILE
    data["stages"][0]["name"] = HOSTILE
    data["stages"][0]["checks"].append(
        dict.fromkeys(("name", "note"), HOSTILE)
        | {"kind": "engine", "agrees": False, "values": {}, "first": 1}
    )
    data["tables"].append({"title": HOSTILE, "columns": [HOSTILE], "rows": [[HOSTILE]]})
    shown = Opened(browser, written(data, folder, "hostile"))
    shown.get("explorer.choose(1)")
    for tab in ("IR", "Diff", "Checks", "Costs"):
        shown.tab(tab)
    shown.page.fill("#search", "onerror")
    assert shown.page.locator("#hits li").count() > 0
    assert shown.get("window.hurt") is None
    assert shown.get("document.querySelectorAll('img').length") == 0
    assert HOSTILE in shown.page.inner_text("#inspector")
    assert shown.page.title().startswith(HOSTILE)
    shown.page.context.close()


def large(count: int, columns: int) -> dict[str, Any]:
    """A record of `count` ops in columns, made of one op many times over."""
    module = parse_module(
        """
func.func @forward(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = tensor.relu %x : (tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %y : tensor<4x16xf32>
}"""
    )
    data = explore(module, [np.ones((4, 16), np.float32)]).data
    stage = data["stages"][0]
    relu, value = stage["ops"][1], stage["values"][1]
    stage["ops"], stage["values"] = stage["ops"][:1], stage["values"][:1]
    for number in range(count):
        op, result = copy.deepcopy(relu), copy.deepcopy(value)
        above = number - columns
        op["operands"] = [0 if above < 0 else above + 1]
        op["results"], op["lines"] = [number + 1], [number + 2, number + 2]
        op["place"] = {"name": f"node{number}"}
        result["op"] = number + 1
        stage["ops"].append(op)
        stage["values"].append(result)
    stage["text"] = ["  %y = tensor.relu %x : tensor<4x16xf32>"] * (count + 4)
    return data


def test_ten_thousand_ops(browser: Browser, folder: Path) -> None:
    """Also with all of them in sight."""
    shown = Opened(browser, written(large(10_000, 100), folder, "large"))
    shown.get("explorer.graph.fit()")
    pan = """async () => {
        const graph = explorer.graph, began = performance.now();
        graph.frames.length = 0;
        for (let i = 0; i < 40; i++) {
            graph.move(i % 2 ? 8 : -8, i % 2 ? 5 : -5);
            await new Promise(requestAnimationFrame);
        }
        return [40000 / (performance.now() - began), graph.drawn];
    }"""
    rates = [shown.get(f"({pan})()") for _ in range(3)]
    assert [drawn for _, drawn in rates] == [10_001] * 3
    assert max(rate for rate, _ in rates) >= 30
    shown.page.fill("#search", "node9876")
    assert shown.get("explorer.hits.length") == 1
    times = [shown.get("(explorer.search(), explorer.searched)") for _ in range(3)]
    assert min(times) < 100
    shown.page.keyboard.press("Enter")
    assert shown.get("explorer.op") == 9877
    shown.page.context.close()


def test_a_notebook_shows_it(browser: Browser, folder: Path) -> None:
    """In the frame of a cell, which is a page of its own without an origin."""
    module, inputs = digits()
    html = explore(module, inputs)._repr_html_()  # pyright: ignore[reportPrivateUsage]
    path = folder / "cell.html"
    path.write_text(f"<!doctype html><body>{html}</body>", encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for(timeout=60_000)
    assert "import" in frame.locator("#stages").inner_text()
    page.close()


@pytest.mark.slow
def test_mnist_is_made_in_five_seconds(shared_data: Any, tmp_path: Path) -> None:
    """Of the processor, with Python's start and ONNX Runtime beside the interpreter."""
    model = shared_data.path("models", "onnx", "mnist-conv-opset8.onnx")
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "triton_dsl.tools.cli", "explore", str(model), "-t", "onnx"]
    before = os.times()
    subprocess.run([*command, "-p", "canonicalize,fuse-linear", "-o", str(page)], check=True)
    after = os.times()
    used = after.children_user + after.children_system
    assert used - before.children_user - before.children_system < 5
    assert page.stat().st_size < 2_000_000


@pytest.mark.slow
def test_resnet18_opens_in_two_seconds(browser: Browser, folder: Path) -> None:
    """Of the processor, in all threads of the page: others may use it too."""
    image = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    module = from_torch(ternary_resnet18(small_images=False).eval(), image)
    passes = "canonicalize,fold-constants,fuse-linear,cse,dce"
    found = explore(module, [image.numpy()], passes=passes, targets=["onnx"])
    assert len(found.data["stages"]) >= 5
    path = written(found, folder, "resnet18")
    assert path.stat().st_size < 2_000_000
    page = Opened(browser, path).page
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    page.context.close()
    (used,) = (each["value"] for each in metrics if each["name"] == "ProcessTime")
    assert 0 < used < 2
