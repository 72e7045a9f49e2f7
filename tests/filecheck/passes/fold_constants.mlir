// RUN: triton-opt %s -p fold-constants --split-input-file --verify-semantics | filecheck %s
// RUN: triton-opt %s -p 'fold-constants{limit=2}' --split-input-file | filecheck %s --check-prefix=LIMIT

// Only what the rest of the program uses is left.
func.func @chain(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %a = tensor.constant dense<[1.0, 4.0, 9.0]> : tensor<3xf32>
  %b = tensor.constant dense<2.0> : tensor<f32>
  %root = tensor.sqrt %a : (tensor<3xf32>) -> tensor<3xf32>
  %twice = tensor.mul %root, %b : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %y = tensor.add %x, %twice : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %twice = tensor.constant dense<[2.000000e+00, 4.000000e+00, 6.000000e+00]> : tensor<3xf32>
// CHECK-NEXT: tensor.add %x, %twice
// LIMIT-LABEL: func.func @chain
// LIMIT: tensor.sqrt
// LIMIT: tensor.mul

// -----

// Large splats stay in the text; other element types too.
func.func @kinds() -> (tensor<100x100xf32>, tensor<4xi1>, tensor<2x2x!ternary.trit>, tensor<2xi8>) {
  %one = tensor.constant dense<1.0> : tensor<f32>
  %ones = tensor.expand %one {shape = array<i64: 100, 100>} : (tensor<f32>) -> tensor<100x100xf32>
  %v = tensor.constant dense<[1.0, -1.0, 0.0, 2.0]> : tensor<4xf32>
  %zero = tensor.constant dense<0.0> : tensor<f32>
  %mask = tensor.compare %v, %zero {predicate = "gt"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %t = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>
  %p = tensor.permute %t {perm = array<i64: 1, 0>} : (tensor<2x2x!ternary.trit>) -> tensor<2x2x!ternary.trit>
  %i = tensor.constant dense<[100, -3]> : tensor<2xi8>
  %w = tensor.add %i, %i : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
  func.return %ones, %mask, %p, %w : tensor<100x100xf32>, tensor<4xi1>, tensor<2x2x!ternary.trit>, tensor<2xi8>
}
// CHECK-LABEL: func.func @kinds
// CHECK-NEXT: %ones = tensor.constant dense<1.000000e+00> : tensor<100x100xf32>
// CHECK-NEXT: %mask = tensor.constant dense<[true, false, false, true]> : tensor<4xi1>
// CHECK-NEXT: %p = ternary.constant [1, -1, 0, 1] : tensor<2x2x!ternary.trit>
// CHECK-NEXT: %w = tensor.constant dense<[-56, -6]> : tensor<2xi8>
// CHECK-NEXT: func.return

// -----

// Without weights, and where the result is NaN, ops stay.
func.func @kept() -> (tensor<2x2xf32>, tensor<f32>) {
  %w = tensor.parameter "fc.weight" : tensor<2x2xf32>
  %p = tensor.permute %w {perm = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %m = tensor.constant dense<-1.0> : tensor<f32>
  %n = tensor.sqrt %m : (tensor<f32>) -> tensor<f32>
  func.return %p, %n : tensor<2x2xf32>, tensor<f32>
}
// CHECK-LABEL: func.func @kept
// CHECK: tensor.permute
// CHECK: tensor.sqrt
