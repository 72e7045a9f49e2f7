"""Triton DSL: one neural network, written once, compiled for every target that can run it.

This file is the public face of the package: the names that most programs need, loaded on first use.
More stand in `triton_dsl.spiking`, `.training`, `.targets`, `.backends`, `.passes`, `.dialects` and
`.runtime`.
It is not the place for code; the imports say in which module each name lives.
"""

from typing import TYPE_CHECKING

from .ir.lazy import lazy_names

# What a star import brings: the compiler. The names that need PyTorch are imported one by one.
__all__ = (
    "BackendBase",
    "CompilationError",
    "TritonError",
    "TritonParser",
    "TypeChecker",
    "compile_model",
    "import_model",
    "register_backend",
)

if TYPE_CHECKING:
    from . import backends as backends
    from . import dialects as dialects
    from . import passes as passes
    from . import runtime as runtime
    from . import spiking as spiking
    from . import targets as targets
    from . import training as training
    from .ir.errors import BackendError as BackendError
    from .ir.errors import CompilationError as CompilationError
    from .ir.errors import InputError as InputError
    from .ir.errors import IntegrityError as IntegrityError
    from .ir.errors import LoweringError as LoweringError
    from .ir.errors import OptionError as OptionError
    from .ir.errors import ParameterError as ParameterError
    from .ir.errors import PassError as PassError
    from .ir.errors import SourceError as SourceError
    from .ir.errors import TritonError as TritonError
    from .ir.errors import UnsupportedError as UnsupportedError
    from .ir.errors import VerifyError as VerifyError
    from .ir.language.checker import TypeChecker as TypeChecker
    from .ir.language.nodes import LayerDef as LayerDef
    from .ir.language.parser import TritonParser as TritonParser
    from .ir.version import __version__ as __version__
    from .lowering.compile_model import BackendBase as BackendBase
    from .lowering.compile_model import compile_model as compile_model
    from .lowering.compile_model import register_backend as register_backend
    from .lowering.from_nir import import_nir as import_nir
    from .lowering.from_onnx import from_onnx as from_onnx
    from .lowering.from_tflite import from_tflite as from_tflite
    from .lowering.from_torch import from_torch as from_torch
    from .lowering.from_tri import import_tri as import_tri
    from .lowering.frontends import FrontEnd as FrontEnd
    from .lowering.frontends import register_front_end as register_front_end
    from .lowering.mobile import MobileModel as MobileModel
    from .lowering.mobile import optimize_for_mobile as optimize_for_mobile
    from .lowering.models import import_model as import_model
    from .lowering.module_file import save_module as save_module
    from .lowering.packages.building import build_package as build_package
    from .lowering.packages.package import Package as Package
    from .lowering.packages.package import load_package as load_package
    from .lowering.post_training import quantize_program as quantize_program
    from .lowering.publishing.github import publish_to_github as publish_to_github
    from .lowering.publishing.hub import load_from_hub as load_from_hub
    from .lowering.publishing.hub import push_to_hub as push_to_hub
    from .lowering.sources.torch import TorchSource as TorchSource
    from .lowering.ternarization import ternarize_module as ternarize_module
    from .lowering.to_onnx import export_to_onnx as export_to_onnx
    from .lowering.to_onnx import optimize_onnx_model as optimize_onnx_model
    from .lowering.to_pytorch.codegen import PyTorchCodeGenerator as PyTorchCodeGenerator
    from .lowering.to_tflite import TFLiteQuantizationConfig as TFLiteQuantizationConfig
    from .lowering.to_tflite import export_to_tflite as export_to_tflite
    from .lowering.to_verilog.fpga_backend import FPGABackend as FPGABackend
    from .runtime.analysis import analyze_model_size as analyze_model_size
    from .runtime.layers import TernaryConv2d as TernaryConv2d
    from .runtime.layers import TernaryLinear as TernaryLinear
    from .runtime.profiler import profile_model as profile_model
    from .runtime.quantization import ternarize as ternarize
    from .runtime.quantization import ternarize_stochastic as ternarize_stochastic
    from .runtime.ternary_tensor import TernaryTensor as TernaryTensor
    from .runtime.ternary_tensor import ternary_matmul as ternary_matmul
    from .tools.commands.info import describe_module as describe_module
    from .tools.commands.verify import comparison_table as comparison_table
    from .tools.explorer.exploration import explore as explore
    from .tools.verify import verify_module as verify_module
else:
    __getattr__, __dir__, _ = lazy_names(__name__)
