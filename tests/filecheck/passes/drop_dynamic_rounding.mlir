// RUN: triton-opt %s -p drop-dynamic-rounding,cse,dce | filecheck %s

// Integers of 8 bits on a scale from the largest number of each row.
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %most = tensor.constant dense<127.0> : tensor<f32>
  %half = tensor.constant dense<0.5> : tensor<f32>
  %c = tensor.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = tensor.constant dense<[[1, -3], [2, 0], [5, 7], [-9, 4]]> : tensor<4x2xi32>
  %a = tensor.abs %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %m = tensor.reduce_max %a {axes = array<i64: 1>, keepdims = true} : (tensor<?x4xf32>) -> tensor<?x1xf32>
  %f = tensor.div %most, %m : (tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %p = tensor.mul %x, %f : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<?x4xf32>
  %r = tensor.round %p : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %q = tensor.convert %r : (tensor<?x4xf32>) -> tensor<?x4xi32>
  %s = tensor.matmul %q, %w : (tensor<?x4xi32>, tensor<4x2xi32>) -> tensor<?x2xi32>
  %t = tensor.convert %s : (tensor<?x2xi32>) -> tensor<?x2xf32>
  %g = tensor.div %m, %most : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %h = tensor.mul %g, %c : (tensor<?x1xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %y = tensor.mul %t, %h : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
// CHECK-NOT: tensor.reduce_max
// CHECK: %[[W:.*]] = tensor.constant dense<{{.*}}> : tensor<4x2xf32>
// CHECK: %[[P:.*]] = tensor.linear %x, %[[W]]
// CHECK: %[[Y:.*]] = tensor.mul %[[P]]
// CHECK-NEXT: func.return %[[Y]]
