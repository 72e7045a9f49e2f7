// RUN: triton-opt --list-passes | filecheck %s
// RUN: triton-opt --describe-pass ternarize | filecheck %s --check-prefix=PASS
// RUN: triton-opt --describe-dialect ternary | filecheck %s --check-prefix=DIALECT
// RUN: triton-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// RUN: xdsl-opt %s -p infer-shapes,fuse-linear | filecheck %s --check-prefix=PLAIN

// Plain xDSL knows the `ternary` dialect and the passes.
%w = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>

// CHECK: ternarize
// CHECK: canonicalize
// PASS: ternarize (from triton_dsl)
// PASS: Options:
// PASS: rule:
// DIALECT: ternary.linear
// DIALECTS: Available Dialects: {{.*}} tensor, ternary,
// PLAIN: ternary.constant
