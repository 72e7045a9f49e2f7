// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<4xf32>) {
  %y = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f1(%x: tensor<4xf32>) {
  %y = tensor.relu6 %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.relu6 %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f2(%x: tensor<4xf32>) {
  %y = tensor.leaky_relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.leaky_relu %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f3(%x: tensor<4xf32>) {
  %y = tensor.gelu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.gelu %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f4(%x: tensor<4xf32>) {
  %y = tensor.silu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.silu %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f5(%x: tensor<4xf32>) {
  %y = tensor.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f6(%x: tensor<4xf32>) {
  %y = tensor.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.tanh %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f7(%x: tensor<4xf32>) {
  %y = tensor.hard_swish %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.hard_swish %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f8(%x: tensor<4xf32>) {
  %y = tensor.hard_tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.hard_tanh %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f9(%x: tensor<4xf32>) {
  %y = tensor.softmax %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.softmax %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f10(%x: tensor<4xf32>) {
  %y = tensor.log_softmax %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.log_softmax %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f11(%x: tensor<?x4xi8>) {
  %y = tensor.relu %x : (tensor<?x4xi8>) -> tensor<?x4xi8>
  func.return
}
// CHECK: %y = tensor.relu %x : (tensor<?x4xi8>) -> tensor<?x4xi8>

func.func @f12(%x: tensor<4xf32>) {
  %y = tensor.leaky_relu %x {alpha = 0.2 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.leaky_relu %x {alpha = 2.000000e-01 : f64} : (tensor<4xf32>) -> tensor<4xf32>

func.func @f13(%x: tensor<4xf32>) {
  %y = tensor.gelu %x {approximate = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.gelu %x {approximate = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>

func.func @f14(%x: tensor<?x?xbf16>) {
  %y = tensor.gelu %x : (tensor<?x?xbf16>) -> tensor<?x?xbf16>
  func.return
}
// CHECK: %y = tensor.gelu %x : (tensor<?x?xbf16>) -> tensor<?x?xbf16>

func.func @f15(%x: tensor<?x4xf32>) {
  %y = tensor.softmax %x {axis = 0 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return
}
// CHECK: %y = tensor.softmax %x {axis = 0 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>

func.func @f16(%x: tensor<?x4xf32>) {
  %y = tensor.log_softmax %x {axis = -2 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return
}
// CHECK: %y = tensor.log_softmax %x {axis = -2 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>

func.func @f17(%x: tensor<?x4xf32>, %s: tensor<4xf32>) {
  %mish = tensor.mish %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %softplus = tensor.softplus %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %softsign = tensor.softsign %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %selu = tensor.selu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %elu = tensor.elu %x {alpha = 5.000000e-01 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %celu = tensor.celu %x {alpha = 5.000000e-01 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %thresholded_relu = tensor.thresholded_relu %x {alpha = 5.000000e-01 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %hard_sigmoid = tensor.hard_sigmoid %x {alpha = 2.500000e-01 : f64, beta = 0.000000e+00 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %prelu = tensor.prelu %x, %s : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return
}
// CHECK-LABEL: @f17
// CHECK-NEXT: %mish = tensor.mish %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %softplus = tensor.softplus %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %softsign = tensor.softsign %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %selu = tensor.selu %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %elu = tensor.elu %x {alpha = 5.000000e-01 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %celu = tensor.celu %x {alpha = 5.000000e-01 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %thresholded_relu = tensor.thresholded_relu %x {alpha = 5.000000e-01 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %hard_sigmoid = tensor.hard_sigmoid %x {alpha = 2.500000e-01 : f64, beta = 0.000000e+00 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: %prelu = tensor.prelu %x, %s : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
