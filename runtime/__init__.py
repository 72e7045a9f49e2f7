"""What runs a compiled model, and what it runs on: engines, packed tensors, devices, measurements.

Also networks of PyTorch to compile: their layers (`layers`, `spiking`, `models`) and `training`.

A module here takes finished artefacts and arrays. It does not compile: nothing in this folder
imports `lowering` or `passes`, and of `ir` and `dialects` only types.

The names that users need load on first use, from where the imports say.
"""

from typing import TYPE_CHECKING

from ..ir.lazy import lazy_names

if TYPE_CHECKING:
    from ..ir.trits import pack_trits as pack_trits
    from ..ir.trits import unpack_trits as unpack_trits
    from .analysis import analyze_model_size as analyze_model_size
    from .boards.boot import boot_manifest as boot_manifest
    from .boards.boot import boot_sources as boot_sources
    from .device_choice import configure_torch_backend as configure_torch_backend
    from .device_choice import resolve_amp_config as resolve_amp_config
    from .device_choice import resolve_ort_providers as resolve_ort_providers
    from .device_choice import resolve_torch_device as resolve_torch_device
    from .devices import DeviceInfo as DeviceInfo
    from .devices import list_devices as list_devices
    from .engines import run_onnx as run_onnx
    from .engines import run_torch as run_torch
    from .generation import Sampling as Sampling
    from .generation import generate as generate
    from .layers import TernaryConv2d as TernaryConv2d
    from .layers import TernaryLinear as TernaryLinear
    from .models.bert import TernaryBertTiny as TernaryBertTiny
    from .models.mobilenet import TernaryMobileNetV2 as TernaryMobileNetV2
    from .models.resnet import TernaryResNet18 as TernaryResNet18
    from .models.resnet import ternary_resnet18 as ternary_resnet18
    from .models.small import TernaryCIFAR10Net as TernaryCIFAR10Net
    from .models.small import TernaryMNISTNet as TernaryMNISTNet
    from .models.vision_transformer import VisionTransformer as VisionTransformer
    from .native.loading import load_shared as load_shared
    from .native.program import NativeProgram as NativeProgram
    from .operators import get_precision as get_precision
    from .operators import set_precision as set_precision
    from .operators import ternary_conv2d as ternary_conv2d
    from .operators import ternary_linear as ternary_linear
    from .operators import use_precision as use_precision
    from .packed import PackedTernaryConv2d as PackedTernaryConv2d
    from .packed import PackedTernaryLinear as PackedTernaryLinear
    from .packed import pack_model as pack_model
    from .packed import tri_state_dict as tri_state_dict
    from .packing import pack as pack
    from .packing import unpack as unpack
    from .perplexity import Perplexity as Perplexity
    from .perplexity import foretold as foretold
    from .profiler import profile_model as profile_model
    from .quantization import ternarize as ternarize
    from .quantization import ternarize_stochastic as ternarize_stochastic
    from .serving.batching import Limits as Limits
    from .serving.client import Client as Client
    from .serving.client import Retries as Retries
    from .serving.models import Loaded as Loaded
    from .serving.models import Served as Served
    from .serving.server import application as application
    from .serving.signature import Port as Port
    from .serving.signature import Signature as Signature
    from .ternary_tensor import TernaryTensor as TernaryTensor
    from .ternary_tensor import ternary_matmul as ternary_matmul
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
