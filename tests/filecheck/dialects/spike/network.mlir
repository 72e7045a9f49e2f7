// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// RUN: triton-opt %s -p canonicalize,cse,dce --verify-semantics | filecheck %s
// Every op of this family parses, prints and parses again, in both formats; passes leave it alone.

spike.network @net dt = 1.0e-03 attributes {integration = "exact"} {
  %w = ternary.parameter "fc.weight" : tensor<784x10x!ternary.trit>
  %a = tensor.constant dense<0.5> : tensor<f32>
  %b = tensor.constant dense<0.25> : tensor<10xf32>
  %t = tensor.constant dense<0.02> : tensor<10xf32>
  %d = tensor.constant dense<3> : tensor<10xi32>
  spike.input @pixels {shape = array<i64: 1, 28, 28>}
  spike.input @noise {shape = array<i64: 10>, signal = "current"}
  spike.population @out values(%t : tensor<10xf32>) {model = "lif", shape = array<i64: 10>,
      parameters = {v_threshold = 0.5 : f64}, each = ["tau"], compare = "ge",
      reset = "subtract"}
  spike.population @sum {model = "relay", shape = array<i64: 1, 14, 14>}
  spike.projection @fc @pixels -> @out weights(%w : tensor<784x10x!ternary.trit>)
      scale(%a : tensor<f32>) bias(%b : tensor<10xf32>)
  spike.projection @drive @noise -> @out {connection = "one_to_one"}
  spike.projection @back @out -> @out {connection = "one_to_one", delay = 2 : i64}
  spike.projection @late @out -> @out delays(%d : tensor<10xi32>)
      {connection = "one_to_one", delay = 1 : i64}
  spike.projection @pool @pixels -> @sum {connection = "sum_pool", kernel = array<i64: 2, 2>}
  spike.probe @spikes @out
  spike.probe @potential @out {variable = "v"}
}
// CHECK:      spike.network @net dt = 1.000000e-03 attributes {integration = "exact"} {
// CHECK-NEXT:   %w = ternary.parameter "fc.weight" : tensor<784x10x!ternary.trit>
// CHECK-NEXT:   %a = tensor.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT:   %b = tensor.constant dense<2.500000e-01> : tensor<10xf32>
// CHECK-NEXT:   %t = tensor.constant dense<2.000000e-02> : tensor<10xf32>
// CHECK-NEXT:   %d = tensor.constant dense<3> : tensor<10xi32>
// CHECK-NEXT:   spike.input @pixels {shape = array<i64: 1, 28, 28>}
// CHECK-NEXT:   spike.input @noise {shape = array<i64: 10>, signal = "current"}
// CHECK-NEXT:   spike.population @out values(%t : tensor<10xf32>) {model = "lif", shape = array<i64: 10>, parameters = {v_threshold = 5.000000e-01 : f64}, each = ["tau"], compare = "ge", reset = "subtract"}
// CHECK-NEXT:   spike.population @sum {model = "relay", shape = array<i64: 1, 14, 14>}
// CHECK-NEXT:   spike.projection @fc @pixels -> @out weights(%w : tensor<784x10x!ternary.trit>) scale(%a : tensor<f32>) bias(%b : tensor<10xf32>)
// CHECK-NEXT:   spike.projection @drive @noise -> @out {connection = "one_to_one"}
// CHECK-NEXT:   spike.projection @back @out -> @out {connection = "one_to_one", delay = 2 : i64}
// CHECK-NEXT:   spike.projection @late @out -> @out delays(%d : tensor<10xi32>) {connection = "one_to_one", delay = 1 : i64}
// CHECK-NEXT:   spike.projection @pool @pixels -> @sum {connection = "sum_pool", kernel = array<i64: 2, 2>}
// CHECK-NEXT:   spike.probe @spikes @out
// CHECK-NEXT:   spike.probe @potential @out {variable = "v"}
// CHECK-NEXT: }

func.func @forward(%x: !spike.train<32x?x1x28x28>, %n: tensor<32x?x10xf32>)
    -> (!spike.train<32x?x10>, tensor<32x?x10xf32>) attributes {spike.dt = 1.0e-03 : f64} {
  %s, %v = spike.simulate @net(%x, %n) : (!spike.train<32x?x1x28x28>, tensor<32x?x10xf32>)
      -> (!spike.train<32x?x10>, tensor<32x?x10xf32>)
  func.return %s, %v : !spike.train<32x?x10>, tensor<32x?x10xf32>
}
// CHECK:      %s, %v = spike.simulate @net(%x, %n) : (!spike.train<32x?x1x28x28>, tensor<32x?x10xf32>) -> (!spike.train<32x?x10>, tensor<32x?x10xf32>)
