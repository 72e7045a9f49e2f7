"""Did a change alter any artefact? A table of the SHA-256 of everything that is compiled.

    python tests/artefacts.py write before.json      # at the commit before
    python tests/artefacts.py compare before.json    # after the change: exit code 1 if any differs
    python tests/artefacts.py compare before.json after.json    # two tables, nothing is compiled

Compiled for every target, through the command lines alone, are each function of tests/filecheck
(as `@forward` of a module of its own), each layer of examples/ and, with `--models FOLDER`, every
model of a folder. For each input the table has its own hash, that of its IR (`ir`), what `triton
info` says of it, and for each target the files and the IR after each stage with the manifest
(`onnx`, `onnx stages`). For each file of tests/filecheck it has the output of the first command of
each RUN line. A refusal stands there with its message.

`--keep FOLDER` keeps what was hashed, for `diff -r`. `--quick` leaves out large models,
circuits of models and two of three functions, `--only TEXT` every input without that text in its
name; what was left out is not compared. A quick run compares with a full table too.

Not for judging results: that an artefact is right is shown by the other tests.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILECHECK = ROOT / "tests" / "filecheck"

TARGETS = {
    "c": ("", "model"),
    "mlir": ("", "model.mlir"),
    "native": ("{cpu=x86-64-v3 triple=x86_64-linux-gnu form=llvm-ir}", "model.ll"),
    "nir": ("", "model.nir"),
    "onnx": ("{self-check=false}", "model.onnx"),
    "pytorch": ("", "model.py"),
    "spinnaker": ("", "model"),
    "tflite": ("{self-check=false}", "model.tflite"),
    "verilog": ("", "model"),
}
"""Options and name of the artefact: for one processor on all machines, and no engine is run."""

MODELS = (".tri", ".mlir", ".nir", ".onnx", ".tflite")
QUICK_BYTES = 50_000
QUICK_PART = 3
"""The size from which on `--quick` leaves a model out; one of how many functions it compiles."""

SKIPPED = "skipped: "
"""How a result begins that cannot be compared."""

Table = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Input:
    """Something to compile: a file, under a name that does not depend on where it stands.

    Attributes:
        text: the program, where it is a part of the file.
        layer: the layer of a `.tri` program.
        run: whether it is a file with RUN lines, which are run; nothing is compiled then.
        model: whether it is one of a user's models.
    """

    name: str
    path: Path
    text: str | None = None
    layer: str | None = None
    run: bool = False
    model: bool = False

    def content(self) -> bytes:
        return self.path.read_bytes() if self.text is None else self.text.encode()


@dataclass(frozen=True)
class Limits:
    """What is left out.

    Attributes:
        verilog: size in bytes from which on no circuit is made of a model.
        size: size in bytes from which on a model is left out.
        seconds: of the processor that one command may take.
        part: of how many functions of tests/filecheck one is compiled.
    """

    verilog: int
    size: int
    seconds: int
    part: int = 1

    def reason(self, task: Input, content: bytes) -> str | None:
        """Why an input is left out, if it is."""
        if task.model and len(content) > self.size:
            return f"{len(content)} bytes"
        # By its name: the same ones in each run, others of each kind.
        if task.text is not None and zlib.crc32(task.name.encode()) % self.part:
            return f"one of {self.part} functions is compiled"
        return None


class OutOfTime(BaseException):
    """A command took too long."""


def inputs(models: Path | None) -> Iterator[Input]:
    """Everything to compile."""
    for path in sorted([*FILECHECK.rglob("*.mlir"), *FILECHECK.rglob("*.tri")]):
        if "Inputs" in path.relative_to(FILECHECK).parts:
            continue
        name = path.relative_to(ROOT / "tests").as_posix()
        yield Input(name, path, run=True)
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".tri":
            yield from layers(name, path, text)
            continue
        for function, module in functions(text):
            yield Input(f"{name} {function}", path, module)
    for path in sorted((ROOT / "examples").rglob("*.tri")):
        yield from layers(path.relative_to(ROOT).as_posix(), path, path.read_text("utf-8"))
    if models is not None:
        for path in sorted(models.rglob("*")):
            if path.suffix in MODELS and path.is_file():
                yield Input(f"models/{path.relative_to(models).as_posix()}", path, model=True)


def layers(name: str, path: Path, text: str) -> Iterator[Input]:
    """Each layer of a `.tri` program."""
    for layer in re.findall(r"^layer (\w+)", text, re.MULTILINE):
        yield Input(f"{name} {layer}", path, layer=layer)


FUNCTION = re.compile(r"^( *)func\.func (?:public )?@([\w$.-]+).*?^\1\}[^\n]*$", re.M | re.S)


def functions(text: str) -> Iterator[tuple[str, str]]:
    """Each function of a file of IR, with the text of a module in which it is `@forward`.

    Comments are left out, so that they can change. Other functions stay where it names them.
    """
    seen: dict[str, int] = {}
    for part in re.split(r"^// -----.*$", text, flags=re.MULTILINE):
        lines = [re.sub(r"\s*// .*", "", line) for line in part.splitlines()]
        plain = "\n".join(line for line in lines if line.strip()) + "\n"
        found = list(FUNCTION.finditer(plain))
        for one in found:
            name = one[2]
            module = plain
            for other in reversed(found):
                used = re.search(rf"@{re.escape(other[2])}(?![\w$.-])", one[0]) is not None
                if other is not one and (other[2] == "forward" or not used):
                    module = module[: other.start()] + module[other.end() :]
            module = re.sub(rf"@{re.escape(name)}(?![\w$.-])", "@forward", module)
            seen[name] = seen.get(name, 0) + 1
            yield (f"@{name}" if seen[name] == 1 else f"@{name} {seen[name]}"), module


def results(task: Input, limits: Limits, keep: Path | None) -> dict[str, str]:
    """The entries of the table for an input."""
    content = task.content()
    entries = {"input": digest(content)}
    if (reason := limits.reason(task, content)) is not None:
        return entries | {"ir": SKIPPED + reason}
    with tempfile.TemporaryDirectory(prefix="artefacts-") as scratch, chdir(scratch):
        work, kept = Path("work"), Path("results")
        work.mkdir()
        kept.mkdir()
        # Under a relative name: messages and locations are the same wherever this runs.
        (work / task.path.name).write_bytes(content)
        if (task.path.parent / "Inputs").is_dir():
            shutil.copytree(task.path.parent / "Inputs", work / "Inputs")
        with chdir(work):
            recorder = Recorder(Path("..") / kept, limits.seconds)
            if task.run:
                recorder.run_lines(task.path.name, content.decode())
            else:
                recorder.compile(task, limits)
        if keep is not None:
            place = keep / re.sub(r"[^\w./-]+", "_", task.name)
            shutil.copytree(kept, place, dirs_exist_ok=True)
    return entries | recorder.entries


class Recorder:
    """Runs commands in the current folder and notes what they leave.

    Attributes:
        kept: the folder for everything that is hashed.
        entries: hash or message by name.
    """

    def __init__(self, kept: Path, seconds: int) -> None:
        self.kept = kept
        self.entries: dict[str, str] = {}
        self._seconds = seconds

    def run_lines(self, name: str, text: str) -> None:
        """The first command of each pipeline of the RUN lines, where it is one of ours."""
        from test_filecheck import TOOLS, divide, run_lines, split

        ours = set(TOOLS) - {"filecheck"}
        for number, line in enumerate(run_lines(text), start=1):
            known = {"%s": shlex.quote(name), "%S": ".", "%t": "output.tmp"}
            command = re.sub("%[sSt]", lambda found, known=known: known[found[0]], line)
            for pipeline in divide(split(command), "&&"):
                words = next(divide(pipeline, "|"))
                tool = words[1] if words[0] == "not" else words[0]
                key = f"{number} {' '.join(pipeline[: len(words)])}"
                if "--mlir-timing" in words:
                    self.entries[key] = f"{SKIPPED}it prints times"
                elif tool in ours:
                    self.command(key, words)

    def compile(self, task: Input, limits: Limits) -> None:
        """The IR, and the artefact of every target; nothing more where there is no IR."""
        name = task.path.name
        read = [name, *(["--layer", task.layer] if task.layer else [])]
        information = self.command("info", ["triton", "info", *read, "--json"])
        weights = name.endswith((".tri", ".mlir")) and save_weights(information)
        read += ["-w", "weights.safetensors"] if weights else []
        if self.command("ir", ["triton-translate", *read, "--import"]) is None:
            if information is None:
                del self.entries["info"]  # the same message
            return
        for target, (options, output) in TARGETS.items():
            size = task.path.stat().st_size
            if task.model and target == "verilog" and size > limits.verilog:
                self.entries[target] = f"{SKIPPED}{size} bytes are too many for a circuit"
                continue
            words = ["triton", "compile", *read, "-t", target + options]
            words += ["-o", f"{target}/{output}"]
            # Circuits of whole models are far larger as IR than as files.
            stages = not (task.model and target == "verilog")
            words += ["--dump-stages", f"{target} stages"] if stages else []
            Path(target).mkdir()
            self.command(target, words, Path(target))
            if stages and Path(f"{target} stages").is_dir():
                self.folder(f"{target} stages", Path(f"{target} stages"))

    def command(self, key: str, words: Sequence[str], folder: Path | None = None) -> str | None:
        """Run a command and note its output, or the files of `folder`; the output if it ran."""
        from test_filecheck import run_command

        late: list[int] = []

        def stop(*_: object) -> None:
            late.append(1)
            raise OutOfTime

        # Of the processor, so that what is left out does not hang on what else runs.
        signal.signal(signal.SIGVTALRM, stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds)
        done = None
        try:
            done = run_command(words, b"", no_tool)
        except OutOfTime:  # between two Python functions of ours
            pass
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if late or done is None:
            self.entries[key] = f"{SKIPPED}more than {self._seconds} s"
            return None
        if done.code or words[0] == "not":
            message = (done.stderr + done.stdout).decode(errors="replace")
            self.entries[key] = f"exit code {done.code}: {shortened(message)}"
            return None
        if folder is not None:
            self.folder(key, folder)
        else:
            output = done.stdout
            if ">" in words:
                output += Path(words[words.index(">") + 1]).read_bytes()
            (self.kept / re.sub(r"[^\w.-]+", "_", key)[:100]).write_bytes(output)
            self.entries[key] = digest(output)
        return done.stdout.decode(errors="replace")

    def folder(self, key: str, folder: Path) -> None:
        """Note the files of a folder; the manifest, which tells of the way, with the stages."""
        for manifest in list(folder.rglob("*.manifest.json")):
            stages = Path(f"{key} stages")
            stages.mkdir(exist_ok=True)
            manifest.rename(stages / manifest.name)
        shutil.copytree(folder, self.kept / key.replace(" ", "_"))
        sha = hashlib.sha256()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            sha.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
            sha.update(content)
        self.entries[key] = sha.hexdigest()


def save_weights(information: str | None) -> bool:
    """Write weights for the parameters that `triton info` tells of; whether there are any.

    Each value depends on the name and the place in the parameter alone.
    """
    import numpy as np
    from safetensors.numpy import save_file

    listed: list[dict[str, Any]] = json.loads(information or "{}").get("parameters", [])
    arrays: dict[str, Any] = {}
    for parameter in listed:
        generator = np.random.default_rng(zlib.crc32(parameter["name"].encode()))
        *sizes, element = parameter["type"].removeprefix("tensor<").removesuffix(">").split("x")
        shape = [int(size) for size in sizes]
        if parameter["ternary"]:
            arrays[parameter["name"]] = generator.integers(-1, 2, shape, np.int8)
        elif element in ("f16", "f32", "f64"):
            values = generator.uniform(0.1 if "var" in parameter["name"] else -1, 1, shape)
            arrays[parameter["name"]] = values.astype(f"float{element[1:]}")
        elif re.fullmatch("i(8|16|32|64)", element):
            arrays[parameter["name"]] = generator.integers(-9, 10, shape).astype(
                f"int{element[1:]}"
            )
    if arrays:
        save_file(arrays, "weights.safetensors")
    return bool(arrays)


def no_tool(name: str, hint: str) -> str:
    """Programs that are not ours are never run here."""
    raise ValueError(f"{name}: {hint}")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def shortened(message: str, limit: int = 600) -> str:
    """A message on one line without lines of source code; the end of a long one as its hash."""
    trace = r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*"
    message = re.sub(trace, "", message, flags=re.MULTILINE)
    line = " | ".join(message.split("\n")).strip(" |")
    return line if len(line) <= limit else f"{line[:limit]}… {digest(line.encode())}"


def prepare_worker() -> None:
    """What engines print past Python would break the progress bar."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def compute(tasks: Sequence[Input], limits: Limits, jobs: int, keep: Path | None) -> Table:
    """The table, computed by `jobs` processes; progress on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    table: Table = {}
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True),
    )  # fmt: skip
    context = multiprocessing.get_context("spawn")
    with bar, ProcessPoolExecutor(jobs, context, prepare_worker) as pool:
        row = bar.add_task("inputs", total=len(tasks))
        # Models first: they take longest.
        ordered = sorted(tasks, key=lambda task: not task.model)
        running = {pool.submit(results, task, limits, keep): task for task in ordered}
        for done in as_completed(running):
            table[running[done].name] = done.result()
            bar.advance(row)
    return {name: dict(sorted(table[name].items())) for name in sorted(table)}


def differences(before: Table, after: Table) -> tuple[list[str], dict[str, int]]:
    """A line for each result that is not the same in two tables, and how many there are."""
    lines: list[str] = []
    kinds = ("same", "different", "new", "gone", "not compared")
    counts: dict[str, int] = {kind: 0 for kind in kinds}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        changed = old and new and old.get("input") != new.get("input")
        left_out = any(found.get("ir", "").startswith(SKIPPED) for found in (old, new))
        for key in sorted((old.keys() | new.keys()) - {"input"}):
            was, now = old.get(key), new.get(key)
            if left_out or any((value or "").startswith(SKIPPED) for value in (was, now)):
                counts["not compared"] += 1
                continue
            if was == now:
                counts["same"] += 1
                continue
            kind = "new" if was is None else "gone" if now is None else "different"
            counts[kind] += 1
            lines.append(f"{kind}: {name}: {key}{' (of another input)' if changed else ''}")
            if kind == "different" and (not is_hash(was) or not is_hash(now)):
                lines += [f"  - {was}", f"  + {now}"]
    return lines, counts


def is_hash(result: str | None) -> bool:
    return result is not None and re.fullmatch("[0-9a-f]{64}", result) is not None


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    limits = Limits(arguments.verilog_limit, arguments.size_limit, arguments.seconds)
    if arguments.quick:
        limits = Limits(0, min(QUICK_BYTES, limits.size), min(20, limits.seconds), QUICK_PART)
    wanted = [task for task in inputs(arguments.models) if arguments.only in task.name]
    before: Table = {}
    if arguments.action == "compare":
        if not arguments.file.is_file():
            parser().error(f"there is no table '{arguments.file}'; 'write' makes one")
        before = json.loads(arguments.file.read_text(encoding="utf-8"))
    if arguments.action == "compare" and arguments.after is not None:
        table: Table = json.loads(arguments.after.read_text(encoding="utf-8"))
    else:
        os.environ.update(OMP_NUM_THREADS="1", COLUMNS="160", NO_COLOR="1")
        os.environ.setdefault("TRITON_DSL_CACHE", str(ROOT / "build" / "kernels"))
        table = compute(wanted, limits, arguments.jobs, arguments.keep)
    if arguments.action == "write":
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        arguments.file.write_text(text, encoding="utf-8")
        print(f"{arguments.file}: {len(table)} inputs, {sum(map(len, table.values()))} results")
        return 0
    before = {
        name: entries
        for name, entries in before.items()
        if name in table
        or (arguments.only in name and (arguments.models or not name.startswith("models/")))
    }
    lines, counts = differences(before, table)
    print("\n".join([*lines, ", ".join(f"{count} {kind}" for kind, count in counts.items())]))
    return int(counts["different"] + counts["gone"] > 0)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="artefacts.py", description="Did a change alter any artefact?"
    )
    made.add_argument("action", choices=["write", "compare"])
    made.add_argument("file", type=Path, help="the table")
    made.add_argument("after", type=Path, nargs="?", help="a second one to compare with")
    made.add_argument(
        "--models",
        type=lambda text: Path(text).resolve(),
        metavar="FOLDER",
        help="compile its models too",
    )
    made.add_argument("--quick", action="store_true", help="fewer functions, no large models")
    made.add_argument("--only", default="", metavar="TEXT", help="inputs with it in their names")
    made.add_argument(
        "--keep",
        type=lambda text: Path(text).resolve(),
        metavar="FOLDER",
        help="keep what was hashed there",
    )
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    made.add_argument("--verilog-limit", type=int, default=300_000, metavar="BYTES",
                      help="size of models of which circuits are made")  # fmt: skip
    made.add_argument("--size-limit", type=int, default=50_000_000, metavar="BYTES",
                      help="size of models that are compiled")  # fmt: skip
    made.add_argument("--seconds", type=int, default=60, help="of the processor for a command")
    return made


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / ".types"))  # the package of this checkout, whatever is installed
    sys.exit(main())
