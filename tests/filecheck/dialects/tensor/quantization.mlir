// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<?x8xf32>, %s: tensor<f32>, %z: tensor<i8>) {
  %q = tensor.quantize %x, %s, %z : (tensor<?x8xf32>, tensor<f32>, tensor<i8>) -> tensor<?x8xi8>
  func.return
}
// CHECK: %q = tensor.quantize %x, %s, %z : (tensor<?x8xf32>, tensor<f32>, tensor<i8>) -> tensor<?x8xi8>

func.func @f1(%x: tensor<?x8xf32>, %s: tensor<8xf32>, %z: tensor<8xi16>) {
  %q = tensor.quantize %x, %s, %z {axis = -1 : i64, low = -8 : i64, high = 7 : i64}
      : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xi16>) -> tensor<?x8xi16>
  func.return
}
// CHECK: %q = tensor.quantize %x, %s, %z {axis = -1 : i64, low = -8 : i64, high = 7 : i64} : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xi16>) -> tensor<?x8xi16>

func.func @f2(%q: tensor<?x8xi8>, %s: tensor<8xf32>, %z: tensor<i8>) {
  %x = tensor.dequantize %q, %s, %z : (tensor<?x8xi8>, tensor<8xf32>, tensor<i8>) ->
      tensor<?x8xf32>
  func.return
}
// CHECK: %x = tensor.dequantize %q, %s, %z : (tensor<?x8xi8>, tensor<8xf32>, tensor<i8>) -> tensor<?x8xf32>

func.func @f3(%a: tensor<?x8xi32>, %m: tensor<8xi32>, %s: tensor<i32>, %z: tensor<i8>) {
  %q = tensor.requantize %a, %m, %s, %z : (tensor<?x8xi32>, tensor<8xi32>, tensor<i32>,
      tensor<i8>) -> tensor<?x8xi8>
  func.return
}
// CHECK: %q = tensor.requantize %a, %m, %s, %z : (tensor<?x8xi32>, tensor<8xi32>, tensor<i32>, tensor<i8>) -> tensor<?x8xi8>

func.func @f4(%a: tensor<8xi32>, %m: tensor<i32>, %s: tensor<8xi32>, %z: tensor<i32>) {
  %q = tensor.requantize %a, %m, %s, %z {axis = 0 : i64, low = 0 : i64, high = 15 : i64}
      : (tensor<8xi32>, tensor<i32>, tensor<8xi32>, tensor<i32>) -> tensor<8xi32>
  func.return
}
// CHECK: %q = tensor.requantize %a, %m, %s, %z {axis = 0 : i64, low = 0 : i64, high = 15 : i64} : (tensor<8xi32>, tensor<i32>, tensor<8xi32>, tensor<i32>) -> tensor<8xi32>

func.func @f5(%x: tensor<?x8xi32>, %t: tensor<8x15xi32>) {
  %y = tensor.multi_threshold %x, %t : (tensor<?x8xi32>, tensor<8x15xi32>) -> tensor<?x8xi8>
  func.return
}
// CHECK: %y = tensor.multi_threshold %x, %t : (tensor<?x8xi32>, tensor<8x15xi32>) -> tensor<?x8xi8>

func.func @f6(%x: tensor<8xf32>, %t: tensor<1x200xf32>) {
  %y = tensor.multi_threshold %x, %t {axis = 0 : i64} : (tensor<8xf32>, tensor<1x200xf32>)
      -> tensor<8xi32>
  func.return
}
// CHECK: %y = tensor.multi_threshold %x, %t {axis = 0 : i64} : (tensor<8xf32>, tensor<1x200xf32>) -> tensor<8xi32>
