"""Rewrites: IR in, IR out, one pass a file.

A file, or the folder of a pass that has several, is named as the pass is on the command line, with
underscores. A pass keeps what the program computes, or says in its docstring what it changes. Not
here: patterns that belong to one operation (`dialects`), and anything that leaves the IR for
another form (`lowering`).

What passes ask of a program stands in `analysis`, what samples tell of it in `calibration`. Passes
that leave the IR for a target's stand with the target; `PASSES` names them too, and `universe`
loads them. The classes here, and some functions, are names of this package, loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.lazy import lazy_names

PASSES = {
    "balance-thresholds": "passes.balance_thresholds:BalanceThresholdsPass",
    "build-network": "passes.network.build_network:BuildNetworkPass",
    "calibrate": "passes.quantize_activations.calibrate:CalibratePass",
    "choose-folding": "lowering.to_verilog.choose_folding:ChooseFoldingPass",
    "convert-ann-to-snn": "passes.convert_ann_to_snn:ConvertAnnToSnnPass",
    "convert-arith-to-llvm": "lowering.to_native.llvm.convert_arith:ConvertArithToLLVMPass",
    "convert-cf-to-llvm": "lowering.to_native.llvm.convert_cf:ConvertCfToLLVMPass",
    "convert-func-to-llvm": "lowering.to_native.llvm.convert_func:ConvertFuncToLLVMPass",
    "convert-math-to-llvm": "lowering.to_native.llvm.convert_math:ConvertMathToLLVMPass",
    "convert-spike-to-loihi": "lowering.to_loihi2.fixed_point:ConvertSpikeToLoihiPass",
    "convert-spike-to-tensor": "passes.convert_spike_to_tensor:ConvertSpikeToTensorPass",
    "convert-tensor-to-linalg": "lowering.to_native.linalg:ConvertTensorToLinalgPass",
    "convert-ternary-to-hw": "lowering.to_verilog.circuit:ConvertTernaryToHwPass",
    "convert-ternary-to-llvm": "lowering.to_native.program:ConvertTernaryToLLVMPass",
    "convert-vector-to-llvm": "lowering.to_native.llvm.convert_vector:ConvertVectorToLLVMPass",
    "decompose": "passes.decompose:DecomposePass",
    "drop-dynamic-rounding": "passes.quantize_activations.drop_dynamic_rounding:"
    "DropDynamicRoundingPass",
    "expand-attention": "passes.expand_attention:ExpandAttentionPass",
    "expose-integers": "passes.quantize_activations.expose_integers:ExposeIntegersPass",
    "expose-logits": "passes.expose_logits:ExposeLogitsPass",
    "expose-parameters": "passes.expose_parameters:ExposeParametersPass",
    "expose-state": "passes.expose_state:ExposeStatePass",
    "expose-trains": "passes.expose_trains:ExposeTrainsPass",
    "fold-constants": "passes.fold_constants:FoldConstantsPass",
    "free-batch": "passes.free_batch:FreeBatchPass",
    "fuse-elementwise": "passes.fuse_elementwise:FuseElementwisePass",
    "fuse-linear": "passes.fuse_linear:FuseLinearPass",
    "fuse-pools": "passes.fuse_pools:FusePoolsPass",
    "fuse-spike": "passes.fuse_spike:FuseSpikePass",
    "fuse-steps": "passes.fuse_steps:FuseStepsPass",
    "hoist-synapses": "passes.hoist_synapses:HoistSynapsesPass",
    "infer-shapes": "passes.infer_shapes:InferShapesPass",
    "inline-spike-layers": "passes.inline_spike_layers:InlineSpikeLayersPass",
    "lower-network": "passes.network.lower_network:LowerNetworkPass",
    "lower-recurrent": "passes.lower_recurrent:LowerRecurrentPass",
    "merge-rescaling": "passes.requantize.merge_rescaling:MergeRescalingPass",
    "multiply-integers": "lowering.to_native.multiply_integers:MultiplyIntegersPass",
    "normalize-weights": "passes.normalize_weights:NormalizeWeightsPass",
    "optimize-adder-graph": "passes.adder_graph.optimize_adder_graph:OptimizeAdderGraphPass",
    "quantize-activations": "passes.quantize_activations.quantize_activations:"
    "QuantizeActivationsPass",
    "quantize-neurons": "passes.quantize_neurons.quantize_neurons:QuantizeNeuronsPass",
    "quantize-spike": "passes.quantize_neurons.quantize_spike:QuantizeSpikePass",
    "recognize-quantizers": "passes.quantize_activations.recognize_quantizers:"
    "RecognizeQuantizersPass",
    "rescale-in-floats": "lowering.to_native.rescale_in_floats:RescaleInFloatsPass",
    "requantize": "passes.requantize.requantize:RequantizePass",
    "skip-silent": "passes.skip_zeros.skip_silent:SkipSilentPass",
    "skip-zeros": "passes.skip_zeros.skip_zeros:SkipZerosPass",
    "split-layers": "passes.split_layers:SplitLayersPass",
    "split-synapses": "passes.split_synapses:SplitSynapsesPass",
    "streamline": "passes.streamline.streamline:StreamlinePass",
    "ternarize": "passes.ternarize.ternarize:TernarizePass",
}
"""Every pass of this project by name: its module below the package, and its class.

Data and no imports, so that passes of targets (`lowering`) are found here too. xDSL's own
(`canonicalize`, `cse`, `dce`, …) are not among them: the command line adds those.
"""

if TYPE_CHECKING:
    from .adder_graph import InputRange as InputRange
    from .adder_graph import optimize_matrix as optimize_matrix
    from .adder_graph.optimize_adder_graph import OptimizeAdderGraphPass as OptimizeAdderGraphPass
    from .balance_thresholds import BalanceThresholdsPass as BalanceThresholdsPass
    from .calibration.grids import Grid as Grid
    from .convert_ann_to_snn import ConvertAnnToSnnPass as ConvertAnnToSnnPass
    from .convert_spike_to_tensor import ConvertSpikeToTensorPass as ConvertSpikeToTensorPass
    from .decompose import DecomposePass as DecomposePass
    from .expand_attention import ExpandAttentionPass as ExpandAttentionPass
    from .expose_logits import ExposeLogitsPass as ExposeLogitsPass
    from .expose_parameters import ExposeParametersPass as ExposeParametersPass
    from .expose_state import ExposeStatePass as ExposeStatePass
    from .expose_trains import ExposeTrainsPass as ExposeTrainsPass
    from .fold_constants import FoldConstantsPass as FoldConstantsPass
    from .free_batch import FreeBatchPass as FreeBatchPass
    from .fuse_elementwise import FuseElementwisePass as FuseElementwisePass
    from .fuse_linear import FuseLinearPass as FuseLinearPass
    from .fuse_pools import FusePoolsPass as FusePoolsPass
    from .fuse_spike import FuseSpikePass as FuseSpikePass
    from .fuse_steps import FuseStepsPass as FuseStepsPass
    from .hoist_synapses import HoistSynapsesPass as HoistSynapsesPass
    from .infer_shapes import InferShapesPass as InferShapesPass
    from .inline_spike_layers import InlineSpikeLayersPass as InlineSpikeLayersPass
    from .lower_recurrent import LowerRecurrentPass as LowerRecurrentPass
    from .network.build_network import BuildNetworkPass as BuildNetworkPass
    from .network.lower_network import LowerNetworkPass as LowerNetworkPass
    from .normalize_weights import NormalizeWeightsPass as NormalizeWeightsPass
    from .quantize_activations.calibrate import CalibratePass as CalibratePass
    from .quantize_activations.calibrate import calibrate as calibrate
    from .quantize_activations.drop_dynamic_rounding import (
        DropDynamicRoundingPass as DropDynamicRoundingPass,
    )
    from .quantize_activations.expose_integers import ExposeIntegersPass as ExposeIntegersPass
    from .quantize_activations.quantize_activations import (
        QuantizeActivationsPass as QuantizeActivationsPass,
    )
    from .quantize_activations.quantize_activations import quantize as quantize
    from .quantize_activations.quantize_activations import recorded_ranges as recorded_ranges
    from .quantize_activations.recognize_quantizers import (
        RecognizeQuantizersPass as RecognizeQuantizersPass,
    )
    from .quantize_neurons.quantize_neurons import QuantizeNeuronsPass as QuantizeNeuronsPass
    from .quantize_neurons.quantize_spike import QuantizeSpikePass as QuantizeSpikePass
    from .requantize.merge_rescaling import MergeRescalingPass as MergeRescalingPass
    from .requantize.requantize import RequantizePass as RequantizePass
    from .skip_zeros.skip_silent import SkipSilentPass as SkipSilentPass
    from .skip_zeros.skip_zeros import SkipZerosPass as SkipZerosPass
    from .split_layers import SplitLayersPass as SplitLayersPass
    from .split_synapses import SplitSynapsesPass as SplitSynapsesPass
    from .streamline.streamline import StreamlinePass as StreamlinePass
    from .ternarize.ternarize import TernarizePass as TernarizePass
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
