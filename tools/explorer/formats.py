"""A record in other forms: Graphviz's text, an ONNX file for Netron, Model Explorer's JSON.

Netron shows any ops, so those of the IR stand in an ONNX graph under their own names; no engine
runs it. `triton-opt -t dot` draws IR by itself. Not here: the page, and the record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import IO, Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ...ir.errors import BackendError, OptionError, did_you_mean
from ...ir.extras import install
from .following import Objects
from .page import page
from .record import json_bytes
from .stage import Files, stage_data

SUFFIXES = {
    "html": ".html", "json": ".json", "dot": ".dot", "netron": ".onnx", "model-explorer": ".json",
}  # fmt: skip
"""What a record can be written as, and the names that such files have."""


def written(data: dict[str, Any], form: str, stage: str | None = None) -> bytes:
    """A form of a record, see `Exploration.content`."""
    chosen = _stage(data, stage)
    match form:
        case "html":
            return page(data).encode()
        case "json":
            return json_bytes(data)
        case "dot":
            return dot(chosen, str(data["title"])).encode()
        case "netron":
            return netron(chosen, str(data["title"]))
        case "model-explorer":
            return json.dumps(model_explorer(data), indent=1).encode()
        case _:
            known = did_you_mean(form, SUFFIXES) or f"; there are {', '.join(SUFFIXES)}"
            raise OptionError(f"no form '{form}'{known}")


def _stage(data: dict[str, Any], name: str | None) -> dict[str, Any]:
    if name is None:
        return data["stages"][data["program"]]
    found = [stage for stage in data["stages"] if name in (stage["name"], _title(stage))]
    if not found:
        names = list(dict.fromkeys(_title(stage) for stage in data["stages"]))
        known = did_you_mean(name, names) or f"; there are {', '.join(names)}"
        raise OptionError(f"no stage '{name}'{known}")
    return found[-1]


def _title(stage: dict[str, Any]) -> str:
    return f"{stage['track']}/{stage['name']}" if stage["track"] else str(stage["name"])


def _edges(stage: dict[str, Any], op: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Which ops give what an op takes, and the values."""
    values = [stage["values"][n] for n in op["operands"] if n < len(stage["values"])]
    return [(value["op"], value) for value in values]


def _facts(value: dict[str, Any]) -> dict[str, str]:
    """What is known of a value, as text."""
    known = value.get("statistics", {})
    facts = {"type": str(value["type"])}
    if "min" in known:
        facts["range"] = f"{known['min']} … {known['max']}"
        facts["zeros"] = f"{known['zeros']:.1%}"
    if "bits" in known:
        facts["bits"] = str(known["bits"])
    return facts


def _quoted(text: object) -> str:
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def dot(stage: dict[str, Any], title: str) -> str:
    """One stage as Graphviz draws it, with the layers as clusters."""
    lines = [f"digraph {_quoted(title)} {{", "  node [shape=box style=rounded fontname=Helvetica]"]
    clusters: dict[tuple[str, ...], list[int]] = {}
    for number, op in enumerate(stage["ops"]):
        clusters.setdefault(tuple(op["group"]), []).append(number)
    for index, (group, numbers) in enumerate(clusters.items()):
        if group:
            lines.append(f"  subgraph cluster_{index} {{ label={_quoted('.'.join(group))}")
        for number in numbers:
            op = stage["ops"][number]
            types = [stage["values"][r]["type"] for r in op["results"]]
            lines.append(f"  op{number} [label={_quoted(chr(10).join([op['name'], *types]))}]")
        if group:
            lines.append("  }")
    for number, op in enumerate(stage["ops"]):
        for source, value in _edges(stage, op):
            tooltip = ", ".join(f"{k} {v}" for k, v in _facts(value).items())
            lines.append(f"  op{source} -> op{number} [tooltip={_quoted(tooltip)}]")
    return "\n".join([*lines, "}", ""])


@dataclass(frozen=True)
class Dot(Target):
    """IR as Graphviz draws it."""

    name: ClassVar[str] = "dot"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Write one graph of the module."""
        title = module.sym_name.data if module.sym_name is not None else "program"
        output.write(dot(stage_data(Objects(module), module, Files()), title))


def model_explorer(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Every stage as a graph in Model Explorer's JSON (`graph_builder.Graph`)."""
    stages: list[dict[str, Any]] = data["stages"]
    return [{"id": f"{n:02}-{_title(s)}", "nodes": _nodes(s)} for n, s in enumerate(stages)]


def _nodes(stage: dict[str, Any]) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    for number, op in enumerate(stage["ops"]):
        place = op["place"]
        attributes = {**op["attributes"], **({"place": place["name"]} if "name" in place else {})}
        nodes.append(
            {
                "id": str(number),
                "label": op["name"],
                "namespace": "/".join(part.replace("/", "_") for part in op["group"]),
                "attrs": _pairs(attributes),
                "incomingEdges": [
                    {
                        "sourceNodeId": str(source),
                        "sourceNodeOutputId": str(_position(stage, source, operand)),
                        "targetNodeInputId": str(position),
                    }
                    for position, (operand, (source, _)) in enumerate(
                        zip(op["operands"], _edges(stage, op), strict=False)
                    )
                    if source >= 0
                ],
                "outputsMetadata": [
                    {"id": str(n), "attrs": _pairs(_facts(stage["values"][r]))}
                    for n, r in enumerate(op["results"])
                ],
            }
        )
    return nodes


def _position(stage: dict[str, Any], op: int, value: int) -> int:
    results: list[int] = stage["ops"][op]["results"]
    return results.index(value) if value in results else 0


def _pairs(facts: dict[str, Any]) -> list[dict[str, str]]:
    return [{"key": key, "value": str(value)} for key, value in facts.items()]


_ELEMENTS = {
    "f64": "DOUBLE", "f32": "FLOAT", "f16": "FLOAT16", "bf16": "BFLOAT16", "i64": "INT64",
    "i32": "INT32", "i16": "INT16", "i8": "INT8", "ui8": "UINT8", "i1": "BOOL", "spikes": "BOOL",
}  # fmt: skip
"""How ONNX calls element types; Netron is told others as text."""


def netron(stage: dict[str, Any], title: str) -> bytes:
    """One stage as an ONNX file that Netron opens.

    Raises:
        BackendError: the package `onnx` is missing.
    """
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise BackendError(f"the form 'netron' needs the package onnx: {install('onnx')}") from None

    def info(number: int) -> Any:
        value = stage["values"][number]
        element = getattr(TensorProto, _ELEMENTS.get(value["element"], "UNDEFINED"))
        shape = value["shape"]
        sizes = None if shape is None else [None if size < 0 else size for size in shape]
        text = ", ".join(f"{k} {v}" for k, v in _facts(value).items())
        return helper.make_tensor_value_info(f"%{value['name']}", element, sizes, text)

    def name(number: int) -> str:
        return f"%{stage['values'][number]['name']}"

    nodes: list[Any] = []
    arguments, results = list[int](), list[int]()
    for op in stage["ops"]:
        if op["name"] == "func.return":
            results += op["operands"]
        elif op["name"] == "func.func":
            continue
        else:
            made = helper.make_node(
                op["name"].partition(".")[2] or op["name"],
                [name(n) for n in op["operands"]],
                [name(n) for n in op["results"]],
                op["place"].get("name", ""),
                domain=op["name"].partition(".")[0],
            )
            made.attribute.extend(
                helper.make_attribute(key, text) for key, text in op["attributes"].items()
            )
            nodes.append(made)
    for number, value in enumerate(stage["values"]):
        parent = value["op"]
        if value["is_argument"] and parent >= 0 and stage["ops"][parent]["name"] == "func.func":
            arguments.append(number)
    graph = helper.make_graph(
        nodes,
        title,
        [info(n) for n in arguments],
        [info(n) for n in dict.fromkeys(results)],
        value_info=[info(n) for n, v in enumerate(stage["values"]) if not v["is_argument"]],
    )
    domains = {node.domain for node in nodes}
    imports = [helper.make_opsetid(domain, 1) for domain in sorted(domains)]
    return helper.make_model(
        graph, opset_imports=imports, producer_name="triton-dsl"
    ).SerializeToString(deterministic=True)
