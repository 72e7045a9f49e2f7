// RUN: triton-opt %s -p streamline,canonicalize,cse,dce | filecheck %s

// The signs of an input, a product with trits, and the sign of a scaled sum: all integers.
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %one = tensor.constant dense<1.0> : tensor<f32>
  %minus = tensor.constant dense<-1.0> : tensor<f32>
  %half = tensor.constant dense<0.5> : tensor<f32>
  %c = tensor.compare %x, %half {predicate = "ge"} : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xi1>
  %s = tensor.where %c, %one, %minus
     : (tensor<?x4xi1>, tensor<f32>, tensor<f32>) -> tensor<?x4xf32>
  %w = ternary.constant [1, -1, 1, 0, -1, 1, 1, 1] : tensor<4x2x!ternary.trit>
  %p = ternary.linear %s, %w : tensor<?x4xf32>, tensor<4x2x!ternary.trit> -> tensor<?x2xf32>
  %b = tensor.constant dense<[1.5, -2.0]> : tensor<2xf32>
  %n = tensor.mul %p, %b : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %d = tensor.compare %n, %half {predicate = "ge"} : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xi1>
  %t = tensor.where %d, %one, %minus
     : (tensor<?x2xi1>, tensor<f32>, tensor<f32>) -> tensor<?x2xf32>
  %v = ternary.constant [1, 1, -1, 1] : tensor<2x2x!ternary.trit>
  %y = ternary.linear %t, %v : tensor<?x2xf32>, tensor<2x2x!ternary.trit> -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
// CHECK: %[[Q:.*]] = tensor.quantize %x, {{.*}} {low = 0 : i64, high = 1 : i64}
// CHECK: %[[W:.*]] = ternary.constant [1, 1, 1, 0, -1, -1, 1, -1]
// CHECK: %[[S:.*]] = ternary.linear %[[Q]], %[[W]]
// CHECK: tensor.constant dense<{{\[\[2\], \[0\]\]}}> : tensor<2x1xi32>
// CHECK: %[[T:.*]] = tensor.multi_threshold %[[S]]
// CHECK: %[[Y:.*]] = ternary.linear %[[T]], %v
// CHECK: tensor.constant dense<[0, -1]> : tensor<2xi32>
// CHECK: tensor.dequantize
