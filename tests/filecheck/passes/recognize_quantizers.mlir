// RUN: triton-opt %s -p recognize-quantizers | filecheck %s

func.func @signed(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %s = tensor.constant dense<2.500000e-01> : tensor<f32>
  %d = tensor.div %x, %s : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %r = tensor.round %d : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %c = tensor.clamp %r {min = -7.0 : f64, max = 7.0 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = tensor.mul %s, %c : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK-LABEL: @signed
// CHECK: %[[ZERO:.*]] = tensor.constant dense<0> : tensor<i8>
// CHECK-NEXT: %[[Q:.*]] = tensor.quantize %x, %{{.*}}, %[[ZERO]] {low = -7 : i64, high = 7 : i64}
// CHECK-NEXT: tensor.dequantize %[[Q]]
// CHECK-NOT: tensor.round

// Levels beyond an i8 begin at -128; the bounds may stand before the rounding.
func.func @unsigned(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %s = tensor.constant dense<2.500000e-01> : tensor<f32>
  %low = tensor.constant dense<0.0> : tensor<f32>
  %high = tensor.constant dense<255.0> : tensor<f32>
  %d = tensor.div %x, %s : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %a = tensor.maximum %d, %low : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %b = tensor.minimum %a, %high : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %r = tensor.round %b : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = tensor.mul %r, %s : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK-LABEL: @unsigned
// CHECK: %[[ZERO:.*]] = tensor.constant dense<-128> : tensor<i8>
// CHECK-NEXT: tensor.quantize %x, %{{.*}}, %[[ZERO]] : (tensor

// Two steps that differ, bounds that are missing or no whole numbers, and too many levels stay.
func.func @others(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %s = tensor.constant dense<2.500000e-01> : tensor<f32>
  %t = tensor.constant dense<5.000000e-01> : tensor<f32>
  %d = tensor.div %x, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %r = tensor.round %d : (tensor<4xf32>) -> tensor<4xf32>
  %a = tensor.clamp %r {min = -7.0 : f64, max = 7.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %b = tensor.clamp %r {min = -7.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %c = tensor.clamp %r {min = -7.5 : f64, max = 7.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %e = tensor.clamp %r {min = 0.0 : f64, max = 256.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = tensor.mul %a, %t : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = tensor.mul %b, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = tensor.mul %c, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = tensor.mul %e, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: @others
// CHECK-NOT: tensor.quantize
