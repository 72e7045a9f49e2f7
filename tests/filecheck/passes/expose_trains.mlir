// RUN: triton-opt %s -p 'expose-trains,canonicalize,cse,dce' | filecheck %s
// RUN: triton-opt %s -p 'expose-trains{timesteps=4},canonicalize,cse,dce' | filecheck %s --check-prefix=STEPS

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %x: tensor<?x?x3xi1> {spike.timed}) -> (tensor<?x?x2xi1> {spike.timed}
// STEPS-LABEL: func.func @forward(
// STEPS-SAME: %x: tensor<4x?x3xi1> {spike.timed}) -> (tensor<4x?x2xi1> {spike.timed}
func.func @forward(%x: !spike.train<?x?x3>) -> (!spike.train<?x?x2>, tensor<?x2xi32>) {
  %w = ternary.parameter "w" : tensor<3x2x!ternary.trit>
  %late = spike.delay %x {steps = 2 : i64} : (!spike.train<?x?x3>) -> !spike.train<?x?x3>
  // CHECK: %[[D:late]] = spike.delay %x {steps = 2 : i64} : (tensor<?x?x3xi1>) -> tensor<?x?x3xi1>
  // CHECK: %[[B:.*]] = tensor.convert %[[D]] {ternary.weight = "w"} : (tensor<?x?x3xi1>) -> tensor<?x?x3xi8>
  // CHECK: %[[I:.*]] = ternary.linear %[[B]], %w
  %i = spike.linear %late, %w : !spike.train<?x?x3>, tensor<3x2x!ternary.trit> -> tensor<?x?x2xi32>
  %s = spike.integrate_fire %i : (tensor<?x?x2xi32>) -> !spike.train<?x?x2>
  // CHECK: %[[T:.*]] = spike.to_tensor %s : (!spike.train<?x?x2>) -> tensor<?x?x2xi1>
  // CHECK-NOT: spike.to_tensor
  %d = spike.to_tensor %s : (!spike.train<?x?x2>) -> tensor<?x?x2xi32>
  %n = tensor.reduce_sum %d {axes = array<i64: 0>, keepdims = false} : (tensor<?x?x2xi32>) -> tensor<?x2xi32>
  // CHECK: func.return %[[T]], %n
  func.return %s, %n : !spike.train<?x?x2>, tensor<?x2xi32>
}
