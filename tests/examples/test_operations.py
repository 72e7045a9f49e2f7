"""The files of `examples/operations`, each by the tool that it is for."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from triton_dsl.runtime.training.tracking import PrometheusTracker

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "operations"
PACKAGES = "pip install -e '.[dev,operations]'"


def run(*command: object) -> str:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def beside_python(name: str, require_tool: Callable[[str, str], str]) -> str:
    path = Path(sys.executable).with_name(name)
    path = path if path.exists() else Path(sys.prefix) / "bin" / name
    return str(path) if path.exists() else require_tool(name, PACKAGES)


def test_the_rules_of_prometheus(require_tool: Callable[[str, str], str]) -> None:
    """Each alert of the list is tested to ring, and not before."""
    promtool = require_tool("promtool", "apt-get install prometheus")
    folder = FOLDER / "prometheus"
    run(promtool, "check", "config", folder / "prometheus.yml")
    assert "10 rules found" in run(promtool, "check", "rules", folder / "alerts.yml")
    assert "SUCCESS" in run(promtool, "test", "rules", folder / "alerts_test.yml")


def figures(tmp_path: Path) -> set[str]:
    """The names of the figures that a server and a run of training give, as they are written."""
    fastapi: Any = pytest.importorskip("fastapi.testclient")
    from triton_dsl.runtime.serving.models import Loaded, Served
    from triton_dsl.runtime.serving.server import application
    from triton_dsl.runtime.serving.signature import Port, Signature

    port = Port("x", np.dtype(np.float32), (-1,), 0)
    loaded = Loaded(lambda inputs: [*inputs], Signature([port], [port]), "numpy")
    with fastapi.TestClient(application([Served("net", [lambda: loaded])])) as client:
        while client.get("/v2/health/ready").status_code != 200:
            pass
        tensor = {"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}
        client.post("/v2/models/net/infer", json={"inputs": [tensor]})
        text = str(client.get("/metrics").text)
    tracker = PrometheusTracker(tmp_path, {})
    tracker.log({"loss": 1.0}, 1)
    text += (tmp_path / "training.prom").read_text()
    declared = re.findall(r"^# TYPE (\w+)", text, re.M)
    return {*declared, *re.findall(r"^([a-z_]+)[ {]", text, re.M)}


def queries() -> Iterable[str]:
    for file in (FOLDER / "grafana").glob("*.json"):
        for panel in json.loads(file.read_text())["panels"]:
            yield from (target["expr"] for target in panel["targets"])
    for group in yaml.safe_load((FOLDER / "prometheus" / "alerts.yml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    autoscaler = (FOLDER / "kubernetes" / "base" / "autoscaler.yaml").read_text()
    yield yaml.safe_load(autoscaler)["spec"]["metrics"][0]["pods"]["metric"]["name"]


def test_every_query_asks_for_what_there_is(tmp_path: Path) -> None:
    known, asked = figures(tmp_path), set[str]()
    for query in queries():
        asked |= set(re.findall(r"\b(?:triton|process)_\w+", query))
    assert len(asked) >= 12 and asked - known == set()


def test_the_dashboards_are_those_that_the_program_writes() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason=PACKAGES)
    made = runpy.run_path(str(FOLDER / "dashboards.py"))["dashboards"]()
    files = {file.name: file.read_text("utf-8") for file in (FOLDER / "grafana").iterdir()}
    assert made == files
    for text in files.values():
        panels = json.loads(text)["panels"]
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
        assert len(places) == len(panels) >= 7


def test_kubernetes(require_tool: Callable[[str, str], str]) -> None:
    """By the schemas of Kubernetes, strictly; kustomizations name files that are there."""
    validate: Any = pytest.importorskip("kubernetes_validate", reason=PACKAGES)
    kinds: dict[str, Any] = {}
    for file in sorted((FOLDER / "kubernetes").rglob("*.yaml")):
        content: Any = yaml.safe_load(file.read_text("utf-8"))
        if content["kind"] == "Kustomization":
            for resource in content["resources"]:
                place = file.parent / resource
                assert place.is_file() or (place / "kustomization.yaml").is_file(), resource
            continue
        assert validate.validate(content, "1.30", strict=True)
        kinds[content["kind"]] = content["spec"]
        listed: Any = yaml.safe_load((file.parent / "kustomization.yaml").read_text())
        assert file.name in listed["resources"]
    pod = kinds["Deployment"]["template"]
    labels, (container,) = pod["metadata"]["labels"], pod["spec"]["containers"]
    for kind in ("Service", "PodDisruptionBudget", "Deployment"):
        selector = kinds[kind]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items()
    assert kinds["HorizontalPodAutoscaler"]["scaleTargetRef"]["kind"] == "Deployment"
    assert kinds["PodDisruptionBudget"]["minAvailable"] < kinds["Deployment"]["replicas"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    assert {probe["path"] for probe in probes} == {"/v2/health/ready", "/v2/health/live"}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}
    broken = {**kinds, "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "two"}}
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, "1.30", strict=True)


def test_kustomize_writes_what_kubernetes_takes() -> None:
    """What `kubectl apply -k` sends: every overlay, with names and numbers in their places."""
    validate: Any = pytest.importorskip("kubernetes_validate", reason=PACKAGES)
    kubectl = shutil.which("kubectl")
    folder = FOLDER / "kubernetes" / "overlays" / "production"
    done = subprocess.run(
        [kubectl or "false", "kustomize", folder], capture_output=True, text=True, check=False
    )
    if kubectl is None or "unknown field" in done.stderr:
        pytest.skip("kubectl from 1.21 has a kustomize that is new enough; Debian's is 1.20")
    assert done.returncode == 0, done.stderr
    kinds: dict[str, Any] = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    assert len(kinds) == 5 and all(
        validate.validate(e, "1.30", strict=True) for e in kinds.values()
    )
    assert {each["metadata"]["namespace"] for each in kinds.values()} == {"triton"}
    deployment = kinds["Deployment"]["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert deployment["replicas"] == 4 and container["image"] == "triton-dsl-serve:0.1.0"
    arguments = container["envFrom"][0]["configMapRef"]["name"]
    assert arguments == kinds["ConfigMap"]["metadata"]["name"] != "triton-serve-arguments"


def test_the_images(require_tool: Callable[[str, str], str]) -> None:
    hadolint = beside_python("hadolint", require_tool)
    run(hadolint, FOLDER / "Dockerfile", ROOT / "Dockerfile")


def test_the_proxy(require_tool: Callable[[str, str], str]) -> None:
    haproxy = require_tool("haproxy", "apt-get install haproxy")
    run(haproxy, "-c", "-f", FOLDER / "haproxy.cfg")
