// RUN: triton-opt %s -p fuse-pools | filecheck %s

func.func @forward(%s: !spike.train<4x?x2x4x4>) -> tensor<4x?x3x2x2xf32> {
  %w = tensor.constant dense<4.0> : tensor<3x2x3x3xf32>
  %m = spike.avg_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (!spike.train<4x?x2x4x4>) -> tensor<4x?x2x2x2xf32>
  %i = spike.conv %m, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : tensor<4x?x2x2x2xf32>, tensor<3x2x3x3xf32> -> tensor<4x?x3x2x2xf32>
  func.return %i : tensor<4x?x3x2x2xf32>
}
// CHECK-NOT: avg_pool
// CHECK: %[[W:.*]] = tensor.constant dense<1.000000e+00> : tensor<3x2x6x6xf32>
// CHECK: spike.conv %s, %[[W]] {strides = array<i64: 2, 2>, padding = array<i64: 2, 2, 2, 2>
