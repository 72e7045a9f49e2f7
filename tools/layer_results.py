"""How layers of a circuit are compared with the interpreter, and what became of each.

Not here: the comparison (`layer_verification`), and tables (`commands.verify`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .layer_proofs import Proof

VECTORS = 10_000
"""Random vectors for a layer, where nothing else is said."""


@dataclass(frozen=True)
class LayerChecks:
    """How layers are checked.

    Attributes:
        vectors: random ones for a layer, the corners of its bounds among them. Beats: an image of
            1,024 positions counts as so many.
        seed: of them.
        simulator: see `runtime.verilog.simulate`; by default the one that takes less time.
        jobs: simulations at a time; by default one a core.
        prove: seconds for a proof of each layer; none without.
        with_samples: whether the values of samples go through the circuits too.
    """

    vectors: int = VECTORS
    seed: int = 0
    simulator: str | None = None
    jobs: int | None = None
    prove: float | None = None
    with_samples: bool = True


@dataclass(frozen=True)
class Difference:
    """The first vector whose result is not the interpreter's.

    Attributes:
        vector: its number.
        kind: `least`, `largest`, `random` or `sample`.
        output: the name of the result.
        element: the first one that differs, its place in a frame.
        expected: what the interpreter gives there.
        got: what the circuit gives; `None` for undefined bits.
        vectors: how many vectors differ.
        inputs: the vector, row-major, one list an input; empty if it is longer than 4,096 numbers.
    """

    vector: int
    kind: str
    output: str
    element: tuple[int, ...]
    expected: int
    got: int | None
    vectors: int
    inputs: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        place = ", ".join(map(str, self.element))
        got = "undefined bits" if self.got is None else self.got
        return (
            f"vector {self.vector} ({self.kind}), {self.output}[{place}]: expected "
            f"{self.expected}, got {got}; {self.vectors:,} differ"
        )


@dataclass(frozen=True)
class LayerResult:
    """What became of one layer.

    Attributes:
        layer: its name; `all together` for the whole circuit.
        ops: what it does.
        vectors: frames that went through the circuit, samples among them.
        samples: those that come from samples of the program.
        beats: of a frame, going in.
        latency: in cycles.
        engine: the simulator.
        difference: the first one; `None` if all results are equal.
        complaint: what else is wrong: beats that never came, another latency than stated, a circuit
            that cannot be built.
        proof: of equality for every input, where it was asked for.
        seconds: for vectors and simulation.
    """

    layer: str
    ops: tuple[str, ...]
    vectors: int
    samples: int
    beats: int
    latency: int
    engine: str
    difference: Difference | None
    complaint: str | None
    proof: Proof | None
    seconds: float

    @property
    def fault(self) -> str:
        """What is wrong, in words; empty if nothing is."""
        wrong = [str(each) for each in (self.difference, self.complaint) if each is not None]
        if not wrong and not self.agrees:
            return "the proof found an input with another result"
        return "; ".join(wrong)

    @property
    def agrees(self) -> bool:
        """Whether nothing is wrong."""
        refuted = self.proof is not None and self.proof.equal is False
        return self.difference is None and self.complaint is None and not refuted

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return asdict(self) | {"agrees": self.agrees}


@dataclass(frozen=True)
class LayerReport:
    """All layers of a program.

    Attributes:
        layers: in order.
        chain: whether the interpreter gives for the layers, one after another, what it gives for
            the program as it was written, bit for bit or, of floats, within the tolerances of
            `verify`: the passes before the cut are right for these samples.
        samples: of that.
        whole: the whole circuit, simulated.
    """

    layers: tuple[LayerResult, ...]
    chain: bool
    samples: int
    whole: LayerResult

    @property
    def first_wrong(self) -> LayerResult | None:
        """The first layer with something wrong, or the whole circuit."""
        rows = (*self.layers, self.whole)
        return next((layer for layer in rows if not layer.agrees), None)

    @property
    def agrees(self) -> bool:
        """Whether nothing is wrong."""
        return self.chain and self.first_wrong is None

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        wrong = self.first_wrong
        return {
            "layers": [layer.to_dict() for layer in self.layers],
            "chain": self.chain,
            "samples": self.samples,
            "whole": self.whole.to_dict(),
            "agrees": self.agrees,
            "first_wrong": None if wrong is None else wrong.layer,
        }
