// RUN: triton-opt %s -p lower-network | filecheck %s
// Populations and projections become ops; what goes in a circle becomes feedback.

// CHECK-NOT:  spike.network
// CHECK:      func.func @forward(%x: !spike.train<?x?x3>) -> (!spike.train<?x?x2>, !spike.train<?x?x2>) attributes {spike.dt = 1.000000e-03 : f64} {
// CHECK-NEXT:   %w = tensor.parameter "fc.weight" : tensor<3x2xf32>
// CHECK-NEXT:   %0 = spike.linear %x, %w : !spike.train<?x?x3>, tensor<3x2xf32> -> tensor<?x?x2xf32>
// CHECK-NEXT:   %b, %a = spike.recurrent %0 : (tensor<?x?x2xf32>) -> (!spike.train<?x?x2>, !spike.train<?x?x2>) {
// CHECK-NEXT:   ^bb0(%1: tensor<?x?x2xf32>, %2: !spike.train<?x?x2>):
// CHECK-NEXT:     %3 = spike.delay %2 {steps = 1 : i64} : (!spike.train<?x?x2>) -> !spike.train<?x?x2>
// CHECK-NEXT:     %r = ternary.constant [0, 1, -1, 0] : tensor<2x2x!ternary.trit>
// CHECK-NEXT:     %4 = tensor.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:     %5 = spike.linear %3, %r scale(%4 : tensor<f32>) : !spike.train<?x?x2>, tensor<2x2x!ternary.trit> -> tensor<?x?x2xf32>
// CHECK-NEXT:     %6 = tensor.add %1, %5
// CHECK-NEXT:     %a_1 = spike.lif %6 {compare = "gt", reset = "to_value", beta = 9.500000e-01 : f64,
// CHECK-NEXT:     %7 = spike.to_tensor %a_1 : (!spike.train<?x?x2>) -> tensor<?x?x2xf32>
// CHECK-NEXT:     %b_1 = spike.integrate_fire %7 {
// CHECK-NEXT:     spike.yield %b_1, %a_1 : !spike.train<?x?x2>, !spike.train<?x?x2>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.return %a, %b : !spike.train<?x?x2>, !spike.train<?x?x2>

spike.network @net dt = 1.0e-3 {
  %w = tensor.parameter "fc.weight" : tensor<3x2xf32>
  %r = ternary.constant [0, 1, -1, 0] : tensor<2x2x!ternary.trit>
  spike.input @x {shape = array<i64: 3>}
  spike.population @a {model = "lif", shape = array<i64: 2>, parameters = {tau = 2.0e-2 : f64}}
  spike.population @b {model = "integrate_fire", shape = array<i64: 2>}
  spike.projection @p @x -> @a weights(%w : tensor<3x2xf32>)
  spike.projection @q @a -> @b {connection = "one_to_one"}
  spike.projection @back @b -> @a weights(%r : tensor<2x2x!ternary.trit>) {delay = 2 : i64}
  spike.probe @pa @a
  spike.probe @pb @b
}

func.func @forward(%x: !spike.train<?x?x3>) -> (!spike.train<?x?x2>, !spike.train<?x?x2>) {
  %o, %u = spike.simulate @net(%x)
      : (!spike.train<?x?x3>) -> (!spike.train<?x?x2>, !spike.train<?x?x2>)
  func.return %o, %u : !spike.train<?x?x2>, !spike.train<?x?x2>
}
