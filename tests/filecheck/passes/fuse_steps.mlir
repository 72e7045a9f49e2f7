// RUN: triton-opt %s -p fuse-steps | filecheck %s
// Two layers and a sum over the steps share one loop, which leaves no run.

func.func @forward(%x: tensor<8x1x4xf32>) -> tensor<1x4xf32> {
  %w = tensor.parameter "fc.weight" : tensor<4x4xf32>
  %s = spike.lif %x {beta = 0.5 : f64} : (tensor<8x1x4xf32>) -> !spike.train<8x1x4>
  %i = spike.linear %s, %w : !spike.train<8x1x4>, tensor<4x4xf32> -> tensor<8x1x4xf32>
  %t = spike.lif %i {beta = 0.5 : f64} : (tensor<8x1x4xf32>) -> !spike.train<8x1x4>
  %j = spike.to_tensor %t : (!spike.train<8x1x4>) -> tensor<8x1x4xf32>
  %y = tensor.reduce_sum %j {axes = array<i64: 0>} : (tensor<8x1x4xf32>) -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}
// CHECK-LABEL: func.func @forward
// CHECK:       %3, %4, %5 = spike.scan %x states(%0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>) : (tensor<8x1x4xf32>) -> (), (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x1x4xf32>) {
// CHECK-NEXT:  ^bb0(%x_1: tensor<1x1x4xf32>, %6: tensor<1x4xf32>, %7: tensor<1x4xf32>, %8: tensor<1x1x4xf32>):
// CHECK:         %s, %9 = spike.lif %x_1 initial(%6 : tensor<1x4xf32>)
// CHECK-NEXT:    %i = spike.linear %s, %w_1
// CHECK-NEXT:    %t, %10 = spike.lif %i initial(%7 : tensor<1x4xf32>)
// CHECK-NEXT:    %j = spike.to_tensor %t
// CHECK-NEXT:    %11 = tensor.add %8, %j
// CHECK-NEXT:    spike.yield %9, %10, %11
// CHECK:       %y = tensor.squeeze %5
