// RUN: triton-opt %s | triton-opt | filecheck %s
// CHECK: %s, %after = spike.integer_lif %i initial(%v : tensor<?x4xi32>) threshold(%t : tensor<4xi32>) {decay = 7.000000e+00 : f64, shift = 3 : i64, reset = "none"} : (tensor<8x?x4xi32>) -> (!spike.train<8x?x4>, tensor<?x4xi32>)
func.func @forward(%i: tensor<8x?x4xi32>, %v: tensor<?x4xi32>, %t: tensor<4xi32>) -> (!spike.train<8x?x4>, tensor<?x4xi32>) {
  %s, %after = spike.integer_lif %i initial(%v : tensor<?x4xi32>) threshold(%t : tensor<4xi32>)
      {decay = 7.0 : f64, shift = 3 : i64, reset = "none"}
      : (tensor<8x?x4xi32>) -> (!spike.train<8x?x4>, tensor<?x4xi32>)
  func.return %s, %after : !spike.train<8x?x4>, tensor<?x4xi32>
}
