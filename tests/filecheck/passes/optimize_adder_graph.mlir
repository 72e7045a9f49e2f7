// RUN: triton-opt %s -p optimize-adder-graph --split-input-file --verify-semantics | filecheck %s
// RUN: not triton-opt %s -p 'optimize-adder-graph{max-depth=1}' --split-input-file 2>&1 | filecheck %s --check-prefix=DEPTH
// RUN: not triton-opt %s -p 'optimize-adder-graph{cost=area}' --split-input-file 2>&1 | filecheck %s --check-prefix=COST

// x0 + x1 is shared; the third column is an input.
func.func @forward(%x: tensor<?x4xi8>) -> tensor<?x3xi8> {
  %w = ternary.constant [1, 1, 0, 0, 1, 1, -1, 0, 0, 0, 1, 0] : tensor<4x3x!ternary.trit>
  %b = tensor.constant dense<[1, 2, 3]> : tensor<3xi32>
  %m = tensor.constant dense<1> : tensor<i32>
  %s = tensor.constant dense<1> : tensor<i32>
  %z = tensor.constant dense<0> : tensor<i8>
  %y = ternary.linear %x, %w bias(%b : tensor<3xi32>) multiplier(%m : tensor<i32>) shift(%s : tensor<i32>) zero_point(%z : tensor<i8>) {activation = "relu", low = -8 : i64, high = 7 : i64} : tensor<?x4xi8>, tensor<4x3x!ternary.trit> -> tensor<?x3xi8>
  func.return %y : tensor<?x3xi8>
}
// CHECK-LABEL: func.func @forward
// CHECK-NOT: ternary.constant
// CHECK: %[[P:.*]] = ternary.adder_graph %x {ternary.weight = "w", inputs = 4 : i64, nodes = array<i64: 0, 1, 1, 0, 3, 4, 1, 0, 0, 2, -1, 0>, outputs = array<i64: 6, 1, 5, 1, 1, 1>} : (tensor<?x4xi8>) -> tensor<?x3xi32>
// CHECK: %[[B:.*]] = tensor.add %[[P]], %b : (tensor<?x3xi32>, tensor<3xi32>) -> tensor<?x3xi32>
// CHECK: %[[R:.*]] = tensor.relu %[[B]]
// CHECK: %y = tensor.requantize %[[R]], %m, %s, %z {low = -8 : i64, high = 7 : i64}

// DEPTH-NOT: Traceback
// DEPTH: max-depth=1 is too small: a column with 3 nonzeros needs 2
// COST-NOT: Traceback
// COST: optimize-adder-graph expects cost one of bits, adders, depth, got 'area'

// -----

// Equal and negated columns are computed once, columns of zeros not at all.
func.func @columns(%x: tensor<?x2x!ternary.trit>) -> tensor<?x4xi32> {
  %w = ternary.constant [1, -1, 0, 1, -1, 1, 0, -1] : tensor<2x4x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x2x!ternary.trit>, tensor<2x4x!ternary.trit> -> tensor<?x4xi32>
  func.return %y : tensor<?x4xi32>
}
// CHECK-LABEL: func.func @columns
// CHECK: %y = ternary.adder_graph %x {{{.*}}nodes = array<i64: 0, 1, -1, 0>, outputs = array<i64: 2, 1, 2, -1, 0, 0, 2, 1>}

// -----

// Float sums would round differently.
func.func @floats(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %w = ternary.constant [1, -1, 0, 1] : tensor<2x2x!ternary.trit>
  %y = ternary.linear %x, %w : tensor<?x2xf32>, tensor<2x2x!ternary.trit> -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
// CHECK-LABEL: func.func @floats
// CHECK: ternary.linear
