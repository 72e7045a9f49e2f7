// RUN: triton-opt %s -p canonicalize --verify-semantics | filecheck %s
// Rewrites of spiking ops that keep every bit of the result.

// A train that became a tensor and a train again.
func.func @round_trip(%s: !spike.train<8x?x4>) -> !spike.train<8x?x4> {
  %x = spike.to_tensor %s : (!spike.train<8x?x4>) -> tensor<8x?x4xf32>
  %t = spike.from_tensor %x : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return %t : !spike.train<8x?x4>
}
// CHECK:      @round_trip(%s: !spike.train<8x?x4>)
// CHECK-NEXT:   func.return %s

func.func @truth_values(%x: tensor<8x4xi1>) -> tensor<8x4xi1> {
  %s = spike.from_tensor %x : (tensor<8x4xi1>) -> !spike.train<8x4>
  %y = spike.to_tensor %s : (!spike.train<8x4>) -> tensor<8x4xi1>
  func.return %y : tensor<8x4xi1>
}
// CHECK:      @truth_values(%x: tensor<8x4xi1>)
// CHECK-NEXT:   func.return %x

// Floats lose their size on the way: this stays.
func.func @sizes(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = spike.from_tensor %x : (tensor<8x4xf32>) -> !spike.train<8x4>
  %y = spike.to_tensor %s : (!spike.train<8x4>) -> tensor<8x4xf32>
  func.return %y : tensor<8x4xf32>
}
// CHECK:      @sizes
// CHECK-NEXT:   spike.from_tensor
// CHECK-NEXT:   spike.to_tensor

func.func @delays(%s: !spike.train<8x?x4>) -> !spike.train<8x?x4> {
  %a = spike.delay %s {steps = 0 : i64} : (!spike.train<8x?x4>) -> !spike.train<8x?x4>
  %b = spike.delay %a {steps = 2 : i64} : (!spike.train<8x?x4>) -> !spike.train<8x?x4>
  %c = spike.delay %b {steps = 3 : i64} : (!spike.train<8x?x4>) -> !spike.train<8x?x4>
  func.return %c : !spike.train<8x?x4>
}
// CHECK:      @delays
// CHECK-NEXT:   %c = spike.delay %s {steps = 5 : i64}
// CHECK-NEXT:   func.return %c

// A delay that starts with spikes of its own is not merged.
func.func @resumed(%s: !spike.train<8x4>, %i: !spike.train<1x4>) -> !spike.train<8x4> {
  %a = spike.delay %s initial(%i : !spike.train<1x4>) {steps = 1 : i64}
      : (!spike.train<8x4>) -> !spike.train<8x4>
  %b = spike.delay %a {steps = 2 : i64} : (!spike.train<8x4>) -> !spike.train<8x4>
  func.return %b : !spike.train<8x4>
}
// CHECK:      @resumed
// CHECK-NEXT:   spike.delay %s initial
// CHECK-NEXT:   spike.delay

func.func @unit_windows(%s: !spike.train<8x?x4x6x6>, %x: tensor<8x?x4x6x6xf32>)
    -> (!spike.train<8x?x4x6x6>, tensor<8x?x4x6x6xf32>) {
  %p = spike.max_pool %s {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>,
      padding = array<i64: 0, 0, 0, 0>} : (!spike.train<8x?x4x6x6>) -> !spike.train<8x?x4x6x6>
  %q = spike.avg_pool %x {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>,
      padding = array<i64: 0, 0, 0, 0>} : (tensor<8x?x4x6x6xf32>) -> tensor<8x?x4x6x6xf32>
  func.return %p, %q : !spike.train<8x?x4x6x6>, tensor<8x?x4x6x6xf32>
}
// CHECK:      @unit_windows
// CHECK-NEXT:   func.return %s, %x

// A factor becomes the gain, the gain the scale of the synapse; it is no power of two and stays there.
func.func @gain(%s: !spike.train<8x?x4>, %w: tensor<4x3xf32>) -> !spike.train<8x?x3> {
  %i = spike.linear %s, %w : !spike.train<8x?x4>, tensor<4x3xf32> -> tensor<8x?x3xf32>
  %c = tensor.constant dense<0.7> : tensor<f32>
  %g = tensor.mul %i, %c : (tensor<8x?x3xf32>, tensor<f32>) -> tensor<8x?x3xf32>
  %t = spike.lif %g {beta = 0.9 : f64} : (tensor<8x?x3xf32>) -> !spike.train<8x?x3>
  func.return %t : !spike.train<8x?x3>
}
// CHECK:      @gain
// CHECK-NEXT:   %[[SCALE:.*]] = tensor.constant dense<7.000000e-01> : tensor<f32>
// CHECK-NEXT:   %[[SUM:.*]] = spike.linear %s, %w scale(%[[SCALE]] : tensor<f32>)
// CHECK-NEXT:   spike.lif %[[SUM]] {beta = 9.000000e-01 : f64} :

// A power of two moves into constant weights and bias.
func.func @into_weights(%s: !spike.train<8x2>) -> !spike.train<8x2> {
  %w = tensor.constant dense<[[1.0, -3.0], [0.0, 0.1]]> : tensor<2x2xf32>
  %b = tensor.constant dense<[0.5, 1.0]> : tensor<2xf32>
  %i = spike.linear %s, %w bias(%b : tensor<2xf32>)
      : !spike.train<8x2>, tensor<2x2xf32> -> tensor<8x2xf32>
  %t = spike.integrate_fire %i {gain = 2.0 : f64} : (tensor<8x2xf32>) -> !spike.train<8x2>
  func.return %t : !spike.train<8x2>
}
// CHECK:      @into_weights
// CHECK-DAG:    %[[BIAS:.*]] = tensor.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-DAG:    %[[WEIGHT:.*]] = tensor.constant dense<{{\[\[}}2.000000e+00, -6.000000e+00], [0.000000e+00, 2.000000e-01]]> : tensor<2x2xf32>
// CHECK:        %[[I:.*]] = spike.linear %s, %[[WEIGHT]] bias(%[[BIAS]] : tensor<2xf32>) :
// CHECK-NEXT:   spike.integrate_fire %[[I]] : (tensor<8x2xf32>)

// Sums of trits are exact: a power of two joins the scale.
func.func @trits(%s: !spike.train<8x2>, %w: tensor<2x2x!ternary.trit>) -> !spike.train<8x2> {
  %a = tensor.constant dense<[0.3, 0.7]> : tensor<2xf32>
  %i = spike.linear %s, %w scale(%a : tensor<2xf32>)
      : !spike.train<8x2>, tensor<2x2x!ternary.trit> -> tensor<8x2xf32>
  %t = spike.lif %i {beta = 0.5 : f64, gain = 0.5 : f64} : (tensor<8x2xf32>) -> !spike.train<8x2>
  func.return %t : !spike.train<8x2>
}
// CHECK:      @trits
// CHECK-NEXT:   %[[SCALE:.*]] = tensor.constant dense<[1.500000e-01, 3.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:   %[[I:.*]] = spike.linear %s, %w scale(%[[SCALE]] : tensor<2xf32>)
// CHECK-NEXT:   spike.lif %[[I]] {beta = 5.000000e-01 : f64} :

// Another gain than a power of two would round a bias, and a shared sum serves others too.
func.func @kept(%s: !spike.train<8x2>, %w: tensor<2x2xf32>, %b: tensor<2xf32>)
    -> (!spike.train<8x2>, !spike.train<8x2>, tensor<8x2xf32>) {
  %i = spike.linear %s, %w bias(%b : tensor<2xf32>)
      : !spike.train<8x2>, tensor<2x2xf32> -> tensor<8x2xf32>
  %t = spike.lif %i {beta = 0.5 : f64, gain = 0.7 : f64} : (tensor<8x2xf32>) -> !spike.train<8x2>
  %j = spike.linear %s, %w : !spike.train<8x2>, tensor<2x2xf32> -> tensor<8x2xf32>
  %u = spike.lif %j {beta = 0.5 : f64, gain = 0.7 : f64} : (tensor<8x2xf32>) -> !spike.train<8x2>
  func.return %t, %u, %j : !spike.train<8x2>, !spike.train<8x2>, tensor<8x2xf32>
}
// CHECK:      @kept
// CHECK:        gain = 7.000000e-01
// CHECK:        gain = 7.000000e-01

func.func @simpler(%x: tensor<8x?x4xf32>) -> (!spike.train<8x?x4>, !spike.train<8x?x4>) {
  %a = spike.cuba_lif %x {alpha = 0.0 : f64, beta = 1.0 : f64, threshold = 2.0 : f64}
      : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  %b = spike.adaptive_lif %x {beta = 0.5 : f64, rho = 0.5 : f64, kappa = 0.0 : f64}
      : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return %a, %b : !spike.train<8x?x4>, !spike.train<8x?x4>
}
// CHECK-LABEL: func.func @simpler
// CHECK-NEXT:  %a = spike.integrate_fire %x {threshold = 2.000000e+00 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
// CHECK-NEXT:  %b = spike.lif %x {beta = 5.000000e-01 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>

func.func @gains(%s: !spike.train<8x?x2>) -> tensor<8x?x2xf32> {
  %w = tensor.constant dense<[[1.0, 3.0], [0.5, 0.25]]> : tensor<2x2xf32>
  %g = tensor.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %i = spike.linear %s, %w : !spike.train<8x?x2>, tensor<2x2xf32> -> tensor<8x?x2xf32>
  %y = spike.leaky_integrator %i gain(%g : tensor<2xf32>) {beta = 0.5 : f64}
      : (tensor<8x?x2xf32>) -> tensor<8x?x2xf32>
  func.return %y : tensor<8x?x2xf32>
}
// CHECK-LABEL: func.func @gains
// CHECK:       %[[W:.*]] = tensor.constant dense<{{\[\[}}2.000000e+00, 1.200000e+01], [1.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>
// CHECK:       spike.linear %s, %[[W]] : !spike.train<8x?x2>
// CHECK-NEXT:  spike.leaky_integrator %{{.*}} {beta = 5.000000e-01 : f64}
