// RUN: triton-opt %s -p split-layers | filecheck %s

func.func @forward(%x: tensor<?x2xf32>) -> (tensor<2x?x2xf32>, tensor<1x?x2xf32>) {
  %w = tensor.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]]> : tensor<2x6xf32>
  %y = tensor.linear %x, %w : (tensor<?x2xf32>, tensor<2x6xf32>) -> tensor<?x6xf32>
  %h = tensor.reshape_to %y {shape = array<i64: -2, 3, 2>} : (tensor<?x6xf32>) -> tensor<?x3x2xf32>
  %p = tensor.permute %h {perm = array<i64: 1, 0, 2>} : (tensor<?x3x2xf32>) -> tensor<3x?x2xf32>
  %a, %b = tensor.split %p {axis = 0 : i64, sizes = array<i64: 2, 1>} : (tensor<3x?x2xf32>) -> (tensor<2x?x2xf32>, tensor<1x?x2xf32>)
  func.return %a, %b : tensor<2x?x2xf32>, tensor<1x?x2xf32>
}
// CHECK: %[[V:.*]] = tensor.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00], [7.000000e+00
// CHECK: %[[L:.*]] = tensor.linear %x, %[[V]]
// CHECK: %[[H:.*]] = tensor.reshape_to %[[L]] {shape = array<i64: -2, 2, 2>}
// CHECK: tensor.permute %[[H]] {perm = array<i64: 1, 0, 2>} : (tensor<?x2x2xf32>) -> tensor<2x?x2xf32>
// CHECK: %[[U:.*]] = tensor.constant dense<{{\[\[}}5.000000e+00, 6.000000e+00], [1.100000e+01
// CHECK: tensor.linear %x, %[[U]]
// CHECK-NOT: tensor.split
