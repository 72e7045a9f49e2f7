// RUN: triton-opt %s -p ternarize | filecheck %s
// RUN: triton-opt %s -p 'ternarize{threshold=0.25 scale=none keep-first=true}' | filecheck %s --check-prefix=FIRST
// RUN: triton-opt %s -p 'ternarize{rule=absmean scale=tensor keep-last=true skip="conv.weight"}' | filecheck %s --check-prefix=LAST
// RUN: not triton-opt %s -p 'ternarize{rule=nearest}' 2>&1 | filecheck %s --check-prefix=RULE
// RUN: not triton-opt %s -p 'ternarize{rule=twn threshold=1}' 2>&1 | filecheck %s --check-prefix=THRESHOLD

// Without weights, ternarization stays in the program.
func.func @forward(%x: tensor<?x3x4x4xf32>) -> tensor<?x2xf32> {
  %c = tensor.parameter "conv.weight" : tensor<8x3x3x3xf32>
  %cb = tensor.parameter "conv.bias" : tensor<8xf32>
  %h = tensor.conv %x, %c, %cb {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<?x3x4x4xf32>, tensor<8x3x3x3xf32>, tensor<8xf32>) -> tensor<?x8x2x2xf32>
  %f = tensor.flatten %h : (tensor<?x8x2x2xf32>) -> tensor<?x32xf32>
  %w1 = tensor.parameter "fc1.weight" : tensor<32x16xf32>
  %a = tensor.matmul %f, %w1 : (tensor<?x32xf32>, tensor<32x16xf32>) -> tensor<?x16xf32>
  %w2 = tensor.parameter "fc2.weight" : tensor<2x16xf32>
  %t = tensor.permute %w2 {perm = array<i64: 1, 0>} : (tensor<2x16xf32>) -> tensor<16x2xf32>
  %y = tensor.linear %a, %t : (tensor<?x16xf32>, tensor<16x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}

// CHECK-LABEL: func.func @forward
// CHECK: %[[C:.*]], %[[CS:.*]] = ternary.ternarize %c {scale = "channel", axis = 0 : i64} : (tensor<8x3x3x3xf32>) -> (tensor<8x3x3x3x!ternary.trit>, tensor<8xf32>)
// CHECK: %h = ternary.conv %x, %[[C]] scale(%[[CS]] : tensor<8xf32>) bias(%cb : tensor<8xf32>) {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>
// CHECK: %[[W:.*]], %[[WS:.*]] = ternary.ternarize %w1 {scale = "channel"}
// CHECK: %a = ternary.linear %f, %[[W]] scale(%[[WS]] : tensor<16xf32>) : tensor<?x32xf32>, tensor<32x16x!ternary.trit> -> tensor<?x16xf32>
// CHECK: %[[T:.*]], %{{.*}} = ternary.ternarize %t
// CHECK: %y = ternary.linear %a, %[[T]]

// FIRST: tensor.conv
// FIRST: ternary.ternarize %w1 {rule = "fixed", threshold = 2.500000e-01 : f64} : (tensor<32x16xf32>) -> tensor<32x16x!ternary.trit>
// FIRST: ternary.linear %f, %{{[a-z0-9_]*}} :
// FIRST: ternary.linear

// LAST: tensor.conv
// LAST: ternary.ternarize %w1 {rule = "absmean", scale = "tensor"} : (tensor<32x16xf32>) -> (tensor<32x16x!ternary.trit>, tensor<f32>)
// LAST: tensor.linear

// RULE-NOT: Traceback
// RULE: ternarize expects rule one of fixed, twn, absmean, got 'nearest'

// THRESHOLD: ternarize takes no threshold with the rule 'twn'
