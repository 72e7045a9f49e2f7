"""The neurons of a network: populations, and the probes that watch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FloatAttr,
    StringAttr,
    TensorType,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.definition import irdl_op_definition
from ...ir.neurons.arithmetic import COMPARISONS, RESETS
from ..inference import Value, tensor_type
from ..shapes import broadcasts_to, ints, show_shape
from .models import FIRING_MODELS, MODELS, SPIKING_MODELS, least_time
from .network import NetworkOp, NodeOp, PartOp, check_shape, lookup, one_of

VARIABLES = ("output", "v")

_INTEGRATORS = ("leaky_integrator", "cuba_integrator", "integrator")


@irdl_op_definition
class PopulationOp(NodeOp):
    """Neurons of one model: NIR's node, PyNN's Population.

    `model` and its `parameters`, in NIR's names, with times in seconds, resistances relative:
    those of `models.MODELS`: `lif` (tau, r, v_leak, v_threshold, v_reset), `integrate_fire`,
    `cuba_lif`, `adaptive_lif`, `leaky_integrator`, `cuba_integrator`, `integrator` (r),
    `sigma_delta`, `threshold` (threshold), and `relay`, which hands on the sum of what it receives.
    Names in `each` take the operands in their order, one f32 or f64 for each neuron. `compare` and,
    but for `threshold`, `reset` of models that spike are those of `spike.lif`, by default NIR's;
    `sigma_delta` sends changes of the threshold or more, as Lava's.

        spike.population @out {model = "lif", shape = array<i64: 10>,
            parameters = {tau = 2.000000e-02 : f64, v_threshold = 5.000000e-01 : f64}}
    """

    name = "spike.population"

    values = var_operand_def(TensorType)
    model = prop_def(StringAttr)
    parameters = prop_def(DictionaryAttr, default_value=DictionaryAttr({}))
    each = prop_def(ArrayAttr[StringAttr], default_value=ArrayAttr[StringAttr]([]))
    compare = prop_def(StringAttr, default_value=StringAttr("gt"))
    reset = prop_def(StringAttr, default_value=StringAttr("to_value"))

    assembly_format = "$sym_name (`values` `(` $values^ `:` type($values) `)`)? attr-dict"

    def __init__(
        self,
        name: str,
        model: str,
        shape: Sequence[int],
        parameters: Mapping[str, float | Value] | None = None,
        *,
        compare: str = "gt",
        reset: str = "to_value",
    ) -> None:
        arrays = parameters or {}
        each = {n: v for n, v in arrays.items() if isinstance(v, SSAValue | Operation)}
        numbers = {n: FloatAttr(v, f64) for n, v in arrays.items() if isinstance(v, int | float)}
        IRDLOperation.__init__(
            self,
            operands=[list(each.values())],
            properties={
                "sym_name": StringAttr(name),
                "model": StringAttr(model),
                "shape": ints(shape),
                "parameters": DictionaryAttr(numbers),
                "each": ArrayAttr([StringAttr(n) for n in each]),
                "compare": StringAttr(compare),
                "reset": StringAttr(reset),
            },
        )

    def values_by_name(self) -> dict[str, SSAValue]:
        """The parameters that each neuron has its own of."""
        return {name.data: v for name, v in zip(self.each.data, self.values, strict=True)}

    def spikes(self) -> bool:
        """Whether it gives spikes; else graded ones."""
        return self.model.data in SPIKING_MODELS

    def verify_(self) -> None:
        check_shape(self, self.sym_name.data, self.shape)
        model, where = self.model.data, f"'{self.name}' @{self.sym_name.data}"
        one_of(self, "model", model, tuple(MODELS))
        one_of(self, "compare", self.compare.data, COMPARISONS)
        one_of(self, "reset", self.reset.data, RESETS)
        for name, default, models in (
            ("compare", "gt", SPIKING_MODELS),
            ("reset", "to_value", FIRING_MODELS),
        ):
            if getattr(self, name).data != default and model not in models:
                raise VerifyException(
                    f"{where} expects {name} with {', '.join(models)} alone, got '{model}'"
                )
        if len(self.each.data) != len(self.values):
            raise VerifyException(
                f"{where} expects a name in each for every operand, got {len(self.each.data)} "
                f"names and {len(self.values)} operands"
            )
        each, numbers = self.values_by_name(), self.parameters.data
        for name in (*numbers, *each):
            if name not in MODELS[model]:
                known = ", ".join(MODELS[model]) or "none"
                raise VerifyException(
                    f"{where} has a parameter '{name}', the model '{model}' has {known}"
                )
        if set(each) & set(numbers) or len(each) != len(self.each.data):
            raise VerifyException(f"{where} expects every parameter once")
        for name, spec in MODELS[model].items():
            if name not in each and name not in numbers and spec.default is None:
                raise VerifyException(f"{where} expects the parameter '{name}'")
        for name, number in numbers.items():
            self._check_number(where, name, number)
        for name, value in each.items():
            self._check_values(where, name, value)

    def _check_number(self, where: str, name: str, number: Attribute) -> None:
        value = number.value.data if isinstance(number, FloatAttr) and number.type == f64 else None
        if value is None or not isfinite(value):
            raise VerifyException(f"{where} expects {name} as a finite f64, got {number}")
        if name.startswith("tau") and value < self.shortest_time():
            raise VerifyException(
                f"{where} expects {name} of at least {self.shortest_time():g} s, got {value:g}"
            )

    def _check_values(self, where: str, name: str, value: SSAValue) -> None:
        type, shape = tensor_type(value), tuple(self.shape.get_values())
        if type.element_type not in (f32, f64) or not broadcasts_to(type.get_shape(), shape):
            raise VerifyException(
                f"{where} expects {name} of f32 or f64 that broadcasts to {show_shape(shape)}, "
                f"got {type}"
            )

    def shortest_time(self) -> float:
        """The least time constant: that of `least_time` in Euler steps."""
        network = self.parent_op()
        if isinstance(network, NetworkOp) and network.integration.data == "euler":
            return least_time(network.dt.value.data)
        return 5e-324


@irdl_op_definition
class ProbeOp(PartOp):
    """What is recorded of a population: its `output`, or the potential `v` after each step.

    An output of the network (NIR's Output, a recording of PyNN).

        spike.probe @potential @out {variable = "v"}
    """

    name = "spike.probe"

    target = prop_def(FlatSymbolRefAttrConstr)
    variable = prop_def(StringAttr, default_value=StringAttr("output"))

    assembly_format = "$sym_name $target attr-dict"

    def population(self) -> PopulationOp:
        """The population that it watches.

        Raises:
            VerifyException: there is none of that name.
        """
        target = lookup(self, self.target, (PopulationOp,), "a population")
        assert isinstance(target, PopulationOp)
        return target

    def verify_(self) -> None:
        network = self.parent_op()
        if not isinstance(network, NetworkOp):
            return
        where, variable = f"'{self.name}' @{self.sym_name.data}", self.variable.data
        one_of(self, "variable", variable, VARIABLES)
        model = self.population().model.data
        if variable == "v" and model not in (*FIRING_MODELS, *_INTEGRATORS):
            raise VerifyException(f"{where} watches 'v', the model '{model}' has none")
        for other in network.body.block.ops:
            if other is self:
                break
            if isinstance(other, ProbeOp) and (other.target, other.variable) == (
                self.target,
                self.variable,
            ):
                raise VerifyException(
                    f"{where} watches the same as @{other.sym_name.data}: "
                    f"'{variable}' of {self.target}"
                )
