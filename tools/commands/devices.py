"""`triton devices`: what this machine can run models on."""

from __future__ import annotations

from ...runtime.devices import list_devices, onnx_providers
from ..console import print_json, show, table
from .options.programs import Devices


def devices(options: Devices) -> None:
    """List processors, GPUs and ONNX Runtime providers."""
    processors = list_devices()
    providers = onnx_providers()
    if options.json:
        print_json({"devices": [d.to_dict() for d in processors], "onnx_providers": providers})
        return
    show(
        table(
            "devices",
            ["device", "name", "memory", "properties"],
            [
                (
                    d.device_type,
                    d.device_name,
                    f"{d.total_memory_gb:.1f} GiB",
                    ", ".join(
                        f"{k} {' '.join(v) if isinstance(v, list) else v}"  # pyright: ignore
                        for k, v in d.properties.items()
                    ),
                )
                for d in processors
            ],
        ),
        table("ONNX Runtime", ["provider"], [(p,) for p in providers] or [("not installed",)]),
    )
