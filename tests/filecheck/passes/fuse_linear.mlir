// RUN: triton-opt %s -p fuse-linear --split-input-file --verify-semantics | filecheck %s
// RUN: triton-opt %s -p 'fuse-linear{exact=true}' --split-input-file | filecheck %s --check-prefix=EXACT

// Scale, bias and activation in a row.
func.func @ternary(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
  %w = ternary.parameter "w" : tensor<8x4x!ternary.trit>
  %s = tensor.parameter "s" : tensor<1x4xf32>
  %b = tensor.parameter "b" : tensor<4xf32>
  %0 = ternary.matmul %x, %w : tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>
  %1 = tensor.mul %0, %s : (tensor<?x4xf32>, tensor<1x4xf32>) -> tensor<?x4xf32>
  %2 = tensor.add %b, %1 : (tensor<4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = tensor.relu6 %2 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK-LABEL: func.func @ternary
// CHECK: %[[S:.*]] = tensor.reshape_to %s {shape = array<i64: 4>} : (tensor<1x4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %y = ternary.linear %x, %w scale(%[[S]] : tensor<4xf32>) bias(%b : tensor<4xf32>) {activation = "relu6"} : tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>
// CHECK-NEXT: func.return %y
// EXACT-LABEL: func.func @ternary
// EXACT: ternary.linear {{.*}} scale({{.*}}) bias(%b : tensor<4xf32>) {activation = "relu6"}

// -----

// Batch normalisation becomes ops on the parameters.
func.func @batch_norm(%x: tensor<?x3x4x4xf32>) -> tensor<?x2x4x4xf32> {
  %w = ternary.parameter "w" : tensor<2x3x1x1x!ternary.trit>
  %g = tensor.parameter "g" : tensor<2xf32>
  %b = tensor.parameter "b" : tensor<2xf32>
  %m = tensor.parameter "m" buffer : tensor<2xf32>
  %v = tensor.parameter "v" buffer : tensor<2xf32>
  %0 = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : tensor<?x3x4x4xf32>, tensor<2x3x1x1x!ternary.trit> -> tensor<?x2x4x4xf32>
  %1 = tensor.batch_norm %0, %g, %b, %m, %v : (tensor<?x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x4x4xf32>
  %y = tensor.relu %1 : (tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  func.return %y : tensor<?x2x4x4xf32>
}
// CHECK-LABEL: func.func @batch_norm
// CHECK: %[[SPREAD:.*]] = tensor.add %v
// CHECK: %[[ROOT:.*]] = tensor.sqrt %[[SPREAD]]
// CHECK: %[[K:.*]] = tensor.div %g, %[[ROOT]]
// CHECK: %[[MK:.*]] = tensor.mul %m, %[[K]]
// CHECK: %[[B:.*]] = tensor.sub %b, %[[MK]]
// CHECK: %y = ternary.conv %x, %w scale(%[[K]] : tensor<2xf32>) bias(%[[B]] : tensor<2xf32>) {activation = "relu", strides
// CHECK-NOT: tensor.batch_norm
// EXACT-LABEL: func.func @batch_norm
// EXACT: tensor.batch_norm

// -----

// Integers: bias, then requantisation or thresholds.
func.func @integers(%x: tensor<?x8xi8>) -> (tensor<?x4xi8>, tensor<?x4xi8>) {
  %w = ternary.parameter "w" : tensor<8x4x!ternary.trit>
  %b = tensor.parameter "b" : tensor<4xi32>
  %m = tensor.constant dense<[3, 5, 7, 9]> : tensor<4xi32>
  %s = tensor.constant dense<4> : tensor<i32>
  %z = tensor.constant dense<1> : tensor<i8>
  %t = tensor.constant dense<[[1, 5, 9]]> : tensor<1x3xi32>
  %0 = ternary.linear %x, %w : tensor<?x8xi8>, tensor<8x4x!ternary.trit> -> tensor<?x4xi32>
  %1 = tensor.sub %0, %b : (tensor<?x4xi32>, tensor<4xi32>) -> tensor<?x4xi32>
  %2 = tensor.relu %1 : (tensor<?x4xi32>) -> tensor<?x4xi32>
  %3 = tensor.requantize %2, %m, %s, %z {axis = -1 : i64, low = 0 : i64, high = 100 : i64} : (tensor<?x4xi32>, tensor<4xi32>, tensor<i32>, tensor<i8>) -> tensor<?x4xi8>
  %4 = ternary.linear %x, %w : tensor<?x8xi8>, tensor<8x4x!ternary.trit> -> tensor<?x4xi32>
  %5 = tensor.multi_threshold %4, %t : (tensor<?x4xi32>, tensor<1x3xi32>) -> tensor<?x4xi8>
  func.return %3, %5 : tensor<?x4xi8>, tensor<?x4xi8>
}
// CHECK-LABEL: func.func @integers
// CHECK: %[[NB:.*]] = tensor.neg %b
// CHECK-NEXT: ternary.linear %x, %w bias(%[[NB]] : tensor<4xi32>) multiplier(%m : tensor<4xi32>) shift(%s : tensor<i32>) zero_point(%z : tensor<i8>) {activation = "relu", low = 0 : i64, high = 100 : i64}
// CHECK-NEXT: ternary.linear %x, %w thresholds(%t : tensor<1x3xi32>) : tensor<?x8xi8>
// EXACT-LABEL: func.func @integers
// EXACT: ternary.linear {{.*}} bias({{.*}}) multiplier(

// -----

// Float layers: bias, and batch normalisation in the weights.
func.func @floats(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
  %w = tensor.parameter "w" : tensor<8x4xf32>
  %b = tensor.parameter "b" : tensor<4xf32>
  %k = tensor.constant dense<2.0> : tensor<f32>
  %0 = tensor.matmul %x, %w : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %1 = tensor.add %0, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %y = tensor.mul %1, %k : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK-LABEL: func.func @floats
// CHECK-DAG: %[[WK:.*]] = tensor.mul %w, %k
// CHECK-DAG: %[[BK:.*]] = tensor.mul %b, %k
// CHECK: %y = tensor.linear %x, %[[WK]], %[[BK]]
// EXACT-LABEL: func.func @floats
// EXACT: tensor.linear %x, %w, %b
// EXACT-NEXT: tensor.mul

// -----

// Left alone: two uses, operands known at run time alone, sums that widen, fused steps in the wrong order.
func.func @kept(%x: tensor<?x8xf32>, %r: tensor<4xf32>, %wide: tensor<3x1x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %w = ternary.parameter "w" : tensor<8x4x!ternary.trit>
  %b = tensor.parameter "b" : tensor<4xf32>
  %0 = ternary.linear %x, %w : tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>
  %1 = tensor.add %0, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %2 = ternary.linear %x, %w : tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>
  %3 = tensor.add %2, %r : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %4 = ternary.linear %x, %w {activation = "relu"} : tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>
  %5 = tensor.add %4, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %0, %1, %3, %5 : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-3: tensor.add
