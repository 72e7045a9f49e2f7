// RUN: triton-opt %s -p split-synapses,canonicalize | filecheck %s

func.func @forward(%a: !spike.train<4x?x1>, %b: !spike.train<4x?x2>) -> tensor<4x?x2xf32> {
  %w = tensor.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %p = spike.to_tensor %a : (!spike.train<4x?x1>) -> tensor<4x?x1xi1>
  %q = spike.to_tensor %b : (!spike.train<4x?x2>) -> tensor<4x?x2xi1>
  %j = tensor.concatenate %p, %q {axis = 2 : i64} : (tensor<4x?x1xi1>, tensor<4x?x2xi1>) -> tensor<4x?x3xi1>
  %s = spike.from_tensor %j : (tensor<4x?x3xi1>) -> !spike.train<4x?x3>
  %i = spike.linear %s, %w : !spike.train<4x?x3>, tensor<3x2xf32> -> tensor<4x?x2xf32>
  func.return %i : tensor<4x?x2xf32>
}
// CHECK-NOT: concatenate
// CHECK: %[[V:.*]] = tensor.constant dense<{{.*}}1.000000e+00, 2.000000e+00{{.*}}> : tensor<1x2xf32>
// CHECK: %[[P:.*]] = spike.linear %a, %[[V]]
// CHECK: %[[U:.*]] = tensor.constant dense<{{.*}}3.000000e+00, 4.000000e+00], [5.000000e+00, 6.000000e+00{{.*}}> : tensor<2x2xf32>
// CHECK: %[[Q:.*]] = spike.linear %b, %[[U]]
// CHECK: tensor.add %[[P]], %[[Q]]
