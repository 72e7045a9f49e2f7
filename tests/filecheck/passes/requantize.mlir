// RUN: triton-opt %s --split-input-file -p requantize | filecheck %s
// RUN: triton-opt %s --split-input-file -p requantize,requantize | filecheck %s

// Scales 0.01 and 0.04 on a grid of 0.02: factors 1/2 and 2. Biases 0.05 and 0.08: 5 and 2 units.
func.func @linear(%x: tensor<?x3xi8>, %w: tensor<3x2x!ternary.trit>) -> tensor<?x2xi8> {
  %acc = ternary.linear %x, %w : tensor<?x3xi8>, tensor<3x2x!ternary.trit> -> tensor<?x2xi32>
  %s = tensor.constant dense<[0.01, 0.04]> : tensor<2xf32>
  %none = tensor.constant dense<0> : tensor<i32>
  %z = tensor.dequantize %acc, %s, %none {axis = -1 : i64} : (tensor<?x2xi32>, tensor<2xf32>, tensor<i32>) -> tensor<?x2xf32>
  %b = tensor.constant dense<[0.05, 0.08]> : tensor<2xf32>
  %h = tensor.add %z, %b : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %a = tensor.relu %h : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %t = tensor.constant dense<0.02> : tensor<f32>
  %zero = tensor.constant dense<-3> : tensor<i8>
  %q = tensor.quantize %a, %t, %zero {low = -127 : i64} : (tensor<?x2xf32>, tensor<f32>, tensor<i8>) -> tensor<?x2xi8>
  func.return %q : tensor<?x2xi8>
}
// CHECK-LABEL: func.func @linear
// CHECK-DAG: %[[M:.*]] = tensor.constant dense<[1, 4]> : tensor<2xi32>
// CHECK-DAG: %[[S:.*]] = tensor.constant dense<1> : tensor<2xi32>
// CHECK-DAG: %[[ZERO:.*]] = tensor.constant dense<-3> : tensor<i8>
// CHECK-DAG: %[[BIAS:.*]] = tensor.constant dense<[5, 2]> : tensor<2xi32>
// CHECK: %q = ternary.linear %x, %w bias(%[[BIAS]] : tensor<2xi32>) multiplier(%[[M]] : tensor<2xi32>)
// CHECK-SAME: zero_point(%[[ZERO]] : tensor<i8>) {low = -3 : i64, high = 127 : i64}
// CHECK-NEXT: func.return %q

// -----

// Batch normalisation with a negative factor; relu6 is 60 steps.
func.func @conv(%x: tensor<?x1x4x4xi8>) -> tensor<?x4xi8> {
  %w = ternary.constant [1, 0, -1, 1] : tensor<1x1x2x2x!ternary.trit>
  %acc = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 1, 0, 0>, dilation = array<i64: 1, 1>} : tensor<?x1x4x4xi8>, tensor<1x1x2x2x!ternary.trit> -> tensor<?x1x3x4xi32>
  %s = tensor.constant dense<0.1> : tensor<f32>
  %none = tensor.constant dense<0> : tensor<i32>
  %z = tensor.dequantize %acc, %s, %none : (tensor<?x1x3x4xi32>, tensor<f32>, tensor<i32>) -> tensor<?x1x3x4xf32>
  %g = tensor.constant dense<[-4.0]> : tensor<1xf32>
  %b = tensor.constant dense<[0.5]> : tensor<1xf32>
  %mean = tensor.constant dense<[0.25]> : tensor<1xf32>
  %var = tensor.constant dense<[64.0]> : tensor<1xf32>
  %n = tensor.batch_norm %z, %g, %b, %mean, %var {epsilon = 0.0 : f64} : (tensor<?x1x3x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x1x3x4xf32>
  %a = tensor.relu6 %n : (tensor<?x1x3x4xf32>) -> tensor<?x1x3x4xf32>
  %p = tensor.max_pool %a {kernel = array<i64: 2, 2>, strides = array<i64: 1, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<?x1x3x4xf32>) -> tensor<?x1x2x2xf32>
  %f = tensor.flatten %p : (tensor<?x1x2x2xf32>) -> tensor<?x4xf32>
  %zero = tensor.constant dense<0> : tensor<i8>
  %q = tensor.quantize %f, %s, %zero : (tensor<?x4xf32>, tensor<f32>, tensor<i8>) -> tensor<?x4xi8>
  func.return %q : tensor<?x4xi8>
}
// CHECK-LABEL: func.func @conv
// CHECK-DAG: %[[M:.*]] = tensor.constant dense<-1> : tensor<i32>
// CHECK-DAG: %[[S:.*]] = tensor.constant dense<1> : tensor<i32>
// (0.5 + 0.25·0.5) / (-0.5·0.1) is -12.5.
// CHECK-DAG: %[[BIAS:.*]] = tensor.constant dense<-12> : tensor<1xi32>
// CHECK: %[[A:.*]] = ternary.conv %x, %w bias(%[[BIAS]] : tensor<1xi32>) multiplier(%[[M]] : tensor<i32>) shift(%[[S]] : tensor<i32>)
// CHECK-SAME: low = 0 : i64, high = 60 : i64, strides = array<i64: 1, 1>, padding = array<i64: 0, 1, 0, 0>
// CHECK-NEXT: %[[P:.*]] = tensor.max_pool %[[A]] {{.*}} : (tensor<?x1x3x4xi8>) -> tensor<?x1x2x2xi8>
// CHECK-NEXT: %[[F:.*]] = tensor.flatten %[[P]]
// CHECK-NEXT: func.return %[[F]]

// -----

// A sum of two activations goes on a common grid: 0.1 on one of 0.4·2^-16 is a factor of 2^14.
func.func @residual(%a: tensor<?x2xi8>, %b: tensor<?x2xi8>) -> tensor<?x2xi8> {
  %s = tensor.constant dense<0.1> : tensor<f32>
  %t = tensor.constant dense<0.2> : tensor<f32>
  %u = tensor.constant dense<0.4> : tensor<f32>
  %zero = tensor.constant dense<0> : tensor<i8>
  %x = tensor.dequantize %a, %s, %zero : (tensor<?x2xi8>, tensor<f32>, tensor<i8>) -> tensor<?x2xf32>
  %y = tensor.dequantize %b, %t, %zero : (tensor<?x2xi8>, tensor<f32>, tensor<i8>) -> tensor<?x2xf32>
  %sum = tensor.add %x, %y : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %r = tensor.relu %sum : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %q = tensor.quantize %r, %u, %zero : (tensor<?x2xf32>, tensor<f32>, tensor<i8>) -> tensor<?x2xi8>
  func.return %q : tensor<?x2xi8>
}
// CHECK-LABEL: func.func @residual
// CHECK: %[[A:.*]] = tensor.convert %a : (tensor<?x2xi8>) -> tensor<?x2xi32>
// CHECK-NEXT: %[[MA:.*]] = tensor.constant dense<32768> : tensor<i32>
// CHECK-NEXT: %[[SA:.*]] = tensor.constant dense<1> : tensor<i32>
// CHECK: %[[XA:.*]] = tensor.requantize %[[A]], %[[MA]], %[[SA]], {{.*}} : (tensor<?x2xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<?x2xi32>
// CHECK: %[[MB:.*]] = tensor.constant dense<65536> : tensor<i32>
// CHECK: %[[XB:.*]] = tensor.requantize %{{.*}}, %[[MB]],
// CHECK-NEXT: %[[SUM:.*]] = tensor.add %[[XA]], %[[XB]] : (tensor<?x2xi32>, tensor<?x2xi32>) -> tensor<?x2xi32>
// CHECK-NEXT: %[[ONE:.*]] = tensor.constant dense<1> : tensor<i32>
// CHECK-NEXT: %[[BITS:.*]] = tensor.constant dense<16> : tensor<i32>
// CHECK: tensor.requantize %[[SUM]], %[[ONE]], %[[BITS]], {{.*}} {low = 0 : i64} : {{.*}} -> tensor<?x2xi8>

// -----

// Means: sums in i32, and the count in the factor.
func.func @means(%x: tensor<?x3x4x4xi8>) -> tensor<?x3x1x1xi8> {
  %s = tensor.constant dense<0.1> : tensor<f32>
  %zero = tensor.constant dense<0> : tensor<i8>
  %a = tensor.dequantize %x, %s, %zero : (tensor<?x3x4x4xi8>, tensor<f32>, tensor<i8>) -> tensor<?x3x4x4xf32>
  %b = tensor.avg_pool %a {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<?x3x4x4xf32>) -> tensor<?x3x2x2xf32>
  %c = tensor.quantize %b, %s, %zero : (tensor<?x3x2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<?x3x2x2xi8>
  %d = tensor.dequantize %c, %s, %zero : (tensor<?x3x2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<?x3x2x2xf32>
  %e = tensor.global_avg_pool %d : (tensor<?x3x2x2xf32>) -> tensor<?x3x1x1xf32>
  %q = tensor.quantize %e, %s, %zero : (tensor<?x3x1x1xf32>, tensor<f32>, tensor<i8>) -> tensor<?x3x1x1xi8>
  func.return %q : tensor<?x3x1x1xi8>
}
// CHECK-LABEL: func.func @means
// CHECK: %[[ONES:.*]] = ternary.constant [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] : tensor<3x1x2x2x!ternary.trit>
// CHECK: %[[FOUR:.*]] = tensor.constant dense<2> : tensor<i32>
// CHECK: %[[POOLED:.*]] = ternary.conv %x, %[[ONES]] multiplier(%{{.*}} : tensor<i32>) shift(%[[FOUR]] : tensor<i32>)
// CHECK-SAME: groups = 3 : i64
// CHECK: %[[WIDE:.*]] = tensor.convert %[[POOLED]]
// CHECK-NEXT: %[[TOTAL:.*]] = tensor.reduce_sum %[[WIDE]] {axes = array<i64: 2, 3>, keepdims = true}
// CHECK: tensor.requantize %[[TOTAL]]

// -----

// After the last product: one scale and one bias.
func.func @last(%x: tensor<?x3xi8>) -> tensor<?x2xf32> {
  %w = ternary.constant [1, 0, -1, 1, 0, 1] : tensor<3x2x!ternary.trit>
  %acc = ternary.linear %x, %w : tensor<?x3xi8>, tensor<3x2x!ternary.trit> -> tensor<?x2xi32>
  %s = tensor.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %none = tensor.constant dense<0> : tensor<i32>
  %z = tensor.dequantize %acc, %s, %none {axis = -1 : i64} : (tensor<?x2xi32>, tensor<2xf32>, tensor<i32>) -> tensor<?x2xf32>
  %b = tensor.constant dense<[0.5, 3.0]> : tensor<2xf32>
  %two = tensor.constant dense<2.0> : tensor<f32>
  %h = tensor.add %z, %b : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %y = tensor.mul %h, %two : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
// CHECK-LABEL: func.func @last
// CHECK: %[[BIAS:.*]] = tensor.constant dense<[2, 6]> : tensor<2xi32>
// CHECK-NEXT: %[[ACC:.*]] = ternary.linear %x, %w bias(%[[BIAS]] : tensor<2xi32>)
// CHECK: %[[SCALE:.*]] = tensor.constant dense<[5.000000e-01, 1.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: %y = tensor.dequantize %[[ACC]], %[[SCALE]], %{{.*}}
// CHECK-NEXT: func.return %y

// -----

// Other float functions stay in float.
func.func @softmax(%x: tensor<?x3xi8>) -> tensor<?x3xi8> {
  %s = tensor.constant dense<0.1> : tensor<f32>
  %zero = tensor.constant dense<0> : tensor<i8>
  %a = tensor.dequantize %x, %s, %zero : (tensor<?x3xi8>, tensor<f32>, tensor<i8>) -> tensor<?x3xf32>
  %b = tensor.softmax %a {axis = -1 : i64} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %q = tensor.quantize %b, %s, %zero : (tensor<?x3xf32>, tensor<f32>, tensor<i8>) -> tensor<?x3xi8>
  func.return %q : tensor<?x3xi8>
}
// CHECK-LABEL: func.func @softmax
// CHECK: tensor.dequantize
// CHECK-NEXT: tensor.softmax
// CHECK-NEXT: tensor.quantize

// -----

// The same grid: nothing to do but relu.
func.func @same(%x: tensor<?x3xi8>) -> (tensor<?x3xi8>, tensor<3x?xi8>) {
  %s = tensor.constant dense<0.1> : tensor<f32>
  %zero = tensor.constant dense<0> : tensor<i8>
  %a = tensor.dequantize %x, %s, %zero : (tensor<?x3xi8>, tensor<f32>, tensor<i8>) -> tensor<?x3xf32>
  %r = tensor.relu %a : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %q = tensor.quantize %r, %s, %zero : (tensor<?x3xf32>, tensor<f32>, tensor<i8>) -> tensor<?x3xi8>
  %p = tensor.permute %a {perm = array<i64: 1, 0>} : (tensor<?x3xf32>) -> tensor<3x?xf32>
  %c = tensor.quantize %p, %s, %zero : (tensor<3x?xf32>, tensor<f32>, tensor<i8>) -> tensor<3x?xi8>
  func.return %q, %c : tensor<?x3xi8>, tensor<3x?xi8>
}
// CHECK-LABEL: func.func @same
// CHECK-NEXT: %q = tensor.relu %x : (tensor<?x3xi8>) -> tensor<?x3xi8>
// CHECK-NEXT: %c = tensor.permute %x
// CHECK-NEXT: func.return %q, %c
