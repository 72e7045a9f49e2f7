"""Rewrites: IR in, IR out, one pass a file.

A file, or the folder of a pass that has several, is named as the pass is on the command line, with
underscores. A pass keeps what the program computes, or says in its docstring what it changes. Not
here: patterns that belong to one operation (`dialects`), and anything that leaves the IR for
another form (`lowering`).

What passes ask of a program stands in `analysis`, what samples tell of it in `calibration`. Passes
that leave the IR for a target's stand with the target; `PASSES` names them too, and `universe`
loads them.
"""

from __future__ import annotations

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
    "convert-spike-to-tensor": "passes.convert_spike_to_tensor:ConvertSpikeToTensorPass",
    "convert-tensor-to-linalg": "lowering.to_native.linalg:ConvertTensorToLinalgPass",
    "convert-ternary-to-hw": "lowering.to_verilog.circuit:ConvertTernaryToHwPass",
    "convert-ternary-to-llvm": "lowering.to_native.program:ConvertTernaryToLLVMPass",
    "convert-vector-to-llvm": "lowering.to_native.llvm.convert_vector:ConvertVectorToLLVMPass",
    "decompose": "passes.decompose:DecomposePass",
    "drop-dynamic-rounding": "passes.quantize_activations.drop_dynamic_rounding:"
    "DropDynamicRoundingPass",
    "expose-integers": "passes.quantize_activations.expose_integers:ExposeIntegersPass",
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
    "lower-network": "passes.network.lower_network:LowerNetworkPass",
    "lower-recurrent": "passes.lower_recurrent:LowerRecurrentPass",
    "merge-rescaling": "passes.requantize.merge_rescaling:MergeRescalingPass",
    "normalize-weights": "passes.normalize_weights:NormalizeWeightsPass",
    "optimize-adder-graph": "passes.adder_graph.optimize_adder_graph:OptimizeAdderGraphPass",
    "quantize-activations": "passes.quantize_activations.quantize_activations:"
    "QuantizeActivationsPass",
    "quantize-neurons": "passes.quantize_neurons.quantize_neurons:QuantizeNeuronsPass",
    "quantize-spike": "passes.quantize_neurons.quantize_spike:QuantizeSpikePass",
    "requantize": "passes.requantize.requantize:RequantizePass",
    "skip-silent": "passes.skip_zeros.skip_silent:SkipSilentPass",
    "skip-zeros": "passes.skip_zeros.skip_zeros:SkipZerosPass",
    "streamline": "passes.streamline.streamline:StreamlinePass",
    "ternarize": "passes.ternarize.ternarize:TernarizePass",
}
"""Every pass of this project by name: its module below the package, and its class.

Data and no imports, so that passes of targets (`lowering`) are found here too. xDSL's own
(`canonicalize`, `cse`, `dce`, …) are not among them: the command line adds those.
"""
