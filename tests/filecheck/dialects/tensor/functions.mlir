// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Functions of one number parse, print and parse again, in both formats.

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
