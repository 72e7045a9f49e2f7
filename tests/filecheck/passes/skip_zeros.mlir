// RUN: triton-opt %s -p skip-zeros --split-input-file --verify-semantics | filecheck %s
// RUN: triton-opt %s -p 'skip-zeros{prune=false block=2,2 sparse=blocks}' --split-input-file | filecheck %s --check-prefix=FACTS
// RUN: not triton-opt %s -p 'skip-zeros{block=4}' --split-input-file 2>&1 | filecheck %s --check-prefix=BLOCK

// Column 2 of the first weight is zero: that channel is always relu(3) = 3, requantised to 2, which
// goes into the bias of the next layer. Row 0 of the second weight is zero: channel 0 is not needed.
func.func @forward(%x: tensor<?x4xi8>) -> tensor<?x2xi32> {
  %w1 = ternary.constant [1, 1, 0, 0, 1, 0, -1, 0, 0, 0, 1, 0] : tensor<4x3x!ternary.trit>
  %b1 = tensor.constant dense<[1, 2, 3]> : tensor<3xi32>
  %m = tensor.constant dense<1> : tensor<i32>
  %s = tensor.constant dense<1> : tensor<i32>
  %z = tensor.constant dense<0> : tensor<i8>
  %0 = ternary.linear %x, %w1 bias(%b1 : tensor<3xi32>) {activation = "relu"} : tensor<?x4xi8>, tensor<4x3x!ternary.trit> -> tensor<?x3xi32>
  %h = tensor.requantize %0, %m, %s, %z {axis = 1 : i64} : (tensor<?x3xi32>, tensor<i32>, tensor<i32>, tensor<i8>) -> tensor<?x3xi8>
  %w2 = ternary.constant [0, 0, 1, -1, 1, -1] : tensor<3x2x!ternary.trit>
  %y = ternary.linear %h, %w2 : tensor<?x3xi8>, tensor<3x2x!ternary.trit> -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}
// CHECK-LABEL: func.func @forward
// CHECK-DAG: %w1 = ternary.constant [1, 1, 0, 1] : tensor<4x1x!ternary.trit>
// CHECK-DAG: %b1 = tensor.constant dense<2> : tensor<1xi32>
// CHECK: ternary.linear %x, %w1 bias(%b1 : tensor<1xi32>) {activation = "relu", sparsity = #ternary.sparsity<3 : i64, array<i64: 2>, array<i64>, array<i64: 4, 256>, "0">} : tensor<?x4xi8>, tensor<4x1x!ternary.trit> -> tensor<?x1xi32>
// CHECK: tensor.requantize {{.*}} -> tensor<?x1xi8>
// CHECK: %[[B:.*]] = tensor.constant dense<[2, -2]> : tensor<2xi32>
// CHECK: %y = ternary.linear %h, %w2 bias(%[[B]] : tensor<2xi32>) {sparsity = {{.*}}} : tensor<?x1xi8>, tensor<1x2x!ternary.trit> -> tensor<?x2xi32>

// FACTS-LABEL: func.func @forward
// FACTS: ternary.linear %x, %w1 {{.*}} tensor<4x3x!ternary.trit>

// BLOCK-NOT: Traceback
// BLOCK: skip-zeros expects block=ROWS,COLUMNS, got [4]

// -----

// Three of four blocks of 2x2 are zero.
func.func @blocks(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %w = ternary.constant [1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] : tensor<4x4x!ternary.trit>
  %y = ternary.linear %x, %w : tensor<?x4xf32>, tensor<4x4x!ternary.trit> -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK-LABEL: func.func @blocks
// CHECK: sparsity = #ternary.sparsity<3 : i64, array<i64: 2, 3>, array<i64: 2, 3>, array<i64: 4, 256>, "0">
// CHECK-NOT: ternary.form
// FACTS-LABEL: func.func @blocks
// FACTS: {ternary.form = "block_sparse", sparsity = #ternary.sparsity<3 : i64, array<i64: 2, 3>, array<i64: 2, 3>, array<i64: 2, 2>, "e">}

// -----

// Without weights nothing is known.
func.func @absent(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %w = ternary.parameter "w" : tensor<4x4x!ternary.trit>
  %y = ternary.linear %x, %w : tensor<?x4xf32>, tensor<4x4x!ternary.trit> -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK-LABEL: func.func @absent
// CHECK: ternary.linear %x, %w : tensor<?x4xf32>
