// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%i: tensor<8x?x4xf32>, %w: tensor<4x4xf32>) -> !spike.train<8x?x4> {
  %y = spike.recurrent %i, %w : (tensor<8x?x4xf32>, tensor<4x4xf32>) -> !spike.train<8x?x4> {
  ^bb0(%x: tensor<8x?x4xf32>, %r: tensor<4x4xf32>, %last: !spike.train<8x?x4>):
    %f = spike.linear %last, %r : !spike.train<8x?x4>, tensor<4x4xf32> -> tensor<8x?x4xf32>
    %c = tensor.add %x, %f
        : (tensor<8x?x4xf32>, tensor<8x?x4xf32>) -> tensor<8x?x4xf32>
    %s = spike.lif %c {beta = 0.9 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
    spike.yield %s : !spike.train<8x?x4>
  }
  func.return %y : !spike.train<8x?x4>
}
// CHECK:      %y = spike.recurrent %i, %w : (tensor<8x?x4xf32>, tensor<4x4xf32>) -> !spike.train<8x?x4> {
// CHECK-NEXT: ^bb0(%x: tensor<8x?x4xf32>, %r: tensor<4x4xf32>, %last: !spike.train<8x?x4>):
// CHECK-NEXT:   %f = spike.linear %last, %r : !spike.train<8x?x4>, tensor<4x4xf32> -> tensor<8x?x4xf32>
// CHECK-NEXT:   %c = tensor.add %x, %f : (tensor<8x?x4xf32>, tensor<8x?x4xf32>) -> tensor<8x?x4xf32>
// CHECK-NEXT:   %s = spike.lif %c {beta = 9.000000e-01 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
// CHECK-NEXT:   spike.yield %s : !spike.train<8x?x4>
// CHECK-NEXT: }

func.func @f1(%i: !spike.train<?x4>, %b: tensor<1x4xf32>) {
  %y, %z = spike.recurrent %i initial(%b : tensor<1x4xf32>)
      : (!spike.train<?x4>) -> (tensor<?x4xf32>, !spike.train<?x4>) {
  ^bb0(%x: !spike.train<?x4>, %last: tensor<?x4xf32>):
    spike.yield %last, %x : tensor<?x4xf32>, !spike.train<?x4>
  }
  func.return
}
// CHECK:      %y, %z = spike.recurrent %i initial(%b : tensor<1x4xf32>) : (!spike.train<?x4>) -> (tensor<?x4xf32>, !spike.train<?x4>) {
// CHECK-NEXT: ^bb0(%x: !spike.train<?x4>, %last: tensor<?x4xf32>):
// CHECK-NEXT:   spike.yield %last, %x : tensor<?x4xf32>, !spike.train<?x4>
// CHECK-NEXT: }
