// RUN: triton-opt %s --split-input-file -p 'quantize-activations{data="%S/Inputs/samples.npy"}' | filecheck %s
// RUN: triton-opt %s --split-input-file -p 'quantize-activations{data="%S/Inputs/samples.npy"},quantize-activations' | filecheck %s
// RUN: triton-opt %s --split-input-file -p 'quantize-activations{data="%S/Inputs/samples.npy" symmetric=false}' | filecheck %s --check-prefix=SHIFTED
// RUN: triton-opt %s --split-input-file -p 'quantize-activations{data="%S/Inputs/samples.npy" bits=4 signed=false keep-first=true}' | filecheck %s --check-prefix=SECOND

// The largest sample is 1.27: the scale is 0.01.
func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %w = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>
  %s = tensor.constant dense<[0.5, 2.0]> : tensor<2xf32>
  %b = tensor.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %y = ternary.linear %x, %w scale(%s : tensor<2xf32>) bias(%b : tensor<2xf32>) {activation = "relu"}
       : tensor<?x2xf32>, tensor<2x2x!ternary.trit> -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
// CHECK: %x_scale = tensor.constant dense<1.000000e-02> : tensor<f32>
// CHECK: %x_q = tensor.quantize %x, %x_scale, %{{.*}} {low = -127 : i64} : (tensor<?x2xf32>, tensor<f32>, tensor<i8>) -> tensor<?x2xi8>
// CHECK: %[[ACC:.*]] = ternary.linear %x_q, %w : tensor<?x2xi8>, tensor<2x2x!ternary.trit> -> tensor<?x2xi32>
// CHECK: %[[SCALE:.*]] = tensor.constant dense<[5.000000e-03, 2.000000e-02]> : tensor<2xf32>
// CHECK: %[[SUM:.*]] = tensor.dequantize %[[ACC]], %[[SCALE]], %{{.*}} {axis = -1 : i64}
// CHECK-NEXT: %[[BIASED:.*]] = tensor.add %[[SUM]], %b
// CHECK-NEXT: %y = tensor.relu %[[BIASED]]
// CHECK-NEXT: func.return %y

// The range is -0.75 to 1.27 in 255 steps; the sums of the weights' columns are 0 and 1.
// SHIFTED: tensor.constant dense<0.00792156812> : tensor<f32>
// SHIFTED-NEXT: tensor.constant dense<-33> : tensor<i8>
// SHIFTED-NEXT: tensor.quantize %x, {{.*}} : (tensor<?x2xf32>, tensor<f32>, tensor<i8>) -> tensor<?x2xi8>
// SHIFTED: tensor.constant dense<[0, -33]> : tensor<2xi32>
// SHIFTED-NEXT: tensor.dequantize

// SECOND: ternary.linear %x
// SECOND-NOT: tensor.quantize
// SECOND: func.return

// -----

// A pad stands for 0, which is -33 on the shifted grid.
func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2x2xf32> {
  %w = ternary.constant [1, -1, 1, 1, 0, 1] : tensor<2x1x3x!ternary.trit>
  %b = tensor.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %image = tensor.unsqueeze %x {axes = array<i64: 1>} : (tensor<?x2xf32>) -> tensor<?x1x2xf32>
  %y = ternary.conv %image, %w bias(%b : tensor<2xf32>)
       {strides = array<i64: 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1>}
       : tensor<?x1x2xf32>, tensor<2x1x3x!ternary.trit> -> tensor<?x2x2xf32>
  func.return %y : tensor<?x2x2xf32>
}
// CHECK: ternary.conv %image_q, %w {strides = array<i64: 1>, padding = array<i64: 1, 1>
// CHECK: tensor.constant dense<{{\[\[}}1.000000e+00], [-1.000000e+00]]> : tensor<2x1xf32>
// CHECK-NEXT: %y = tensor.add

// SHIFTED: %[[PADDED:.*]] = tensor.pad_to %image_q {low = array<i64: 0, 0, 1>, high = array<i64: 0, 0, 1>, value = -3.300000e+01 : f64}
// SHIFTED-NEXT: ternary.conv %[[PADDED]], %w {strides = array<i64: 1>, padding = array<i64: 0, 0>
// SHIFTED: tensor.constant dense<[-33, -66]> : tensor<2xi32>

// -----

// Never negative: with 4 bits, 0 to 15.
func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x1xf32> {
  %w = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>
  %v = ternary.constant [1, -1] : tensor<2x1x!ternary.trit>
  %h = ternary.linear %x, %w {activation = "relu"}
       : tensor<?x2xf32>, tensor<2x2x!ternary.trit> -> tensor<?x2xf32>
  %y = ternary.linear %h, %v : tensor<?x2xf32>, tensor<2x1x!ternary.trit> -> tensor<?x1xf32>
  func.return %y : tensor<?x1xf32>
}
// CHECK: %h_q = tensor.quantize %h, %h_scale, {{.*}} {low = -127 : i64}
// CHECK: ternary.linear %h_q, %v

// SECOND: ternary.linear %x, %w {activation = "relu"}
// SECOND: %h_scale = tensor.constant dense<1.180000e-01> : tensor<f32>
// SECOND: %h_q = tensor.quantize %h, %h_scale, {{.*}} {low = 0 : i64, high = 15 : i64}
// SECOND: ternary.linear %h_q, %v

// -----

// No products: nothing to calibrate.
func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %y = tensor.relu %x : (tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
// CHECK: func.func @forward
// CHECK-NEXT: tensor.relu %x
