"""Who may import whom: arrows run downwards only, no cycles, nothing heavy at load time."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "triton_dsl"

# What each folder may import besides itself; the empty name is the package's own face. Faces at the
# root, `spiking` and others, name what stands in any folder.
ARROWS = {
    "ir": set[str](),
    "dialects": {"ir"},
    "passes": {"ir", "dialects"},
    "lowering": {"ir", "dialects", "passes", "runtime"},
    "runtime": {"ir", "dialects"},
    "tools": {"", "ir", "dialects", "passes", "lowering", "runtime"},
}

# Imported in the function that needs them: `triton-opt --help` costs no more than xdsl-opt's.
HEAVY = {
    "aedat",
    "ai_edge_litert",
    "huggingface_hub",
    "h5py",
    "httpx",
    "matplotlib",
    "nir",
    "onnx",
    "onnxruntime",
    "pandas",
    "scipy",
    "sklearn",
    "tonic",
    "torch",
    "triton",
}

# What is made of torch's own classes and operators cannot be loaded without it, and nothing else
# loads it: `import triton_dsl` stays light.
TORCH_MODULES = {
    f"{PACKAGE}.runtime.{name}"
    for name in (
        "analysis",
        "fake_quantize",
        "pruning",
        *(f"backends.{part}" for part in ("base", "factory", "optimizers", "prepared")),
        *(f"backends.{part}" for part in ("processors", "strategies")),
        "conv2d_operator",
        "cuda",
        "layers",
        "models.bert",
        "models.blocks",
        "models.mobilenet",
        "models.resnet",
        "models.small",
        "models.vision_transformer",
        "native.held",
        "native.torch_conv",
        "native.torch_linear",
        "native.torch_scan",
        "operator_library",
        "operators",
        "packed",
        "packing",
        "profiler",
        "quantization",
        "tensor_file",
        "ternary_operand",
        "spiking.attention",
        "spiking.coding",
        "spiking.delays",
        "spiking.eprop",
        "spiking.event_data",
        "spiking.mlp",
        "spiking.native_steps",
        "spiking.neuron",
        "spiking.neurons",
        "spiking.normalization",
        "spiking.qcfs",
        "spiking.recording",
        "spiking.recurrent",
        "spiking.spike_storage",
        "spiking.spike_tensor",
        "spiking.spikeformer",
        "spiking.stdp",
        "spiking.steps",
        "spiking.surrogate",
        "spiking.threefry",
        "spiking.symbols",
        "spiking.through_time",
        "spiking.training",
        "ternary_tensor",
        "training.adversarial",
        "training.checkpoint",
        "training.data",
        "training.distillation",
        "training.distributed",
        "training.engine",
        "training.global_batch_norm",
        "training.hybrid",
        "training.objectives",
        "training.optimizers",
        "training.privacy",
        "training.random_state",
        "training.run",
        "training.spiking_run",
        "training.trainer",
    )
}

# The same for OpenAI's Triton.
TRITON_MODULES = {f"{PACKAGE}.runtime.cuda_kernels"}


@dataclass(frozen=True)
class Import:
    """One imported module, where it stands and when Python runs it: at load, later, or never."""

    importer: str
    imported: str
    line: int
    at_load: bool
    runs: bool
    relative: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)])


FILES = [*ROOT.glob("*.py"), *(path for name in ARROWS for path in (ROOT / name).rglob("*.py"))]
MODULES = {module_name(path): path for path in sorted(FILES)}

# So are the front end that reads PyTorch's graphs, and who is made of it.
TORCH_MODULES.update(name for name in MODULES if name.startswith(f"{PACKAGE}.lowering.from_torch."))
TORCH_MODULES.update(
    f"{PACKAGE}.lowering.{name}"
    for name in ("sources.torch", "ternarization", "to_native.torch_module")
)


def folder_of(module: str) -> str:
    """The top folder a module of ours stands in; empty for the package itself and other faces."""
    folder = module.split(".")[1] if "." in module else ""
    return folder if folder in ARROWS else ""


def is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def statements(
    node: ast.AST, at_load: bool = True, runs: bool = True
) -> Iterator[tuple[ast.stmt, bool, bool]]:
    """Every import statement below `node`: whether it runs when the file is loaded, or ever."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, at_load, runs
        elif not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            continue  # no statement stands in an expression
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from statements(child, False, runs)
        elif isinstance(child, ast.If) and is_type_checking(child.test):
            yield from statements(ast.Module(child.body, []), False, False)
            yield from statements(ast.Module(child.orelse, []), at_load, runs)
        else:
            yield from statements(child, at_load, runs)


def imports_of(module: str, path: Path) -> Iterator[Import]:
    """Every import of a source file, relative ones resolved."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for statement, at_load, runs in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield Import(module, alias.name, statement.lineno, at_load, runs, False)
        elif isinstance(statement, ast.ImportFrom):
            base = statement.module or ""
            if statement.level:
                parents = package.split(".")[: len(package.split(".")) - statement.level + 1]
                base = ".".join([*parents, base] if base else parents)
            for alias in statement.names:
                below = f"{base}.{alias.name}"
                imported = below if below in MODULES else base
                yield Import(module, imported, statement.lineno, at_load, runs, statement.level > 0)


@cache
def every_import() -> list[Import]:
    """Read when a test asks for it: parsing all files takes seconds, and workers only collect."""
    return [found for module, path in MODULES.items() for found in imports_of(module, path)]


@cache
def ours() -> list[Import]:
    """Those of the package itself."""
    return [found for found in every_import() if found.imported.split(".")[0] == PACKAGE]


def test_arrows_run_downwards() -> None:
    wrong = [
        str(found)
        for found in ours()
        if (source := folder_of(found.importer))
        and (target := folder_of(found.imported)) != source
        and target not in ARROWS[source]
    ]
    assert wrong == []


def test_imports_inside_the_package_are_relative() -> None:
    assert [str(found) for found in ours() if not found.relative] == []


def test_every_relative_import_exists() -> None:
    assert [str(found) for found in ours() if found.imported not in MODULES] == []


def test_no_cycles() -> None:
    """Imports inside functions count: what needs each other belongs together, or apart."""
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in ours():
        if found.runs and found.imported != found.importer:
            graph[found.importer].add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])), pytrace=False)


def test_heavy_libraries_are_imported_in_functions() -> None:
    wrong = [
        str(found)
        for found in every_import()
        if found.at_load
        and (root := found.imported.split(".")[0]) in HEAVY
        and not (root == "torch" and found.importer in TORCH_MODULES)
        and not (root == "triton" and found.importer in TRITON_MODULES)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("library", "modules"), [("torch", TORCH_MODULES), ("triton", TRITON_MODULES)]
)
def test_modules_made_of_libraries_exist(library: str, modules: set[str]) -> None:
    """The exceptions above are needed, each of them."""
    loads = {
        i.importer for i in every_import() if i.at_load and i.imported.split(".")[0] == library
    }
    derived = {i.importer for i in ours() if i.at_load and i.imported in loads}
    assert loads <= modules <= loads | derived


def test_loading_every_module_loads_nothing_heavy() -> None:
    """The same as it happens: also what the libraries we import bring along."""
    modules = [
        module
        for module in MODULES
        if not module.endswith(".__main__") and module not in TORCH_MODULES | TRITON_MODULES
    ]
    program = (
        "import importlib, sys\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        f"print(*sorted({HEAVY!r} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
