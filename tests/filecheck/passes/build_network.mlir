// RUN: triton-opt %s -p build-network | filecheck %s
// RUN: triton-opt %s -p 'build-network{expose=true}' | filecheck %s --check-prefix=ALONE
// Neurons and synapses become a network; encoding and decoding stay around it, or go to the caller.

// CHECK:      spike.network @net dt = 1.000000e-04 {
// CHECK-NEXT:   %w = tensor.parameter "fc1.weight" : tensor<4x3xf32>
// CHECK-NEXT:   %0 = tensor.constant dense<-2.000000e+00> : tensor<f32>
// CHECK-NEXT:   %v = tensor.parameter "fc2.weight" : tensor<3x2xf32>
// CHECK-NEXT:   spike.input @x {shape = array<i64: 4>, signal = "current"}
// CHECK-NEXT:   spike.population @h_potential {model = "integrator", shape = array<i64: 3>, parameters = {r = 1.000000e+04 : f64}}
// CHECK-NEXT:   spike.population @h {model = "threshold", shape = array<i64: 3>, parameters = {threshold = 0.99999994039535522 : f64}}
// CHECK-NEXT:   spike.population @o_sum {model = "relay", shape = array<i64: 2>}
// CHECK-NEXT:   spike.projection @x_h_potential @x -> @h_potential weights(%w : tensor<4x3xf32>)
// CHECK-NEXT:   spike.projection @h_h_potential @h -> @h_potential weights(%0 : tensor<f32>) {connection = "one_to_one", delay = 1 : i64}
// CHECK-NEXT:   spike.projection @h_potential_h @h_potential -> @h {connection = "one_to_one"}
// CHECK-NEXT:   spike.projection @h_o_sum @h -> @o_sum weights(%v : tensor<3x2xf32>)
// CHECK-NEXT:   spike.probe @o_sum_out @o_sum
// CHECK:      func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
// CHECK-NEXT:   %0 = spike.encode %x {scheme = "direct", timesteps = 8 : i64} : (tensor<?x4xf32>) -> tensor<8x?x4xf32>
// CHECK-NEXT:   %o = spike.simulate @net(%0) : (tensor<8x?x4xf32>) -> tensor<8x?x2xf32>
// CHECK-NEXT:   %y = spike.decode %o {scheme = "membrane", readout = "mean"} : (tensor<8x?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   func.return %y : tensor<?x2xf32>

// ALONE:      func.func @forward(%x: tensor<8x?x4xf32>) -> tensor<8x?x2xf32> attributes {spike.remark = ["left to the caller before the network: spike.encode", "left to the caller after the network: spike.decode"]}
// ALONE-NEXT:   %o = spike.simulate @net(%x) : (tensor<8x?x4xf32>) -> tensor<8x?x2xf32>
// ALONE-NEXT:   func.return %o : tensor<8x?x2xf32>

func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %w = tensor.parameter "fc1.weight" : tensor<4x3xf32>
  %v = tensor.parameter "fc2.weight" : tensor<3x2xf32>
  %z = tensor.linear %x, %w : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
  %i = spike.encode %z {scheme = "direct", timesteps = 8 : i64} : (tensor<?x3xf32>) -> tensor<8x?x3xf32>
  %v0 = tensor.clamp %z {min = 1.0 : f64, max = 1.0 : f64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %h = spike.integrate_fire %i initial(%v0 : tensor<?x3xf32>) {threshold = 2.0 : f64} : (tensor<8x?x3xf32>) -> !spike.train<8x?x3>
  %o = spike.linear %h, %v : !spike.train<8x?x3>, tensor<3x2xf32> -> tensor<8x?x2xf32>
  %y = spike.decode %o {scheme = "membrane", readout = "mean"} : (tensor<8x?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
