// RUN: triton-opt %s -p lower-recurrent | filecheck %s
// The synapse of the input runs before the loop, weights move into it, the neuron's state is carried.

func.func @forward(%x: !spike.train<?x?x8>) -> !spike.train<?x?x4> {
  %y = spike.recurrent %x : (!spike.train<?x?x8>) -> !spike.train<?x?x4> {
  ^bb0(%a: !spike.train<?x?x8>, %f: !spike.train<?x?x4>):
    %w = tensor.parameter "fc.weight" : tensor<8x4xf32>
    %r = tensor.parameter "back.weight" : tensor<4x4xf32>
    %i = spike.linear %a, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
    %j = spike.linear %f, %r : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
    %k = tensor.add %i, %j : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
    %s = spike.lif %k {beta = 0.5 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
    spike.yield %s : !spike.train<?x?x4>
  }
  func.return %y : !spike.train<?x?x4>
}
// CHECK-LABEL: func.func @forward
// CHECK:       %i = spike.linear %x, %w
// CHECK:       %y, %2, %3 = spike.scan %i states(%0, %1 : tensor<i1>, tensor<f32>) : (tensor<?x?x4xf32>) -> (!spike.train<?x?x4>), (!spike.train<1x?x4>, tensor<?x4xf32>) {
// CHECK-NEXT:  ^bb0(%i_1: tensor<1x?x4xf32>, %4: !spike.train<1x?x4>, %5: tensor<?x4xf32>):
// CHECK-NEXT:    %r = tensor.parameter "back.weight" : tensor<4x4xf32>
// CHECK-NEXT:    %j = spike.linear %4, %r
// CHECK-NEXT:    %k = tensor.add %i_1, %j
// CHECK-NEXT:    %s, %6 = spike.lif %k initial(%5 : tensor<?x4xf32>)
// CHECK-NEXT:    spike.yield %s, %6, %s : !spike.train<1x?x4>, tensor<?x4xf32>, !spike.train<1x?x4>
