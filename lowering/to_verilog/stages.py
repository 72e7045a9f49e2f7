"""The stages from a program to a circuit, as the options of the target `verilog` say.

Not here: the files that are made of it (`target`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.errors import OptionError
from ...passes.quantize_activations.integer_pipeline import integer_pipeline
from ..stages import Stage
from .options import VerilogOptions, board_of, device_of, is_reloadable, tool_for

_TRAINS = (
    "lower-network,inline-spike-layers,hoist-synapses,lower-recurrent,expose-trains{options},"
    "fold-constants,canonicalize,cse,dce"
)
"""What makes spiking programs ones on steps of truth values; others stay as they are."""


def integer_stages(options: VerilogOptions, *, build: bool = False) -> list[Stage]:
    """The stages that make integers of a program and choose the forms of its products.

    Args:
        options: of the target.
        build: whether a circuit that is made for the choice stays.

    Raises:
        OptionError: options contradict each other, or the device is not known.
    """
    steps = "" if options.timesteps is None else f"{{timesteps={options.timesteps}}}"
    stated = _given(
        {
            "inputs": None if options.inputs is None else f'"{options.inputs}"',
            "input-bits": options.input_bits,
        }
    )
    quantized, folding = _quantization(options), _folding(options, build=build)
    return [
        Stage("simplify", "canonicalize,cse,dce,fold-constants,free-batch,canonicalize,cse,dce"),
        *([Stage("quantize", quantized)] if quantized else []),
        Stage("logits", "expose-logits,merge-rescaling,canonicalize,cse,dce"),
        Stage("thresholds", f"streamline{{{stated}}},canonicalize,cse,dce"),
        Stage("trains", _TRAINS.format(options=steps)),
        Stage("integers", "expose-integers"),
        *([Stage("folding", folding)] if folding else []),
    ]


def circuit_stage(options: VerilogOptions) -> Stage:
    """The stage that makes a circuit of a program of integers, or of one of its layers."""
    circuit = f"keep-function=true {circuit_options(options)}"
    return Stage("hardware", f"convert-ternary-to-hw{{{circuit}}}")


def circuit_options(options: VerilogOptions) -> str:
    """Options of `convert-ternary-to-hw`, as text."""
    device, width = device_of(options), options.stream_width or (32 if options.ip else None)
    is_merging = tool_for(options) not in ("vivado", "yosys")
    return _given(
        {
            "pipeline": options.pipeline,
            "cost": options.cost,
            "time-budget": options.time_budget,
            "max-depth": options.max_depth,
            "input-bits": options.input_bits,
            "clock": options.clock,
            "device": None if device is None else device.grade,
            "stream-width": width if board_of(options) is None else 8,
            "plain-sums": "true" if is_merging else None,
            "rows": "false" if is_merging and device is None else None,
        }
    )


def _given(values: Mapping[str, object]) -> str:
    """Options of a pass, as text; those that are `None` are not given."""
    return " ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def _quantization(options: VerilogOptions) -> str | None:
    """The passes that make a float network one of integers; `None` without samples.

    Raises:
        OptionError: options of the quantisation are given without samples.
    """
    values = [options.bits, options.weight_bits, options.observer, options.precision]
    known = ("bits", "weight-bits", "observer", "precision")
    names = [name for name, value in zip(known, values, strict=True) if value is not None]
    if options.calibration is None:
        if names:
            raise OptionError(
                f"target 'verilog': the option '{names[0]}' belongs to 'calibration', which makes "
                "a float network one of integers: give calibration=FILE"
            )
        return None
    return integer_pipeline(
        options.calibration,
        bits=options.bits or 8,
        weights=options.weight_bits or 8,
        observer=options.observer or "minmax",
        precision=options.precision or "",
    )


def has_goal(options: VerilogOptions) -> bool:
    """Whether circuits are built to be compared with a goal."""
    return options.target_fps is not None or options.lut_budget is not None


def _folding(options: VerilogOptions, *, build: bool) -> str | None:
    """The pass that chooses forms of layers; `None` where all stay unrolled.

    Raises:
        OptionError: options contradict each other, or say no goal.
    """
    goals = _given({"target-fps": options.target_fps, "lut-budget": options.lut_budget})
    if options.fold == "none" and (goals or options.folding):
        named = ", ".join(word.partition("=")[0] for word in goals.split()) or "folding"
        raise OptionError(f"fold=none is given together with {named}")
    if options.fold == "auto" and not goals:
        raise OptionError("fold=auto expects a goal: target-fps (with clock), lut-budget, or both")
    if not (goals or options.folding or is_reloadable(options)):
        return None
    words = _given(
        {
            "target-fps": options.target_fps,
            "lut-budget": options.lut_budget,
            "clock": options.clock,
            "input-bits": options.input_bits,
            "folding": f'"{options.folding}"' if options.folding else None,
            "reloadable": f'"{options.reloadable}"' if is_reloadable(options) else None,
            "circuit": f'"{circuit_options(options)}"' if goals else None,
            "build": "true" if goals and build else None,
        }
    )
    return f"choose-folding{{{words}}}"
