// RUN: triton-opt %s -p hoist-synapses | filecheck %s
// The synapse of the input leaves the loop; a synapse of constant numbers runs for one step.

func.func @forward(%x: !spike.train<?x?x8>) -> !spike.train<?x?x4> {
  %y = spike.recurrent %x : (!spike.train<?x?x8>) -> !spike.train<?x?x4> {
  ^bb0(%a: !spike.train<?x?x8>, %f: !spike.train<?x?x4>):
    %w = tensor.parameter "fc.weight" : tensor<8x4xf32>
    %r = tensor.parameter "back.weight" : tensor<4x4xf32>
    %i = spike.linear %a, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
    %j = spike.linear %f, %r : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
    %k = tensor.add %i, %j : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
    %s = spike.lif %k {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
    spike.yield %s : !spike.train<?x?x4>
  }
  func.return %y : !spike.train<?x?x4>
}
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:  %w = tensor.parameter "fc.weight" : tensor<8x4xf32>
// CHECK-NEXT:  %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
// CHECK-NEXT:  %y = spike.recurrent %i : (tensor<?x?x4xf32>) -> !spike.train<?x?x4> {
// CHECK-NEXT:  ^bb0(%i_1: tensor<?x?x4xf32>, %f: !spike.train<?x?x4>):
// CHECK-NEXT:    %r = tensor.parameter "back.weight" : tensor<4x4xf32>
// CHECK-NEXT:    %j = spike.linear %f, %r
// CHECK-NEXT:    %k = tensor.add %i_1, %j

func.func @constant(%x: tensor<?x8xf32>, %w: tensor<8x4xf32>) -> tensor<32x?x4xf32> {
  %e = spike.encode %x {scheme = "direct", timesteps = 32 : i64}
      : (tensor<?x8xf32>) -> tensor<32x?x8xf32>
  %i = spike.linear %e, %w : tensor<32x?x8xf32>, tensor<8x4xf32> -> tensor<32x?x4xf32>
  func.return %i : tensor<32x?x4xf32>
}
// CHECK-LABEL: func.func @constant
// CHECK-NEXT:  %0 = spike.encode %x {scheme = "direct", timesteps = 1 : i64} : (tensor<?x8xf32>) -> tensor<1x?x8xf32>
// CHECK-NEXT:  %i = spike.linear %0, %w : tensor<1x?x8xf32>, tensor<8x4xf32> -> tensor<1x?x4xf32>
// CHECK-NEXT:  %1 = tensor.squeeze %i {axes = array<i64: 0>} : (tensor<1x?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:  %i_1 = spike.encode %1 {scheme = "direct", timesteps = 32 : i64} : (tensor<?x4xf32>) -> tensor<32x?x4xf32>
