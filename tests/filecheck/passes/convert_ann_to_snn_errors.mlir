// RUN: not triton-opt %s -p 'convert-ann-to-snn{threshold=1.0}' 2>&1 | filecheck %s
// RUN: not triton-opt %s -p convert-ann-to-snn 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not triton-opt %s -p 'convert-ann-to-snn{timesteps=0}' 2>&1 | filecheck %s --check-prefix=STEPS
// RUN: not triton-opt %s -p 'convert-ann-to-snn{correct=all}' 2>&1 | filecheck %s --check-prefix=CORRECT
// RUN: not triton-opt %s -p 'convert-ann-to-snn{threshold=-1.0}' 2>&1 | filecheck %s --check-prefix=NEGATIVE
// RUN: not triton-opt %s -p balance-thresholds 2>&1 | filecheck %s --check-prefix=DATA
// RUN: not triton-opt %s -p 'balance-thresholds{method=median}' 2>&1 | filecheck %s --check-prefix=METHOD
// RUN: not triton-opt %s -p 'balance-thresholds{initial=much}' 2>&1 | filecheck %s --check-prefix=INITIAL
// RUN: not triton-opt %s -p normalize-weights 2>&1 | filecheck %s --check-prefix=LAMBDA

func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %c = tensor.constant dense<1.0> : tensor<2xf32>
  %h = tensor.relu %x : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %g = tensor.gelu %h : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %n = tensor.layer_norm %g, %c : tensor<?x2xf32>, tensor<2xf32> -> tensor<?x2xf32>
  %t = tensor.mul %h, %h : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %k = tensor.leaky_relu %h {alpha = 0.1 : f64} : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %q = tensor.add %k, %t : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %r = tensor.add %n, %q : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %y = tensor.relu %r : (tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
// CHECK-NOT: Traceback
// CHECK: target 'spike' cannot express 4 operation(s):
// CHECK-NEXT: tensor.gelu at {{.*}}:14:3: no neurons or synapses stand for it
// CHECK-NEXT: tensor.layer_norm at {{.*}}:15:3: no neurons or synapses stand for it
// CHECK-NEXT: tensor.mul at {{.*}}:16:3: it is no linear function of what changes over time
// CHECK-NEXT: tensor.leaky_relu at {{.*}}:17:3: no neurons or synapses stand for it
// NONE: tensor.relu at {{.*}}:13:3: it has no threshold: give data=… or threshold=…, or run balance-thresholds first
// STEPS: convert-ann-to-snn expects timesteps of at least 1, got 0
// CORRECT: convert-ann-to-snn expects correct one of none, bias, weights, got 'all'
// NEGATIVE: convert-ann-to-snn expects a positive threshold, got -1.0
// DATA: balance-thresholds needs sample inputs to calibrate with: give a file, as in 'balance-thresholds{data="samples.npz"}'
// METHOD: balance-thresholds: expected method one of max, percentile, mse, qcfs, got 'median'
// INITIAL: balance-thresholds: expected initial half, zero or a number, got 'much'
// LAMBDA: normalize-weights needs sample inputs to calibrate with
