// RUN: triton-opt %s -p expose-state | filecheck %s
// RUN: triton-opt %s -p 'expose-state,infer-shapes{batch=2}' | filecheck %s --check-prefix=BATCH
// The states of neurons, delays, feedback and encoders become arguments and results.

// CHECK:      func.func @forward(%x: tensor<?x4xf32>, %state_elapsed: tensor<i64> {tensor.name = "state.elapsed.0"}, %state_v: tensor<?x4xf32> {tensor.name = "state.v.1"}, %state_started: tensor<i1> {tensor.name = "state.started.2"}, %state_delay: tensor<2x?x4xi1> {tensor.name = "state.delay.3"}) -> (!spike.train<8x?x4>, tensor<i64> {tensor.name = "state.elapsed.0"}, tensor<?x4xf32> {tensor.name = "state.v.1"}, tensor<i1> {tensor.name = "state.started.2"}, tensor<2x?x4xi1> {tensor.name = "state.delay.3"}) attributes {spike.states = 4 : i64} {
// CHECK-NEXT:   %half = tensor.constant dense<5.000000e-01> : tensor<1x4xf32>
// CHECK-NEXT:   %0 = tensor.constant dense<8> : tensor<i64>
// CHECK-NEXT:   %1 = tensor.add %state_elapsed, %0 : (tensor<i64>, tensor<i64>) -> tensor<i64>
// CHECK-NEXT:   %s = spike.encode %x elapsed(%state_elapsed : tensor<i64>) {scheme = "latency", timesteps = 8 : i64, period = 8 : i64} : (tensor<?x4xf32>) -> !spike.train<8x?x4>
// CHECK-NEXT:   %i = spike.to_tensor %s
// CHECK-NEXT:   %2 = tensor.constant dense<true> : tensor<i1>
// CHECK-NEXT:   %3 = tensor.where %state_started, %state_v, %half : (tensor<i1>, tensor<?x4xf32>, tensor<1x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:   %y, %4 = spike.lif %i initial(%3 : tensor<?x4xf32>) {beta = 9.000000e-01 : f64} : (tensor<8x?x4xf32>) -> (!spike.train<8x?x4>, tensor<?x4xf32>)
// CHECK-NEXT:   %5 = spike.from_tensor %state_delay : (tensor<2x?x4xi1>) -> !spike.train<2x?x4>
// CHECK-NEXT:   %d, %6 = spike.delay %y initial(%5 : !spike.train<2x?x4>) {steps = 2 : i64} : (!spike.train<8x?x4>) -> (!spike.train<8x?x4>, !spike.train<2x?x4>)
// CHECK-NEXT:   %7 = spike.to_tensor %6 : (!spike.train<2x?x4>) -> tensor<2x?x4xi1>
// CHECK-NEXT:   func.return %d, %1, %4, %2, %7 : !spike.train<8x?x4>, tensor<i64>, tensor<?x4xf32>, tensor<i1>, tensor<2x?x4xi1>

// BATCH: func.func @forward(%x: tensor<2x4xf32>, %state_elapsed: tensor<i64> {tensor.name = "state.elapsed.0"}, %state_v: tensor<2x4xf32> {tensor.name = "state.v.1"}, %state_started: tensor<i1> {tensor.name = "state.started.2"}, %state_delay: tensor<2x2x4xi1> {tensor.name = "state.delay.3"})

func.func @forward(%x: tensor<?x4xf32>) -> !spike.train<8x?x4> {
  %half = tensor.constant dense<0.5> : tensor<1x4xf32>
  %s = spike.encode %x {scheme = "latency", timesteps = 8 : i64}
      : (tensor<?x4xf32>) -> !spike.train<8x?x4>
  %i = spike.to_tensor %s : (!spike.train<8x?x4>) -> tensor<8x?x4xf32>
  %y = spike.lif %i initial(%half : tensor<1x4xf32>) {beta = 0.9 : f64}
      : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  %d = spike.delay %y {steps = 2 : i64} : (!spike.train<8x?x4>) -> !spike.train<8x?x4>
  func.return %d : !spike.train<8x?x4>
}
