// RUN: triton-opt %s -p quantize-spike | filecheck %s
// RUN: triton-opt %s -p 'quantize-spike{weights=ternary}' | filecheck %s --check-prefix=TERNARY
// Neurons without leak compute on integers, the others on floats of exact sums.

func.func @forward(%x: !spike.train<?x?x2>) -> !spike.train<?x?x2> {
  %w = tensor.constant dense<[[0.5, 0.25], [-0.5, 0.25]]> : tensor<2x2xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x2>, tensor<2x2xf32> -> tensor<?x?x2xf32>
  %s = spike.integrate_fire %i : (tensor<?x?x2xf32>) -> !spike.train<?x?x2>
  %v = tensor.constant dense<[[1.27, 0.0], [0.1, 2.54]]> : tensor<2x2xf32>
  %j = spike.linear %s, %v : !spike.train<?x?x2>, tensor<2x2xf32> -> tensor<?x?x2xf32>
  %t = spike.lif %j {beta = 0.5 : f64} : (tensor<?x?x2xf32>) -> !spike.train<?x?x2>
  func.return %t : !spike.train<?x?x2>
}
// CHECK:      tensor.constant dense<{{\[\[}}127, 127], [-127, 127]]> : tensor<2x2xi8>
// CHECK-NEXT: %i = spike.linear %x, %{{.*}} : !spike.train<?x?x2>, tensor<2x2xi8> -> tensor<?x?x2xi32>
// CHECK-NEXT: tensor.constant dense<[254, 508]> : tensor<2xi32>
// CHECK-NEXT: %s = spike.integrate_fire %i threshold(%{{.*}} : tensor<2xi32>) : (tensor<?x?x2xi32>) -> !spike.train<?x?x2>
// CHECK-NEXT: tensor.constant dense<{{\[\[}}127, 0], [10, 127]]> : tensor<2x2xi8>
// CHECK-NEXT: tensor.constant dense<[1.000000e-02, 2.000000e-02]> : tensor<2xf32>
// CHECK-NEXT: %j = spike.linear %s, %{{.*}} scale(%{{.*}} : tensor<2xf32>) : !spike.train<?x?x2>, tensor<2x2xi8> -> tensor<?x?x2xf32>

// TERNARY-LABEL: func.func @unknown
func.func @unknown(%x: !spike.train<?x?x2>) -> !spike.train<?x?x2> {
  %w = tensor.parameter "w" : tensor<2x2xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x2>, tensor<2x2xf32> -> tensor<?x?x2xf32>
  %s = spike.lif %i {beta = 0.5 : f64} : (tensor<?x?x2xf32>) -> !spike.train<?x?x2>
  func.return %s : !spike.train<?x?x2>
}
// TERNARY-NEXT: %w = tensor.parameter "w" : tensor<2x2xf32>
// TERNARY-NEXT: %w_1, %0 = ternary.ternarize %w
// TERNARY-NEXT: %i = spike.linear %x, %w_1 scale(%0 : tensor<2xf32>) : !spike.train<?x?x2>, tensor<2x2x!ternary.trit> -> tensor<?x?x2xf32>
