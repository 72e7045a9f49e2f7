// RUN: triton-opt %s -p 'build-network{expose=true}' | filecheck %s
// RUN: triton-opt %s -p 'build-network{expose=true},lower-network' | filecheck %s --check-prefix=BACK
// Delays of each neuron become a projection's, which goes back as it came.

func.func @forward(%x: tensor<8x?x3xf32>) -> tensor<8x?x3xf32> {
  %d = tensor.constant dense<[0, 3, 1]> : tensor<3xi64>
  %s = spike.lif %x {beta = 0.5 : f64, reset = "none"} : (tensor<8x?x3xf32>) -> !spike.train<8x?x3>
  %late = spike.delay %s delays(%d : tensor<3xi64>) {steps = 4 : i64} : (!spike.train<8x?x3>) -> !spike.train<8x?x3>
  %y = spike.to_tensor %late : (!spike.train<8x?x3>) -> tensor<8x?x3xf32>
  func.return %y : tensor<8x?x3xf32>
}
// CHECK: %[[D:.*]] = tensor.constant dense<[0, 3, 1]> : tensor<3xi64>
// CHECK: spike.projection @{{.*}} delays(%[[D]] : tensor<3xi64>) {connection = "one_to_one"}
// BACK: %[[D:.*]] = tensor.{{.*}} : tensor<3xi64>
// BACK: spike.delay %{{.*}} delays(%[[D]] : tensor<3xi64>) {steps = 3 : i64}
