"""Targets: what compiles to one, what one is made of, placement, and native code for Python.

The public names, loaded on first use. It is not the place for code: the imports say where it is.
"""

from typing import TYPE_CHECKING

from .ir.lazy import lazy_names

if TYPE_CHECKING:
    from .lowering.artifact import Artifact as Artifact
    from .lowering.artifact import write_artifact as write_artifact
    from .lowering.compile_model import BackendBase as BackendBase
    from .lowering.compile_model import CompiledModel as CompiledModel
    from .lowering.compile_model import register_backend as register_backend
    from .lowering.engine import ArtifactEngine as ArtifactEngine
    from .lowering.engine import Engine as Engine
    from .lowering.engine import run_target as run_target
    from .lowering.generation import open_language_model as open_language_model
    from .lowering.generation import open_session as open_session
    from .lowering.options import TargetOptions as TargetOptions
    from .lowering.options import option as option
    from .lowering.placement import Placement as Placement
    from .lowering.placement import Workload as Workload
    from .lowering.placement import load_device as load_device
    from .lowering.placement import place as place
    from .lowering.placement import workload_of as workload_of
    from .lowering.stages import Stage as Stage
    from .lowering.stages import run_stages as run_stages
    from .lowering.target import Target as Target
    from .lowering.targets import compile_to_target as compile_to_target
    from .lowering.targets import get_all_targets as get_all_targets
    from .lowering.targets import get_target as get_target
    from .lowering.targets import register_target as register_target
    from .lowering.to_native.callables import native_linear as native_linear
    from .lowering.to_native.callables import native_program as native_program
    from .lowering.to_native.matmul import native_matmul as native_matmul
    from .lowering.to_native.matmul import pack_columns as pack_columns
    from .lowering.to_native.target import NativeOptions as NativeOptions
    from .lowering.to_onnx.target import OnnxOptions as OnnxOptions
    from .lowering.to_pytorch.load import load_module as load_module
    from .lowering.to_pytorch.target import PyTorchOptions as PyTorchOptions
    from .lowering.to_spinnaker.target import SpiNNakerOptions as SpiNNakerOptions
    from .lowering.to_tflite.target import TFLiteOptions as TFLiteOptions
    from .lowering.to_verilog.options import VerilogOptions as VerilogOptions
    from .runtime.language_model import LanguageModel as LanguageModel
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
