// RUN: triton-opt %s -p expand-attention | filecheck %s

func.func @forward(%q: tensor<?x5x4xf32>, %k: tensor<?x7x4xf32>, %v: tensor<?x7x3xf32>) -> tensor<?x5x3xf32> {
  %o = tensor.scaled_dot_product_attention %q, %k, %v : (tensor<?x5x4xf32>, tensor<?x7x4xf32>, tensor<?x7x3xf32>) -> tensor<?x5x3xf32>
  func.return %o : tensor<?x5x3xf32>
}
// CHECK-NOT: softmax
// CHECK: %[[T:.*]] = tensor.permute %k {perm = array<i64: 0, 2, 1>}
// CHECK: %[[P:.*]] = tensor.matmul %q, %[[T]]
// CHECK: %[[S:.*]] = tensor.constant dense<5.000000e-01>
// CHECK: %[[X:.*]] = tensor.mul %[[P]], %[[S]]
// CHECK: %[[M:.*]] = tensor.reduce_max %[[X]] {axes = array<i64: 2>, keepdims = true}
// CHECK: %[[D:.*]] = tensor.sub %[[X]], %[[M]]
// CHECK: %[[E:.*]] = tensor.exp %[[D]]
// CHECK: %[[N:.*]] = tensor.reduce_sum %[[E]] {axes = array<i64: 2>, keepdims = true}
// CHECK: %[[Y:.*]] = tensor.matmul %[[E]], %v
// CHECK: tensor.div %[[Y]], %[[N]]
