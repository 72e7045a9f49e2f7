// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Functions of numbers, bits and axes parse, print and parse again, in both formats.

func.func @functions(%x: tensor<?x4xf32>) {
  %acos = tensor.acos %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %acosh = tensor.acosh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %asin = tensor.asin %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %asinh = tensor.asinh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %atan = tensor.atan %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %atanh = tensor.atanh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %ceil = tensor.ceil %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %cos = tensor.cos %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %cosh = tensor.cosh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %exp2 = tensor.exp2 %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %expm1 = tensor.expm1 %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %log1p = tensor.log1p %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %log2 = tensor.log2 %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %reciprocal = tensor.reciprocal %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %sin = tensor.sin %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %sinh = tensor.sinh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %tan = tensor.tan %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %trunc = tensor.trunc %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return
}
// CHECK-LABEL: @functions
// CHECK-NEXT: %acos = tensor.acos %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %acosh = tensor.acosh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %asin = tensor.asin %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %asinh = tensor.asinh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %atan = tensor.atan %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %atanh = tensor.atanh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %ceil = tensor.ceil %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %cos = tensor.cos %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %cosh = tensor.cosh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %exp2 = tensor.exp2 %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %expm1 = tensor.expm1 %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %log1p = tensor.log1p %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %log2 = tensor.log2 %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %reciprocal = tensor.reciprocal %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %sin = tensor.sin %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %sinh = tensor.sinh %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %tan = tensor.tan %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %trunc = tensor.trunc %x : (tensor<?x4xf32>) -> tensor<?x4xf32>

func.func @tests(%x: tensor<?x4xf16>) {
  %n = tensor.is_nan %x : (tensor<?x4xf16>) -> tensor<?x4xi1>
  %i = tensor.is_inf %x : (tensor<?x4xf16>) -> tensor<?x4xi1>
  func.return
}
// CHECK-LABEL: @tests
// CHECK-NEXT: %n = tensor.is_nan %x : (tensor<?x4xf16>) -> tensor<?x4xi1>
// CHECK-NEXT: %i = tensor.is_inf %x : (tensor<?x4xf16>) -> tensor<?x4xi1>

func.func @others(%x: tensor<?x4xf32>, %i: tensor<?x4xi32>) {
  %a = tensor.xor %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
  %b = tensor.shift_left %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
  %c = tensor.shift_right %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
  %d = tensor.and %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
  %e = tensor.fmod %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
  %f = tensor.atan2 %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %g = tensor.hypot %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %h = tensor.cumsum %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %j = tensor.cumprod %x {axis = 0 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %k, %l = tensor.top_k %x {k = 2 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %m = tensor.reduce_prod %x {axes = array<i64: 1>} : (tensor<?x4xf32>) -> tensor<?xf32>
  %n = tensor.reduce_log_sum_exp %x {axes = array<i64: 1>} : (tensor<?x4xf32>) -> tensor<?xf32>
  %o = tensor.argmin %x {keepdims = true} : (tensor<?x4xf32>) -> tensor<?x1xi64>
  %p = tensor.gather_elements %x, %i {axis = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  %q = tensor.scatter_elements %x, %i, %x {axis = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %one = tensor.constant dense<1> : tensor<i8>
  %r = tensor.one_hot %i, %one, %one {depth = 3 : i64} : (tensor<?x4xi32>, tensor<i8>, tensor<i8>) -> tensor<?x4x3xi8>
  %s = tensor.one_hot %i, %one, %one {depth = 0 : i64, axis = 0 : i64} : (tensor<?x4xi32>, tensor<i8>, tensor<i8>) -> tensor<0x?x4xi8>
  func.return
}
// CHECK-LABEL: @others
// CHECK-NEXT: %a = tensor.xor %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
// CHECK-NEXT: %b = tensor.shift_left %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
// CHECK-NEXT: %c = tensor.shift_right %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
// CHECK-NEXT: %d = tensor.and %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
// CHECK-NEXT: %e = tensor.fmod %i, %i : (tensor<?x4xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>
// CHECK-NEXT: %f = tensor.atan2 %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %g = tensor.hypot %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %h = tensor.cumsum %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %j = tensor.cumprod %x {axis = 0 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %k, %l = tensor.top_k %x {k = 2 : i64} : (tensor<?x4xf32>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT: %m = tensor.reduce_prod %x {axes = array<i64: 1>} : (tensor<?x4xf32>) -> tensor<?xf32>
// CHECK-NEXT: %n = tensor.reduce_log_sum_exp %x {axes = array<i64: 1>} : (tensor<?x4xf32>) -> tensor<?xf32>
// CHECK-NEXT: %o = tensor.argmin %x {keepdims = true} : (tensor<?x4xf32>) -> tensor<?x1xi64>
// CHECK-NEXT: %p = tensor.gather_elements %x, %i {axis = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
// CHECK-NEXT: %q = tensor.scatter_elements %x, %i, %x {axis = 1 : i64} : (tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %one = tensor.constant dense<1> : tensor<i8>
// CHECK-NEXT: %r = tensor.one_hot %i, %one, %one {depth = 3 : i64} : (tensor<?x4xi32>, tensor<i8>, tensor<i8>) -> tensor<?x4x3xi8>
// CHECK-NEXT: %s = tensor.one_hot %i, %one, %one {depth = 0 : i64, axis = 0 : i64} : (tensor<?x4xi32>, tensor<i8>, tensor<i8>) -> tensor<0x?x4xi8>
