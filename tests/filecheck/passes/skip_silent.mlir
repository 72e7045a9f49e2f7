// RUN: triton-opt %s -p skip-silent | filecheck %s
// Of three neurons the second can never fire, and nobody listens to the third.

func.func @forward(%x: !spike.train<?x?x2>) -> tensor<?x?x2xf32> {
  %w = tensor.constant dense<[[1.0, -1.0, 1.0], [0.5, 0.0, 1.0]]> : tensor<2x3xf32>
  %v = tensor.constant dense<[[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]> : tensor<3x2xf32>
  %t = tensor.constant dense<[1.0, 0.5, 1.5]> : tensor<3xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x2>, tensor<2x3xf32> -> tensor<?x?x3xf32>
  %s = spike.lif %i threshold(%t : tensor<3xf32>) {beta = 0.5 : f64}
      : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
  %j = spike.linear %s, %v : !spike.train<?x?x3>, tensor<3x2xf32> -> tensor<?x?x2xf32>
  func.return %j : tensor<?x?x2xf32>
}
// CHECK:      %w = tensor.constant dense<{{\[\[}}1.000000e+00], [5.000000e-01]]> : tensor<2x1xf32>
// CHECK-NEXT: %i = spike.linear %x, %w : !spike.train<?x?x2>, tensor<2x1xf32> -> tensor<?x?x1xf32>
// CHECK-NEXT: %t = tensor.constant dense<1.000000e+00> : tensor<1xf32>
// CHECK-NEXT: %s = spike.lif %i threshold(%t : tensor<1xf32>) {beta = 5.000000e-01 : f64} : (tensor<?x?x1xf32>) -> !spike.train<?x?x1>
// CHECK-NEXT: %v = tensor.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00]]> : tensor<1x2xf32>
// CHECK-NEXT: %j = spike.linear %s, %v : !spike.train<?x?x1>, tensor<1x2xf32> -> tensor<?x?x2xf32>
