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

PASSES = {
    "balance-thresholds": "passes.balance_thresholds:BalanceThresholdsPass",
    "build-network": "passes.build_network:BuildNetworkPass",
    "calibrate": "passes.calibrate:CalibratePass",
    "choose-folding": "passes.choose_folding:ChooseFoldingPass",
    "convert-ann-to-snn": "passes.convert_ann_to_snn:ConvertAnnToSnnPass",
    "convert-arith-to-llvm": "passes.convert_arith_to_llvm:ConvertArithToLLVMPass",
    "convert-cf-to-llvm": "passes.convert_cf_to_llvm:ConvertCfToLLVMPass",
    "convert-func-to-llvm": "passes.convert_func_to_llvm:ConvertFuncToLLVMPass",
    "convert-math-to-llvm": "passes.convert_math_to_llvm:ConvertMathToLLVMPass",
    "convert-spike-to-tensor": "passes.convert_spike_to_tensor:ConvertSpikeToTensorPass",
    "convert-tensor-to-linalg": "passes.convert_tensor_to_linalg:ConvertTensorToLinalgPass",
    "convert-ternary-to-hw": "passes.convert_ternary_to_hw:ConvertTernaryToHwPass",
    "convert-ternary-to-llvm": "passes.convert_ternary_to_llvm:ConvertTernaryToLLVMPass",
    "convert-vector-to-llvm": "passes.convert_vector_to_llvm:ConvertVectorToLLVMPass",
    "drop-dynamic-rounding": "passes.drop_dynamic_rounding:DropDynamicRoundingPass",
    "expose-integers": "passes.expose_integers:ExposeIntegersPass",
    "expose-logits": "passes.expose_logits:ExposeLogitsPass",
    "expose-state": "passes.expose_state:ExposeStatePass",
    "expose-trains": "passes.expose_trains:ExposeTrainsPass",
    "fold-constants": "passes.fold_constants:FoldConstantsPass",
    "free-batch": "passes.free_batch:FreeBatchPass",
    "fuse-elementwise": "passes.fuse_elementwise:FuseElementwisePass",
    "fuse-linear": "passes.fuse_linear:FuseLinearPass",
    "fuse-spike": "passes.fuse_spike:FuseSpikePass",
    "hoist-synapses": "passes.hoist_synapses:HoistSynapsesPass",
    "infer-shapes": "passes.infer_shapes:InferShapesPass",
    "inline-spike-layers": "passes.inline_spike_layers:InlineSpikeLayersPass",
    "lower-network": "passes.lower_network:LowerNetworkPass",
    "lower-recurrent": "passes.lower_recurrent:LowerRecurrentPass",
    "merge-rescaling": "passes.merge_rescaling:MergeRescalingPass",
    "normalize-weights": "passes.normalize_weights:NormalizeWeightsPass",
    "optimize-adder-graph": "passes.optimize_adder_graph:OptimizeAdderGraphPass",
    "quantize-activations": "passes.quantize_activations:QuantizeActivationsPass",
    "quantize-neurons": "passes.quantize_neurons:QuantizeNeuronsPass",
    "quantize-spike": "passes.quantize_spike:QuantizeSpikePass",
    "requantize": "passes.requantize:RequantizePass",
    "skip-silent": "passes.skip_silent:SkipSilentPass",
    "skip-zeros": "passes.skip_zeros:SkipZerosPass",
    "streamline": "passes.streamline:StreamlinePass",
    "ternarize": "passes.ternarize:TernarizePass",
}
"""Every pass of this project by name: its module below the package, and its class.

Data and no imports, so that passes of targets (`lowering`) are found here too. xDSL's own
(`canonicalize`, `cse`, `dce`, …) are not among them: the command line adds those.
"""
