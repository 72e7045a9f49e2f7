// RUN: triton-opt %s -p quantize-neurons | filecheck %s
func.func @forward(%x: !spike.train<8x?x2>) -> (!spike.train<8x?x2>, tensor<?x2xf32>) {
  %w = tensor.constant dense<[[127, 64], [-30, 127]]> : tensor<2x2xi8>
  %s = tensor.constant dense<[0.1, 0.2]> : tensor<2xf32>
  %i = spike.linear %x, %w scale(%s : tensor<2xf32>) : !spike.train<8x?x2>, tensor<2x2xi8> -> tensor<8x?x2xf32>
  %t = spike.lif %i {beta = 0.9 : f64} : (tensor<8x?x2xf32>) -> !spike.train<8x?x2>
  %y = spike.decode %i {scheme = "membrane", readout = "mean"} : (tensor<8x?x2xf32>) -> tensor<?x2xf32>
  func.return %t, %y : !spike.train<8x?x2>, tensor<?x2xf32>
}
// CHECK: %[[I:.*]] = spike.linear %x, %w : !spike.train<8x?x2>, tensor<2x2xi8> -> tensor<8x?x2xi32>
// CHECK: %[[THETA:.*]] = tensor.constant dense<[160, 80]> : tensor<2xi32>
// CHECK: spike.integer_lif %[[I]] threshold(%[[THETA]] : tensor<2xi32>) {shift = 8 : i64, decay = 2.300000e+02 : f64, gain = 1.600000e+01 : f64}
// CHECK: tensor.reduce_sum
// CHECK: tensor.constant dense<[1.250000e-02, 2.500000e-02]> : tensor<2xf32>
// CHECK: tensor.dequantize
