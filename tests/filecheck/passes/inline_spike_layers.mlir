// RUN: triton-opt %s -p inline-spike-layers | filecheck %s
// The body of a layer goes in its place.

func.func @forward(%x: !spike.train<?x?x8>, %w: tensor<8x4xf32>) -> !spike.train<?x?x4> {
  %s = spike.layer %x, %w : (!spike.train<?x?x8>, tensor<8x4xf32>) -> !spike.train<?x?x4> {
  ^bb0(%a: !spike.train<?x?x8>, %b: tensor<8x4xf32>):
    %i = spike.linear %a, %b : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
    %o = spike.lif %i {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
    spike.yield %o : !spike.train<?x?x4>
  }
  func.return %s : !spike.train<?x?x4>
}
// CHECK:      func.func @forward
// CHECK-NEXT:   %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
// CHECK-NEXT:   %o = spike.lif %i {beta = 9.000000e-01 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
// CHECK-NEXT:   func.return %o : !spike.train<?x?x4>
