"""Each name of earlier interfaces is called, and gives what its interface says."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from triton_dsl import from_torch
from triton_dsl.dialects import parse_module
from triton_dsl.ir.errors import BackendError, ParameterError, TritonError
from triton_dsl.lowering import compile_model as compilation
from triton_dsl.runtime import TernaryLinear
from triton_dsl.spiking import FallbackWarning
from triton_dsl.training import (
    Distillation,
    DistillationLoss,
    SpikingRun,
    Trainer,
    TrainingConfig,
    bake,
    prune,
    quantize_aware,
)

from ..lowering.publishing.local_servers import TOKEN, GitHub, Hub, running
from .test_names import PAIRS

HOMES = {old: new for old, new in PAIRS}
CLASSIFIER = """
layer LinearClassifier {
    param weights: TernaryTensor[784, 10]
    param bias: Tensor[10]

    fn forward(x: Tensor[N, 784]) -> Tensor[N, 10] {
        return x @ weights + bias
    }
}
"""


def named(name: str) -> Any:
    """What the table of `docs/earlier_interfaces.md` says for a name."""
    home, _, new = HOMES[name].rpartition(".")
    return getattr(import_module(home), new)


def checked() -> Any:
    return named("TypeChecker")().check(named("TritonParser")().parse(CLASSIFIER))


def layer() -> Any:
    return checked().layers[0]


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(TernaryLinear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def subclass_of(name: str) -> Any:
    """A backend of nothing but what must be said."""
    info = named("DeviceInfo")("own", "cpu", 0, "own", None, 0, None, True)
    methods = {
        "_setup_environment": lambda self: None,
        "_get_device_info": lambda self, device_id=0: info,
    }
    return type("Own", (named(name),), {"BACKEND_NAME": "own", **methods})()


def optimized(kind: str) -> bool:
    """A model that an optimizer of a kind has been given on the processor."""
    model, x = perceptron(), torch.ones(2, 6)
    optimizer = named(kind)(torch.device("cpu"), lambda: None, ())
    found, result = optimizer.optimize(model, "O0")
    assert isinstance(result, named("OptimizationResult"))
    return torch.allclose(found(x), model(x), atol=1e-5)


def fpga() -> bool:
    weights = {"weights": np.eye(784, 10, dtype=np.int8), "bias": np.ones(10, np.float32)}
    program = checked()
    backend = named("FPGABackend")("xcvu9p", weights=weights, input_range=(0, 1), bits=2)
    code = backend.generate_code(program.layers[0])
    return "module" in code and "blackbox" not in code


def on_hub(tmp: Path) -> tuple[str, bool]:
    """The commit of a model that is pushed to a Hub of this machine, and whether it comes back."""
    constants = import_module("huggingface_hub.constants")
    with pytest.MonkeyPatch.context() as patch, running(service := Hub()):
        patch.setattr(constants, "HF_HUB_CACHE", str(tmp / "cache"))
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setenv("HF_ENDPOINT", service.address)
        model, x = perceptron(), torch.randn(1, 6)
        commit = named("push_to_hub")(
            model, "who/what", commit_message="First", private=True, token=TOKEN, tags=["ternary"],
            targets=("pytorch",), input_shape=(1, 6),
        )  # fmt: skip
        patch.setenv("HF_TOKEN", TOKEN)
        back = named("load_from_hub")("who/what", revision="main")
        return commit, torch.allclose(back(x), model(x), atol=1e-5)


def released(tmp: Path) -> bool:
    """Whether a file is an asset of a release of a GitHub of this machine."""
    with pytest.MonkeyPatch.context() as patch, running(service := GitHub()):
        patch.setenv("GITHUB_API_URL", service.address)
        address = named("publish_to_github")(
            model_path=str(source(tmp)), repo="o/r", tag="v1", release_name="First",
            description="The first", token=TOKEN,
        )  # fmt: skip
        return address.endswith("model.tri") and len(service.assets) == 1


def exported(tmp: Path) -> Path:
    path = tmp / "model.onnx"
    assert named("export_to_onnx")(perceptron(), path, (1, 6), ["x"], ["y"], opset_version=13)
    return path


def refused() -> bool:
    with pytest.raises(named("BackendError")) as caught:
        named("resolve_torch_device")("xla")
    return isinstance(caught.value, RuntimeError)


def source(tmp: Path) -> Path:
    path = tmp / "model.tri"
    path.write_text(CLASSIFIER)
    return path


def float_program() -> Any:
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return from_torch(net, torch.ones(2, 6))


def converted() -> bool:
    """A float network becomes a spiking one by the parts of the conversion."""
    program = float_program()
    assert all(finding.ok for finding in named("ArchitectureValidator")().check(program))
    done = named("LayerConverter")().convert(program, 4, threshold=1.0)
    return done.neurons == 1 and "spike." in str(program)


def calibrated() -> bool:
    samples = [[np.random.default_rng(0).random((16, 6)).astype(np.float32)]]
    program = float_program()
    (found,) = named("ThresholdCalibrator")(method="max").calibrate(program, samples)
    return float(found.max()) > 0


def trained() -> bool:
    x, y = torch.rand(40, 6), torch.arange(40) % 3
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    trainer = named("HybridTrainer")(
        net, config=TrainingConfig(epochs=1, progress=False), timesteps=2
    )
    return trainer.fit((x, y), (x, y)).tuned["accuracy"] >= 0


CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
X = torch.tensor([[-0.9, 0.01, 0.8]])
TRITS = torch.tensor([[-1.0, 0.0, 1.0]])
ABSENT = ("NVIDIABackend", "AMDBackend", "TPUBackend", "IntelBackend")

CALLS: dict[str, Callable[[Path], Any]] = {
    "TritonParser": lambda _: named("TritonParser")().parse(CLASSIFIER),
    "TypeChecker": lambda _: [each.name for each in checked().layers] == ["LinearClassifier"],
    "LayerDef": lambda _: isinstance(layer(), named("LayerDef")) and [
        (p.name, p.param_type, p.shape) for p in layer().params
    ] == [("weights", "TernaryTensor", (784, 10)), ("bias", "Tensor", (10,))],
    "PyTorchCodeGenerator": lambda _: "class LinearClassifier(nn.Module)"
    in _module_code(),
    "TernaryTensor": lambda _: torch.equal(named("TernaryTensor")(X).to_float(), TRITS),
    "ternary_matmul": lambda _: named("ternary_matmul")(
        TRITS, TRITS.T, a_ternary=True, b_ternary=True
    ).item() == 2,
    "ternarize": lambda _: torch.equal(named("ternarize")(X, threshold=0.05), TRITS),
    "ternarize_stochastic": lambda _: set(
        named("ternarize_stochastic")(X).unique().tolist()
    ) <= {-1, 0, 1},
    "unpack_ternary": lambda _: torch.equal(
        named("unpack_ternary")(torch.tensor([0b100100], dtype=torch.uint8), (3,)).float(),
        torch.tensor([0.0, 1.0, -1.0]),
    ),
    "TernaryLinear": lambda _: named("TernaryLinear")(784, 256)(torch.randn(2, 784)).shape
    == (2, 256),
    "TernaryResNet18": lambda _: [
        hasattr(named("TernaryResNet18")(10), part)
        for part in ("conv1", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc")
    ] == [True] * 7,
    "ternary_resnet18": lambda _: named("ternary_resnet18")(num_classes=4).fc.out_features == 4,
    "push_to_hub": lambda tmp: on_hub(tmp)[0],
    "load_from_hub": lambda tmp: on_hub(tmp)[1],
    "publish_to_github": released,
    "export_to_onnx": lambda tmp: exported(tmp).exists(),
    "optimize_onnx_model": lambda tmp: named("optimize_onnx_model")(
        exported(tmp), tmp / "small.onnx", optimization_level="all"
    ),
    "export_to_tflite": lambda tmp: named("export_to_tflite")(
        perceptron(), tmp / "model.tflite", input_shape=(1, 6)
    ),
    "TFLiteQuantizationConfig": lambda tmp: named("export_to_tflite")(
        perceptron(), tmp / "model.tflite", input_shape=(1, 6),
        quantization_config=named("TFLiteQuantizationConfig")(
            mode="int8", representative_dataset=[torch.rand(4, 6)],
            inference_input_type="uint8", inference_output_type="uint8",
        ),
    ),
    "optimize_for_mobile": lambda _: named("optimize_for_mobile")(
        perceptron(), input_shape=(1, 6), backend="onnx"
    )(torch.ones(1, 6)).shape == (1, 3),
    "analyze_model_size": lambda _: named("analyze_model_size")(perceptron())["ternary_params"]
    == 48,
    "profile_model": lambda _: named("profile_model")(
        perceptron(), torch.ones(1, 6), num_iterations=2
    )["avg_time_ms"] > 0,
    "compile_model": lambda tmp: named("compile_model")(source(tmp), "mlir").artifact.text(),
    "register_backend": lambda tmp: _registered(tmp) == "LinearClassifier",
    "BackendBase": lambda tmp: _registered(tmp) == "LinearClassifier",
    "FPGABackend": lambda _: fpga(),
    "BackendFactory": lambda _: named("BackendFactory").create("cpu").BACKEND_NAME == "cpu",
    "BackendType": lambda _: {kind.name for kind in named("BackendType")}
    == {"AUTO", "NVIDIA", "AMD", "TPU", "INTEL", "CPU"},
    "OptimizationLevel": lambda _: named("OptimizationLevel").from_string("BALANCED").value == "O2",
    "get_backend": lambda _: named("get_backend")("cpu").device.type == "cpu",
    "get_optimizer": lambda _: isinstance(named("get_optimizer")("cpu"), named("CPUOptimizer")),
    "detect_best_backend": lambda _: named("detect_best_backend")()
    in named("list_available_backends")(),
    "list_available_backends": lambda _: named("list_available_backends")()[0] == "cpu",
    "get_all_backend_info": lambda _: named("get_all_backend_info")()["cpu"]["available"],
    "BaseBackend": lambda _: subclass_of("BaseBackend").prepare_model(perceptron(), "O0")(
        torch.ones(1, 6)
    ).shape == (1, 3),
    "CPUBackend": lambda _: named("CPUBackend")().get_device_info().is_available,
    **{
        name: lambda _, name=name: named(name)().get_device_info().backend
        == name.removesuffix("Backend").lower()
        for name in ABSENT
    },
    **{
        name: lambda _, name=name: optimized(name)
        for name in (
            "BaseOptimizer", "CPUOptimizer", "NVIDIAOptimizer", "AMDOptimizer", "IntelOptimizer"
        )
    },
    "DeviceInfo": lambda _: named("DeviceInfo")(
        "cpu", "cpu", 0, "a", None, 3 << 29, None, True
    ).total_memory_gb == 1.5,
    "OptimizationResult": lambda _: optimized("CPUOptimizer"),
    "KernelPyTorchConfig": lambda _: named("CPUBackend")(
        named("KernelPyTorchConfig")(optimization_level="O1")
    ).prepare_model(perceptron()).level.value == "O1",
    "resolve_torch_device": lambda _: named("resolve_torch_device")("cpu").type == "cpu",
    "configure_torch_backend": lambda _: named("configure_torch_backend")(
        "cpu", torch.device("cpu"), verbose=False
    ) is None,
    "resolve_amp_config": lambda _: named("resolve_amp_config")(torch.device("cpu"))
    == {"enabled": False, "dtype": None, "use_grad_scaler": False},
    "resolve_ort_providers": lambda _: named("resolve_ort_providers")("auto", [CPU, CUDA])
    == [CUDA, CPU],
    "BackendError": lambda _: refused(),
    "LayerConverter": lambda _: converted(),
    "ThresholdCalibrator": lambda _: calibrated(),
    "ArchitectureValidator": lambda _: converted(),
    "SurrogateGradient": lambda _: named("SurrogateGradient")("fast_sigmoid")
    .derivative(torch.zeros(1)).item() == 1,
    "SpikingAttention": lambda _: named("SpikingAttention")("ssa", 2)(
        *[torch.ones(3, 2, 5, 8)] * 3
    )[0].shape == (3, 2, 5, 8),
    "SpikingMLP": lambda _: named("SpikingMLP")([6, 8, 3])(torch.rand(4, 2, 6))[0].shape
    == (4, 2, 3),
    "LifNeuron": lambda _: named("LifNeuron")()(torch.ones(4, 2))[0].sum() > 0,
    "TemporalBatchNorm": lambda _: named("TemporalBatchNorm")(3)(torch.rand(4, 2, 3)).shape
    == (4, 2, 3),
    "SpikeTensor": lambda _: named("SpikeTensor")(
        data=torch.zeros(1, 4, 1, 2, 2), timesteps=4, dt=1.0, metadata={"encoding": "rate"}
    ).timesteps == 4,
    "SpikingConfig": lambda _: _fields(named("SpikingConfig")())
    == (32, 1.0, "LIF", "rate", "fast_sigmoid", None),
    "HybridTrainer": lambda _: trained(),
}  # fmt: skip


def _module_code() -> str:
    program = checked()
    return named("PyTorchCodeGenerator")().generate_module(program.layers[0])


def _registered(tmp: Path) -> Any:
    class Names(named("BackendBase")):
        def generate_code(self, layer_def: Any) -> str:
            return layer_def.name

    named("register_backend")("names", Names)
    try:
        return named("compile_model")(source(tmp), "names")
    finally:
        del compilation._backends["names"]  # pyright: ignore[reportPrivateUsage]


def _fields(config: Any) -> tuple[Any, ...]:
    names = "timesteps threshold neuron_model spike_encoding surrogate_gradient"
    return (*(getattr(config, name) for name in names.split()), config.hardware_constraints)


def spiking_network() -> Any:
    """A network that Loihi's target takes, and trains for it."""
    text = """
    func.func @forward(%x: !spike.train<?x?x4>) -> !spike.train<?x?x3> {
      %w = tensor.constant dense<24> : tensor<4x3xi8>
      %d = spike.delay %x {steps = 1 : i64} : (!spike.train<?x?x4>) -> !spike.train<?x?x4>
      %i = spike.linear %d, %w : !spike.train<?x?x4>, tensor<4x3xi8> -> tensor<?x?x3xi32>
      %s = spike.loihi_lif %i {threshold = 100.0 : f64, du = 4095.0 : f64, dv = 0.0 : f64}
           : (tensor<?x?x3xi32>) -> !spike.train<?x?x3>
      func.return %s : !spike.train<?x?x3>
    }"""
    return parse_module(text), np.ones((10, 2, 4), np.bool_)


def deployed(name: str) -> Any:
    """What each step of a neuromorphic back end gives, by the name of its type."""
    module, train = spiking_network()
    backend = named("Loihi2Backend")()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # Lava need not be here
        compiled = backend.compile(module)
        place = backend.deploy(compiled)
        results = backend.execute(place, train)
    steps = [backend, compiled, place, results, backend.profile(results)]
    (found,) = [step for step in steps if isinstance(step, named(name))]
    return found


def measured() -> Any:
    try:
        return named("PowerMonitor")()
    except BackendError as error:
        return "cannot be measured here" in str(error)


MACHINES: dict[str, Callable[[Path], Any]] = {
    **{
        name: partial(lambda name, tmp: deployed(name), name)
        for name in (
            *("NeuromorphicBackend", "Loihi2Backend", "CompiledModel", "DeployedModel"),
            *("Results", "EnergyMetrics"),
        )
    },
    "SpiNNakerBackend": lambda tmp: named("SpiNNakerBackend")(device="spinnaker1").devices,
    "EdgeBackend": lambda tmp: named("EdgeBackend")(board="riscv32").board == "riscv32",
    "EnergyAnalyzer": lambda tmp: (
        named("EnergyAnalyzer")("loihi2")
        .analyze(spiking_network()[0], [spiking_network()[1]])
        .total.all()
    ),
    "ComparisonFramework": lambda tmp: (
        named("ComparisonFramework")(["loihi2", "gpu"])
        .compare(spiking_network()[0], [spiking_network()[1]])
        .machines
    ),
    "OptimizationEngine": lambda tmp: named("OptimizationEngine")("loihi2").prices,
    "PowerMonitor": lambda tmp: measured(),
}
CALLS.update(MACHINES)


def test_every_name_is_called() -> None:
    assert CALLS.keys() == HOMES.keys()


@pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_name_does_what_it_says(name: str, tmp_path: Path) -> None:
    result = CALLS[name](tmp_path)
    assert result is not None and result is not False


def pruned_and_quantized() -> bool:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    prune(net, pattern="2:4")
    quantize_aware(net, weight_bits=4, activation_bits=4)
    net(torch.rand(4, 8))
    bake(net)
    return int(torch.count_nonzero(net[0].get_parameter("weight"))) <= 32


def distilled() -> bool:
    x, y = torch.rand(40, 6), torch.arange(40) % 3
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    loss = Distillation(copy.deepcopy(net), DistillationLoss())
    settings = TrainingConfig(epochs=1, progress=False)
    return len(Trainer(net, settings, loss=loss).fit((x, y))["loss"]) == 1


def spiking_trained() -> bool:
    x, y = torch.rand(40, 6), torch.arange(40) % 3
    config = named("SpikingConfig")(timesteps=3)
    network = named("SpikingMLP")([6, 8, 3], config, readout="membrane")
    settings = TrainingConfig(epochs=1, progress=False)
    trainer = Trainer(network, settings, spiking=SpikingRun.of(config, decoding="mean"))
    return trainer.fit((x, y))["loss"][0] > 0


def wrong_code() -> bool:
    with pytest.raises(ParameterError):
        named("unpack_ternary")(torch.tensor([0b11], dtype=torch.uint8), (1,))
    return True


def all_problems() -> bool:
    with pytest.raises(TritonError, match=r"(?s)missing.*absent"):
        named("TypeChecker")().check(named("TritonParser")().parse(
            "layer L { fn forward(x: Tensor[N, 2]) -> Tensor[N, 2] "
            "{ let a = missing(x) let b = absent(x) return x } }"
        ))  # fmt: skip
    return True


def sparse() -> bool:
    spikes = named("SpikeTensor")(torch.eye(4).reshape(1, 4, 1, 2, 2))
    return spikes.to_sparse() == spikes and spikes.to_sparse().data.sum() == 4


PARTS: dict[str, Callable[[], bool]] = {
    "four trits a byte": lambda: named("TernaryTensor")(torch.randn(256, 128)).nbytes == 8192,
    "numbers of elements": lambda: named("TernaryTensor")(torch.randn(4, 5)).numel() == 20,
    "the code 11 is refused": wrong_code,
    "an attribute of ternary layers": lambda: set(
        named("TernaryLinear")(9, 4).get_ternary_weights().unique().tolist()
    ) <= {-1, 0, 1},
    "sparse trains": sparse,
    "pruning and quantisation-aware training": pruned_and_quantized,
    "knowledge distillation": distilled,
    "direct training of spiking networks": spiking_trained,
    "all errors of a program at once": all_problems,
    "memory of a device": lambda: named("CPUBackend")().get_device_info().total_memory_mb > 256,
    "providers fall back to the processor": lambda: named("resolve_ort_providers")("auto", [CPU])
    == [CPU],
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_what_has_no_name_works(part: str) -> None:
    assert PARTS[part]()
