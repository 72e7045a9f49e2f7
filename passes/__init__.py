"""Rewrites: IR in, IR out, one pass a file.

A file is named as its pass is on the command line, with underscores. A pass keeps what the program
computes, or says in its docstring what it changes. Not here: patterns that belong to one operation
(`dialects`), and anything that leaves the IR for another form (`lowering`).

Files that hold no pass serve several: `compile_time` (values known before the program runs),
`replacement` (one op in the place of another), `layers` (products with weights, seen alike),
`channel_vectors` (arithmetic on scales and biases), `prunable`, `channel_paths`, `channel_edges`
(what is left of layers without their zeros), `bias_correction` (mean results as they were),
`compensated_rounding`, `compensated_ternarization`
(trits that make up for each other's errors), `silence` (neurons that never fire), `integer_neurons`
(neurons on whole numbers), `integer_currents`, `integer_products`, `integer_forms`,
`integer_emitter`, `requantize_fusion` (float arithmetic as integers), `level_functions`,
`level_products`, `level_grids`, `level_results`, `input_quantizers` (floats with few values),
`integer_weights`, `dense_products` (float weights as integers), `rescaling_fit`,
`integer_pipeline` (how a float network becomes integer), `network_ops` (what a network is made
of, as ops), `network_parts`, `network_neurons`, `network_writer` (ops, as what a network is made
of), `activation_histograms` (how large values become), `adder_graph` (a matrix as shared
additions), `llvm_conversion` (arithmetic in the `llvm` dialect), `ternary_products` and
`event_products` (products that native kernels take), and `universe` (every pass and dialect by
name).
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.passes import ModulePass


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """A getter for every pass of this project by name; each imports its file when called.

    xDSL's own (`canonicalize`, `cse`, `dce`, …) are not among them: the command line adds those.
    """

    def get_balance_thresholds() -> type[ModulePass]:
        from .balance_thresholds import BalanceThresholdsPass

        return BalanceThresholdsPass

    def get_build_network() -> type[ModulePass]:
        from .build_network import BuildNetworkPass

        return BuildNetworkPass

    def get_calibrate() -> type[ModulePass]:
        from .calibrate import CalibratePass

        return CalibratePass

    def get_convert_ann_to_snn() -> type[ModulePass]:
        from .convert_ann_to_snn import ConvertAnnToSnnPass

        return ConvertAnnToSnnPass

    def get_convert_arith_to_llvm() -> type[ModulePass]:
        from .convert_arith_to_llvm import ConvertArithToLLVMPass

        return ConvertArithToLLVMPass

    def get_convert_cf_to_llvm() -> type[ModulePass]:
        from .convert_cf_to_llvm import ConvertCfToLLVMPass

        return ConvertCfToLLVMPass

    def get_convert_func_to_llvm() -> type[ModulePass]:
        from .convert_func_to_llvm import ConvertFuncToLLVMPass

        return ConvertFuncToLLVMPass

    def get_convert_math_to_llvm() -> type[ModulePass]:
        from .convert_math_to_llvm import ConvertMathToLLVMPass

        return ConvertMathToLLVMPass

    def get_convert_spike_to_tensor() -> type[ModulePass]:
        from .convert_spike_to_tensor import ConvertSpikeToTensorPass

        return ConvertSpikeToTensorPass

    def get_convert_tensor_to_linalg() -> type[ModulePass]:
        from .convert_tensor_to_linalg import ConvertTensorToLinalgPass

        return ConvertTensorToLinalgPass

    def get_convert_vector_to_llvm() -> type[ModulePass]:
        from .convert_vector_to_llvm import ConvertVectorToLLVMPass

        return ConvertVectorToLLVMPass

    def get_choose_folding() -> type[ModulePass]:
        from .choose_folding import ChooseFoldingPass

        return ChooseFoldingPass

    def get_convert_ternary_to_hw() -> type[ModulePass]:
        from .convert_ternary_to_hw import ConvertTernaryToHwPass

        return ConvertTernaryToHwPass

    def get_convert_ternary_to_llvm() -> type[ModulePass]:
        from .convert_ternary_to_llvm import ConvertTernaryToLLVMPass

        return ConvertTernaryToLLVMPass

    def get_drop_dynamic_rounding() -> type[ModulePass]:
        from .drop_dynamic_rounding import DropDynamicRoundingPass

        return DropDynamicRoundingPass

    def get_expose_integers() -> type[ModulePass]:
        from .expose_integers import ExposeIntegersPass

        return ExposeIntegersPass

    def get_expose_logits() -> type[ModulePass]:
        from .expose_logits import ExposeLogitsPass

        return ExposeLogitsPass

    def get_expose_state() -> type[ModulePass]:
        from .expose_state import ExposeStatePass

        return ExposeStatePass

    def get_expose_trains() -> type[ModulePass]:
        from .expose_trains import ExposeTrainsPass

        return ExposeTrainsPass

    def get_fold_constants() -> type[ModulePass]:
        from .fold_constants import FoldConstantsPass

        return FoldConstantsPass

    def get_free_batch() -> type[ModulePass]:
        from .free_batch import FreeBatchPass

        return FreeBatchPass

    def get_fuse_elementwise() -> type[ModulePass]:
        from .fuse_elementwise import FuseElementwisePass

        return FuseElementwisePass

    def get_fuse_linear() -> type[ModulePass]:
        from .fuse_linear import FuseLinearPass

        return FuseLinearPass

    def get_fuse_spike() -> type[ModulePass]:
        from .fuse_spike import FuseSpikePass

        return FuseSpikePass

    def get_hoist_synapses() -> type[ModulePass]:
        from .hoist_synapses import HoistSynapsesPass

        return HoistSynapsesPass

    def get_infer_shapes() -> type[ModulePass]:
        from .infer_shapes import InferShapesPass

        return InferShapesPass

    def get_inline_spike_layers() -> type[ModulePass]:
        from .inline_spike_layers import InlineSpikeLayersPass

        return InlineSpikeLayersPass

    def get_lower_network() -> type[ModulePass]:
        from .lower_network import LowerNetworkPass

        return LowerNetworkPass

    def get_lower_recurrent() -> type[ModulePass]:
        from .lower_recurrent import LowerRecurrentPass

        return LowerRecurrentPass

    def get_merge_rescaling() -> type[ModulePass]:
        from .merge_rescaling import MergeRescalingPass

        return MergeRescalingPass

    def get_normalize_weights() -> type[ModulePass]:
        from .normalize_weights import NormalizeWeightsPass

        return NormalizeWeightsPass

    def get_optimize_adder_graph() -> type[ModulePass]:
        from .optimize_adder_graph import OptimizeAdderGraphPass

        return OptimizeAdderGraphPass

    def get_skip_silent() -> type[ModulePass]:
        from .skip_silent import SkipSilentPass

        return SkipSilentPass

    def get_skip_zeros() -> type[ModulePass]:
        from .skip_zeros import SkipZerosPass

        return SkipZerosPass

    def get_quantize_activations() -> type[ModulePass]:
        from .quantize_activations import QuantizeActivationsPass

        return QuantizeActivationsPass

    def get_quantize_neurons() -> type[ModulePass]:
        from .quantize_neurons import QuantizeNeuronsPass

        return QuantizeNeuronsPass

    def get_quantize_spike() -> type[ModulePass]:
        from .quantize_spike import QuantizeSpikePass

        return QuantizeSpikePass

    def get_requantize() -> type[ModulePass]:
        from .requantize import RequantizePass

        return RequantizePass

    def get_streamline() -> type[ModulePass]:
        from .streamline import StreamlinePass

        return StreamlinePass

    def get_ternarize() -> type[ModulePass]:
        from .ternarize import TernarizePass

        return TernarizePass

    return {
        "balance-thresholds": get_balance_thresholds,
        "build-network": get_build_network,
        "calibrate": get_calibrate,
        "choose-folding": get_choose_folding,
        "convert-ann-to-snn": get_convert_ann_to_snn,
        "convert-arith-to-llvm": get_convert_arith_to_llvm,
        "convert-cf-to-llvm": get_convert_cf_to_llvm,
        "convert-func-to-llvm": get_convert_func_to_llvm,
        "convert-math-to-llvm": get_convert_math_to_llvm,
        "convert-spike-to-tensor": get_convert_spike_to_tensor,
        "convert-tensor-to-linalg": get_convert_tensor_to_linalg,
        "convert-vector-to-llvm": get_convert_vector_to_llvm,
        "convert-ternary-to-hw": get_convert_ternary_to_hw,
        "convert-ternary-to-llvm": get_convert_ternary_to_llvm,
        "drop-dynamic-rounding": get_drop_dynamic_rounding,
        "expose-integers": get_expose_integers,
        "expose-logits": get_expose_logits,
        "expose-state": get_expose_state,
        "expose-trains": get_expose_trains,
        "fold-constants": get_fold_constants,
        "free-batch": get_free_batch,
        "fuse-elementwise": get_fuse_elementwise,
        "fuse-linear": get_fuse_linear,
        "fuse-spike": get_fuse_spike,
        "hoist-synapses": get_hoist_synapses,
        "infer-shapes": get_infer_shapes,
        "inline-spike-layers": get_inline_spike_layers,
        "lower-network": get_lower_network,
        "lower-recurrent": get_lower_recurrent,
        "merge-rescaling": get_merge_rescaling,
        "normalize-weights": get_normalize_weights,
        "optimize-adder-graph": get_optimize_adder_graph,
        "skip-silent": get_skip_silent,
        "skip-zeros": get_skip_zeros,
        "quantize-activations": get_quantize_activations,
        "quantize-neurons": get_quantize_neurons,
        "quantize-spike": get_quantize_spike,
        "requantize": get_requantize,
        "streamline": get_streamline,
        "ternarize": get_ternarize,
    }
