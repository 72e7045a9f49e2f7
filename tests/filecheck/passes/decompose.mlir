// RUN: triton-opt %s -p 'decompose{legal=tensor.log1p}' --split-input-file | filecheck %s
// RUN: triton-opt %s -p 'decompose{legal=tensor.sin:f64,tensor.mish,tensor.ceil,tensor.log1p}' --split-input-file | filecheck %s --check-prefix=TYPED
// RUN: triton-opt --describe-pass decompose | filecheck %s --check-prefix=HELP
// HELP: legal

// What is not legal becomes simpler ops, and these go on; the declared type stays.
func.func @mish(%x: tensor<?x4xf32>) -> tensor<?x?xf32> {
  %y = tensor.mish %x : (tensor<?x4xf32>) -> tensor<?x?xf32>
  func.return %y : tensor<?x?xf32>
}
// CHECK-LABEL: @mish
// CHECK-NOT: tensor.softplus
// CHECK: tensor.log1p
// CHECK: tensor.tanh
// CHECK: %y = tensor.mul {{.*}} -> tensor<?x?xf32>
// TYPED-LABEL: @mish
// TYPED-NEXT: %y = tensor.mish

// -----

// Narrow floats are computed in f32 and rounded once.
func.func @ceil(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %y = tensor.ceil %x : (tensor<4xbf16>) -> tensor<4xbf16>
  func.return %y : tensor<4xbf16>
}
// CHECK-LABEL: @ceil
// CHECK-NEXT: %0 = tensor.convert %x : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT: %1 = tensor.neg %0
// CHECK-NEXT: %2 = tensor.floor %1
// CHECK-NEXT: %3 = tensor.neg %2
// CHECK-NEXT: %y = tensor.convert %3 : (tensor<4xf32>) -> tensor<4xbf16>
// TYPED-LABEL: @ceil
// TYPED-NEXT: %y = tensor.ceil

// -----

// An op can be legal for one type of elements.
func.func @sin(%x: tensor<4xf32>, %z: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf64>) {
  %y = tensor.sin %x : (tensor<4xf32>) -> tensor<4xf32>
  %w = tensor.sin %z : (tensor<4xf64>) -> tensor<4xf64>
  func.return %y, %w : tensor<4xf32>, tensor<4xf64>
}
// CHECK-LABEL: @sin
// CHECK-NOT: tensor.sin
// TYPED-LABEL: @sin
// TYPED-NOT: tensor.sin %x
// TYPED: %w = tensor.sin %z : (tensor<4xf64>) -> tensor<4xf64>
