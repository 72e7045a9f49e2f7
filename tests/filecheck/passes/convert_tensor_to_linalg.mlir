// REQUIRES: mlir-opt
// RUN: triton-opt %s -p convert-tensor-to-linalg --split-input-file | filecheck %s
// RUN: triton-opt %s -p 'convert-tensor-to-linalg{parameters=arguments}' --split-input-file | mlir-opt --split-input-file | filecheck %s --check-prefix=MLIR
// RUN: triton-opt %s -p canonicalize,convert-tensor-to-linalg,canonicalize,cse,dce --split-input-file | mlir-opt --split-input-file --canonicalize | filecheck %s --check-prefix=MLIR

// A parameter becomes an argument that says which one it was; trits become bytes.
func.func @ternary(%x: tensor<?x8xf32> {tensor.name = "x"}) -> tensor<?x4xf32> {
  %w = ternary.parameter "fc.weight" : tensor<8x4x!ternary.trit>
  %y = ternary.linear %x, %w : tensor<?x8xf32>, tensor<8x4x!ternary.trit> -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK-LABEL: func.func @ternary
// CHECK-SAME: (%x: tensor<?x8xf32> {tensor.name = "x"}, %w: tensor<8x4xi8> {tensor.parameter = "fc.weight"}) -> tensor<?x4xf32>
// CHECK: %[[N:.*]] = tensor.dim %x
// CHECK: tensor.empty(%[[N]]) : tensor<?x4xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.sitofp {{.*}} : i8 to f32
// MLIR-LABEL: func.func @ternary
// MLIR-SAME: tensor<8x4xi8> {tensor.parameter = "fc.weight"}

// -----

// Products of two matrices, plain convolutions and pooling keep their names.
func.func @named(%x: tensor<?x3x8x8xf32>, %k: tensor<4x3x3x3xf32>, %w: tensor<36x10xf32>) -> tensor<?x10xf32> {
  %0 = tensor.conv %x, %k {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<?x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<?x4x6x6xf32>
  %1 = tensor.max_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<?x4x6x6xf32>) -> tensor<?x4x3x3xf32>
  %2 = tensor.flatten %1 {start = 1 : i64, end = -1 : i64} : (tensor<?x4x3x3xf32>) -> tensor<?x36xf32>
  %3 = tensor.matmul %2, %w : (tensor<?x36xf32>, tensor<36x10xf32>) -> tensor<?x10xf32>
  func.return %3 : tensor<?x10xf32>
}
// CHECK-LABEL: func.func @named
// CHECK-COUNT-1: tensor.dim
// CHECK-NOT: tensor.dim
// CHECK: linalg.conv_2d_nchw_fchw {{.*}}strides = dense<1> : tensor<2xi64>
// CHECK: linalg.pooling_nchw_max {{.*}}strides = dense<2> : tensor<2xi64>
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0 : i64], [1 : i64, 2 : i64, 3 : i64]] : tensor<?x4x3x3xf32> into tensor<?x36xf32>
// CHECK: linalg.matmul ins({{.*}} : tensor<?x36xf32>, tensor<36x10xf32>)
// MLIR-LABEL: func.func @named
// MLIR: linalg.conv_2d_nchw_fchw
// MLIR: linalg.pooling_nchw_max
// MLIR: linalg.matmul

// -----

// Broadcasting is in the maps.
func.func @broadcast(%x: tensor<?x1x4xf32>, %y: tensor<3x1xf32>) -> tensor<?x3x4xf32> {
  %z = tensor.add %x, %y : (tensor<?x1x4xf32>, tensor<3x1xf32>) -> tensor<?x3x4xf32>
  func.return %z : tensor<?x3x4xf32>
}
// CHECK-LABEL: func.func @broadcast
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, 0, d2)>, affine_map<(d0, d1, d2) -> (d1, 0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>]
// CHECK: arith.addf
// MLIR-LABEL: func.func @broadcast

// -----

// Rescaling is exact, in i64.
func.func @integers(%x: tensor<?x8xi32>, %m: tensor<8xi32>, %s: tensor<i32>, %z: tensor<i8>) -> tensor<?x8xi8> {
  %y = tensor.requantize %x, %m, %s, %z {axis = 1 : i64, low = -128 : i64, high = 127 : i64} : (tensor<?x8xi32>, tensor<8xi32>, tensor<i32>, tensor<i8>) -> tensor<?x8xi8>
  func.return %y : tensor<?x8xi8>
}
// CHECK-LABEL: func.func @integers
// CHECK: linalg.generic
// CHECK: arith.muli {{.*}} : i64
// CHECK: arith.shrsi {{.*}} : i64
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: arith.trunci {{.*}} : i64 to i8
// MLIR-LABEL: func.func @integers

// -----

// Floats of 16 bits are computed in f32, the remainder by the C library.
func.func @floats(%x: tensor<?xf16>, %y: tensor<?xf16>) -> tensor<?xf16> {
  %0 = tensor.mod %x, %y : (tensor<?xf16>, tensor<?xf16>) -> tensor<?xf16>
  func.return %0 : tensor<?xf16>
}
// CHECK-LABEL: func.func @floats
// CHECK: arith.extf {{.*}} : f16 to f32
// CHECK: func.call @fmodf
// CHECK: arith.truncf {{.*}} : f32 to f16
// CHECK: func.func private @fmodf(f32, f32) -> f32
// MLIR-LABEL: func.func @floats

// -----

// Positions: the running sum of what one number fills is a multiple of it.
// CHECK-LABEL: func.func @positions
// CHECK-NOT: "reduction"
// CHECK: linalg.index 0
// CHECK: func.return
func.func @positions(%c: tensor<?xi1>) -> tensor<?xi64> {
  %one = tensor.constant dense<1> : tensor<i64>
  %ones = tensor.where %c, %one, %one : (tensor<?xi1>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  %y = tensor.cumsum %ones {axis = 0 : i64} : (tensor<?xi64>) -> tensor<?xi64>
  func.return %y : tensor<?xi64>
}
