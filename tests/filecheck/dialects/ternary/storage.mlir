// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0() {
  %w = ternary.parameter "fc1.weight" : tensor<784x10x!ternary.trit>
  func.return
}
// CHECK: %w = ternary.parameter "fc1.weight" : tensor<784x10x!ternary.trit>

func.func @f1() {
  %w = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>
  func.return
}
// CHECK: %w = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>

func.func @f2() {
  %w = ternary.constant [] : tensor<0x!ternary.trit>
  func.return
}
// CHECK: %w = ternary.constant [] : tensor<0x!ternary.trit>

func.func @f3(%x: tensor<?x4xf32>) {
  %t = ternary.ternarize %x : (tensor<?x4xf32>) -> tensor<?x4x!ternary.trit>
  func.return
}
// CHECK: %t = ternary.ternarize %x : (tensor<?x4xf32>) -> tensor<?x4x!ternary.trit>

func.func @f4(%x: tensor<4xf16>) {
  %t = ternary.ternarize %x {rule = "fixed", threshold = 0.5 : f64} : (tensor<4xf16>) ->
      tensor<4x!ternary.trit>
  func.return
}
// CHECK: %t = ternary.ternarize %x {rule = "fixed", threshold = 5.000000e-01 : f64} : (tensor<4xf16>) -> tensor<4x!ternary.trit>

func.func @f5(%x: tensor<4xf32>) {
  %t, %s = ternary.ternarize %x {rule = "absmean", scale = "tensor"} : (tensor<4xf32>)
      -> (tensor<4x!ternary.trit>, tensor<f32>)
  func.return
}
// CHECK: %t, %s = ternary.ternarize %x {rule = "absmean", scale = "tensor"} : (tensor<4xf32>) -> (tensor<4x!ternary.trit>, tensor<f32>)

func.func @f6(%x: tensor<784x10xf32>) {
  %t, %s = ternary.ternarize %x {scale = "channel", axis = 1 : i64} : (tensor<784x10xf32>)
      -> (tensor<784x10x!ternary.trit>, tensor<10xf32>)
  func.return
}
// CHECK: %t, %s = ternary.ternarize %x {scale = "channel", axis = 1 : i64} : (tensor<784x10xf32>) -> (tensor<784x10x!ternary.trit>, tensor<10xf32>)

func.func @f7(%x: tensor<4xf32>) {
  %t = ternary.ternarize %x {mode = "stochastic", seed = 7 : i64} : (tensor<4xf32>) ->
      tensor<4x!ternary.trit>
  func.return
}
// CHECK: %t = ternary.ternarize %x {mode = "stochastic", seed = 7 : i64} : (tensor<4xf32>) -> tensor<4x!ternary.trit>

func.func @f8(%t: tensor<784x10x!ternary.trit>) {
  %b = ternary.pack %t : (tensor<784x10x!ternary.trit>) -> tensor<1960xui8>
  func.return
}
// CHECK: %b = ternary.pack %t : (tensor<784x10x!ternary.trit>) -> tensor<1960xui8>

func.func @f9(%b: tensor<1960xui8>) {
  %t = ternary.unpack %b : (tensor<1960xui8>) -> tensor<784x10x!ternary.trit>
  func.return
}
// CHECK: %t = ternary.unpack %b : (tensor<1960xui8>) -> tensor<784x10x!ternary.trit>

func.func @f10(%t: tensor<784x10x!ternary.trit>) {
  %x = ternary.dequantize %t : (tensor<784x10x!ternary.trit>) -> tensor<784x10xf32>
  func.return
}
// CHECK: %x = ternary.dequantize %t : (tensor<784x10x!ternary.trit>) -> tensor<784x10xf32>

func.func @f11(%t: tensor<784x10x!ternary.trit>, %s: tensor<10xf16>) {
  %x = ternary.dequantize %t, %s {axis = 1 : i64} : (tensor<784x10x!ternary.trit>,
      tensor<10xf16>) -> tensor<784x10xf16>
  func.return
}
// CHECK: %x = ternary.dequantize %t, %s {axis = 1 : i64} : (tensor<784x10x!ternary.trit>, tensor<10xf16>) -> tensor<784x10xf16>
