"""What a notebook shows of compiled models, spiking runs and pictures."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl import compile_model, import_model
from triton_dsl.ir.notebook import html_table
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.runtime.spiking.activity import record

DENSE = """layer Net {
    param w: TernaryTensor[16, 4]
    fn forward(image: Tensor[N, 16]) -> Tensor[N, 4] { return image @ w }
}
"""
SPIKING = """layer Net {
    fn forward(x: Tensor[N, 4]) -> Tensor[N, 4] {
        return decode(lif(encode(x, timesteps=8, scheme="regular"), tau=2.0))
    }
}
"""


class Cells(HTMLParser):
    """The texts of a table, and its tags, which must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_table_escapes_and_counts() -> None:
    html = html_table("<b>", ["a & b"], [["<script>"], [1234567], [None], [0.123456]], most=3)
    assert Cells(html).texts == ["<b>", "a & b", "<script>", "1,234,567", "… and 1 more"]
    assert "<script>" not in html


def test_a_compiled_model(tmp_path: Path) -> None:
    path = tmp_path / "net.tri"
    path.write_text(DENSE, encoding="utf-8")
    model = compile_model(str(path), backend="pytorch")
    size = sum(map(len, model.artifact.files.values()))
    text = repr(model)
    assert text.startswith("CompiledModel('pytorch', net(image: tensor<?x16xf32>) -> tensor<?x4x")
    assert f"{size:,} bytes" in text and len(text) < 300
    html = model._repr_html_()  # pyright: ignore[reportPrivateUsage]
    texts = Cells(html).texts
    assert {"net for pytorch", "input", "image", "tensor<?x16xf32>", f"{size:,}"} <= set(texts)


def test_a_spiking_run(tmp_path: Path) -> None:
    module = import_tri(SPIKING)
    run = record(module, [np.full((2, 4), 0.5, np.float32)])
    html = run._repr_html_()  # pyright: ignore[reportPrivateUsage]
    texts = Cells(html).texts
    assert texts[0].startswith(f"{run.spikes:,} spikes")
    assert {"layer", "rate", "spike.lif"} <= set(texts)
    assert f"{run.layers[-1].spikes:,}" in texts


def test_the_raster_of_a_run_has_a_mark_for_each_spike() -> None:
    run = record(import_tri(SPIKING), [np.full((1, 4), 0.5, np.float32)])
    html = run._repr_html_()  # pyright: ignore[reportPrivateUsage]
    pictures = re.findall(r'<svg viewBox="0 -.5 8 4".*?<path d="([^"]*)"', html)
    assert len(pictures) == 2
    for layer, marks in zip(run.layers, pictures, strict=True):
        places = {(int(t), int(n)) for t, n in re.findall(r"M(\d+) (\d+)h", marks)}
        assert places == set(
            zip(*map(np.ndarray.tolist, np.nonzero(layer.output[:, 0])), strict=True)
        )


def test_a_module_shows_its_ops_in_a_notebook(tmp_path: Path) -> None:
    pytest.importorskip("IPython", reason="pip install ipython")
    from IPython.core.interactiveshell import InteractiveShell

    path = tmp_path / "net.tri"
    path.write_text(DENSE, encoding="utf-8")
    shell = InteractiveShell.instance()
    try:
        module = import_model(path)
        formatter: Any = shell.display_formatter
        html = formatter.format(module)[0]["text/html"]
    finally:
        InteractiveShell.clear_instance()
    texts = Cells(html).texts
    assert texts[0] == "Net: 2 ops"
    assert {"ternary.parameter", "ternary.matmul", "tensor<?x4xf32>"} <= set(texts)
    assert any(text.startswith(f"{path}:3:") for text in texts)


def test_a_picture_draws_itself() -> None:
    pytest.importorskip("matplotlib")
    from triton_dsl.tools.pictures.figure import picture_bytes
    from triton_dsl.tools.pictures.raster import raster

    figure = raster(np.eye(4, dtype=np.bool_)[:, None, :])
    drawn = figure._repr_png_()  # pyright: ignore[reportAttributeAccessIssue]
    assert drawn == picture_bytes(figure, ".png") and drawn.startswith(b"\x89PNG")
