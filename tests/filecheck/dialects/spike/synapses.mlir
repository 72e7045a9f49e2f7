// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%s: !spike.train<8x?x4>, %w: tensor<4x3xf32>) {
  %i = spike.linear %s, %w : !spike.train<8x?x4>, tensor<4x3xf32> -> tensor<8x?x3xf32>
  func.return
}
// CHECK: %i = spike.linear %s, %w : !spike.train<8x?x4>, tensor<4x3xf32> -> tensor<8x?x3xf32>

func.func @f1(%s: !spike.train<8x?x4>, %w: tensor<4x3x!ternary.trit>) {
  %i = spike.linear %s, %w : !spike.train<8x?x4>, tensor<4x3x!ternary.trit> -> tensor<8x?x3xi32>
  func.return
}
// CHECK: %i = spike.linear %s, %w : !spike.train<8x?x4>, tensor<4x3x!ternary.trit> -> tensor<8x?x3xi32>

func.func @f2(%s: !spike.train<8x?x4>, %w: tensor<4x3xi8>, %b: tensor<3xi32>) {
  %i = spike.linear %s, %w bias(%b : tensor<3xi32>) : !spike.train<8x?x4>, tensor<4x3xi8> ->
      tensor<8x?x3xi32>
  func.return
}
// CHECK: %i = spike.linear %s, %w bias(%b : tensor<3xi32>) : !spike.train<8x?x4>, tensor<4x3xi8> -> tensor<8x?x3xi32>

func.func @f3(%s: !spike.train<8x?x4>, %w: tensor<4x3xi8>, %a: tensor<f32>, %b: tensor<3xf32>) {
  %i = spike.linear %s, %w scale(%a : tensor<f32>) bias(%b : tensor<3xf32>) :
      !spike.train<8x?x4>, tensor<4x3xi8> -> tensor<8x?x3xf32>
  func.return
}
// CHECK: %i = spike.linear %s, %w scale(%a : tensor<f32>) bias(%b : tensor<3xf32>) : !spike.train<8x?x4>, tensor<4x3xi8> -> tensor<8x?x3xf32>

func.func @f4(%x: tensor<8x?x4xf32>, %w: tensor<4x3x!ternary.trit>, %a: tensor<3xf32>) {
  %i = spike.linear %x, %w scale(%a : tensor<3xf32>) : tensor<8x?x4xf32>,
      tensor<4x3x!ternary.trit> -> tensor<8x?x3xf32>
  func.return
}
// CHECK: %i = spike.linear %x, %w scale(%a : tensor<3xf32>) : tensor<8x?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<8x?x3xf32>

func.func @f5(%s: !spike.train<8x?x4x6x6>, %w: tensor<2x4x3x3xi8>) {
  %i = spike.conv %s, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation
      = array<i64: 1, 1>} : !spike.train<8x?x4x6x6>, tensor<2x4x3x3xi8> -> tensor<8x?x2x6x6xi32>
  func.return
}
// CHECK: %i = spike.conv %s, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : !spike.train<8x?x4x6x6>, tensor<2x4x3x3xi8> -> tensor<8x?x2x6x6xi32>

func.func @f6(%s: !spike.train<8x?x4x6x6>, %w: tensor<2x2x3x3x!ternary.trit>, %a: tensor<2xf32>) {
  %i = spike.conv %s, %w scale(%a : tensor<2xf32>) {strides = array<i64: 1, 1>, padding =
      array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 2 : i64} :
      !spike.train<8x?x4x6x6>, tensor<2x2x3x3x!ternary.trit> -> tensor<8x?x2x6x6xf32>
  func.return
}
// CHECK: %i = spike.conv %s, %w scale(%a : tensor<2xf32>) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 2 : i64} : !spike.train<8x?x4x6x6>, tensor<2x2x3x3x!ternary.trit> -> tensor<8x?x2x6x6xf32>

func.func @f7(%s: !spike.train<8x?x4x6x6>) {
  %y = spike.avg_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding =
      array<i64: 0, 0, 0, 0>} : (!spike.train<8x?x4x6x6>) -> tensor<8x?x4x3x3xf32>
  func.return
}
// CHECK: %y = spike.avg_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (!spike.train<8x?x4x6x6>) -> tensor<8x?x4x3x3xf32>

func.func @f8(%x: tensor<8x?x4x6x6xf16>) {
  %y = spike.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding =
      array<i64: 0, 0, 0, 0>, count_include_pad = false} : (tensor<8x?x4x6x6xf16>) ->
      tensor<8x?x4x3x3xf16>
  func.return
}
// CHECK: %y = spike.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, count_include_pad = false} : (tensor<8x?x4x6x6xf16>) -> tensor<8x?x4x3x3xf16>

func.func @f9(%s: !spike.train<8x?x4x6x6>) {
  %y = spike.max_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding =
      array<i64: 0, 0, 0, 0>} : (!spike.train<8x?x4x6x6>) -> !spike.train<8x?x4x3x3>
  func.return
}
// CHECK: %y = spike.max_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (!spike.train<8x?x4x6x6>) -> !spike.train<8x?x4x3x3>

func.func @f10(%s: !spike.train<8x?x4>) {
  %y = spike.delay %s {steps = 2 : i64} : (!spike.train<8x?x4>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %y = spike.delay %s {steps = 2 : i64} : (!spike.train<8x?x4>) -> !spike.train<8x?x4>

func.func @f11(%x: tensor<8x?x4xf32>, %d: tensor<4xi32>, %i: tensor<3x?x4xf32>) {
  %y, %z = spike.delay %x delays(%d : tensor<4xi32>) initial(%i : tensor<3x?x4xf32>) {steps = 3
      : i64} : (tensor<8x?x4xf32>) -> (tensor<8x?x4xf32>, tensor<3x?x4xf32>)
  func.return
}
// CHECK: %y, %z = spike.delay %x delays(%d : tensor<4xi32>) initial(%i : tensor<3x?x4xf32>) {steps = 3 : i64} : (tensor<8x?x4xf32>) -> (tensor<8x?x4xf32>, tensor<3x?x4xf32>)

func.func @f12(%x: tensor<4x?x8x6x6xf32>, %v: tensor<8xf32>) {
  %y = spike.batch_norm %x, %v, %v, %v, %v : (tensor<4x?x8x6x6xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x8x6x6xf32>
  func.return
}
// CHECK: %y = spike.batch_norm %x, %v, %v, %v, %v : (tensor<4x?x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x8x6x6xf32>

func.func @f13(%x: tensor<4x?x6x8xf32>, %v: tensor<8xf32>) {
  %y = spike.batch_norm %x, %v, %v, %v, %v {kind = "tdbn", axis = -1 : i64, alpha = 0.5 : f64,
      threshold = 0.5 : f64, epsilon = 1.0e-03 : f64} : (tensor<4x?x6x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x6x8xf32>
  func.return
}
// CHECK: %y = spike.batch_norm %x, %v, %v, %v, %v {kind = "tdbn", axis = -1 : i64, alpha = 5.000000e-01 : f64, threshold = 5.000000e-01 : f64, epsilon = 1.000000e-03 : f64} : (tensor<4x?x6x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x6x8xf32>
