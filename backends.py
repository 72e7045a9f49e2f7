"""One interface to every kind of processor that PyTorch runs on: found, described, optimised for.

The public names, loaded on first use. It is not the place for code: the imports say where it is.
"""

from typing import TYPE_CHECKING

from .ir.lazy import lazy_names

if TYPE_CHECKING:
    from .runtime.backends.base import BaseBackend as BaseBackend
    from .runtime.backends.factory import BackendFactory as BackendFactory
    from .runtime.backends.factory import detect_best_backend as detect_best_backend
    from .runtime.backends.factory import get_all_backend_info as get_all_backend_info
    from .runtime.backends.factory import get_backend as get_backend
    from .runtime.backends.factory import get_optimizer as get_optimizer
    from .runtime.backends.factory import list_available_backends as list_available_backends
    from .runtime.backends.optimizers import AMDOptimizer as AMDOptimizer
    from .runtime.backends.optimizers import BaseOptimizer as BaseOptimizer
    from .runtime.backends.optimizers import CPUOptimizer as CPUOptimizer
    from .runtime.backends.optimizers import IntelOptimizer as IntelOptimizer
    from .runtime.backends.optimizers import NVIDIAOptimizer as NVIDIAOptimizer
    from .runtime.backends.optimizers import TPUOptimizer as TPUOptimizer
    from .runtime.backends.options import BackendType as BackendType
    from .runtime.backends.options import KernelPyTorchConfig as KernelPyTorchConfig
    from .runtime.backends.options import OptimizationLevel as OptimizationLevel
    from .runtime.backends.options import OptimizationResult as OptimizationResult
    from .runtime.backends.prepared import PreparedModel as PreparedModel
    from .runtime.backends.processors import AMDBackend as AMDBackend
    from .runtime.backends.processors import CPUBackend as CPUBackend
    from .runtime.backends.processors import IntelBackend as IntelBackend
    from .runtime.backends.processors import NVIDIABackend as NVIDIABackend
    from .runtime.backends.processors import TPUBackend as TPUBackend
    from .runtime.backends.strategies import Strategy as Strategy
    from .runtime.devices import DeviceInfo as DeviceInfo
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
