// RUN: triton-opt %s | triton-opt | filecheck %s
// CHECK: %s, %u1, %v1 = spike.loihi_lif %i initial(%u, %v : tensor<?x4xi32>, tensor<?x4xi32>) bias(%b : tensor<4xi32>) {du = 4.090000e+02 : f64, dv = 4.100000e+02 : f64, threshold = 6.400000e+01 : f64, reset = "subtract"} : (tensor<8x?x4xi32>) -> (!spike.train<8x?x4>, tensor<?x4xi32>, tensor<?x4xi32>)
// CHECK: %t = spike.loihi_ternary_lif %i {du = 4.095000e+03 : f64, dv = 0.000000e+00 : f64, threshold = 9.000000e+00 : f64, threshold_low = -9.000000e+00 : f64} : (tensor<8x?x4xi32>) -> tensor<8x?x4xi32>
func.func @forward(%i: tensor<8x?x4xi32>, %u: tensor<?x4xi32>, %v: tensor<?x4xi32>, %b: tensor<4xi32>)
    -> (!spike.train<8x?x4>, tensor<?x4xi32>, tensor<?x4xi32>, tensor<8x?x4xi32>) {
  %s, %u1, %v1 = spike.loihi_lif %i initial(%u, %v : tensor<?x4xi32>, tensor<?x4xi32>)
      bias(%b : tensor<4xi32>) {du = 409.0 : f64, dv = 410.0 : f64, threshold = 64.0 : f64, reset = "subtract"}
      : (tensor<8x?x4xi32>) -> (!spike.train<8x?x4>, tensor<?x4xi32>, tensor<?x4xi32>)
  %t = spike.loihi_ternary_lif %i
      {du = 4095.0 : f64, dv = 0.0 : f64, threshold = 9.0 : f64, threshold_low = -9.0 : f64}
      : (tensor<8x?x4xi32>) -> tensor<8x?x4xi32>
  func.return %s, %u1, %v1, %t : !spike.train<8x?x4>, tensor<?x4xi32>, tensor<?x4xi32>, tensor<8x?x4xi32>
}

// CHECK: %d = spike.loihi_sigma_delta %x {threshold = 6.400000e+02 : f64, shift = 6 : i64} : (tensor<8x?x4xi32>) -> tensor<8x?x4xi32>
func.func @changes(%x: tensor<8x?x4xi32>) -> tensor<8x?x4xi32> {
  %d = spike.loihi_sigma_delta %x {threshold = 640.0 : f64, shift = 6 : i64}
      : (tensor<8x?x4xi32>) -> tensor<8x?x4xi32>
  func.return %d : tensor<8x?x4xi32>
}
