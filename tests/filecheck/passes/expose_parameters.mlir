// RUN: triton-opt %s -p expose-parameters | filecheck %s

builtin.module attributes {tensor.parameters = #tensor.store<unsaved>} {
  func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
    %scale = tensor.parameter "norm.weight" : tensor<4xf32>
    %y = tensor.mul %x, %scale : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    %w = ternary.parameter "weight" : tensor<4x2x!ternary.trit>
    %z = ternary.matmul %y, %w : tensor<?x4xf32>, tensor<4x2x!ternary.trit> -> tensor<?x2xf32>
    %bias = tensor.parameter "bias" : tensor<2xf32>
    %r = tensor.add %z, %bias : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
    func.return %r : tensor<?x2xf32>
  }
}
// CHECK: func.func @forward(%x: tensor<?x4xf32>, %scale: tensor<4xf32> {tensor.name = "norm.weight"}, %bias: tensor<2xf32> {tensor.name = "bias"}) -> tensor<?x2xf32> {
// CHECK-NEXT: %y = tensor.mul %x, %scale
// CHECK-NEXT: %w = ternary.parameter "weight"
// CHECK-NEXT: %z = ternary.matmul %y, %w
// CHECK-NEXT: %r = tensor.add %z, %bias
