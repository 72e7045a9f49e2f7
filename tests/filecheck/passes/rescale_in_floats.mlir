// RUN: triton-opt %s -p rescale-in-floats,canonicalize,cse,dce | filecheck %s

// Two steps become one line.
// CHECK-LABEL: func.func @two_steps
func.func @two_steps(%x: tensor<?x8x4x4xi8>) -> tensor<?x2x4x4xi8> {
  %v = ternary.constant [1, 0, 1, 1, -1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 1] : tensor<2x8x1x1x!ternary.trit>
  %m = tensor.constant dense<[1073741824, 1500000000]> : tensor<2xi32>
  %s = tensor.constant dense<[16, 17]> : tensor<2xi32>
  %z = tensor.constant dense<0> : tensor<i32>
  %a = ternary.conv %x, %v multiplier(%m : tensor<2xi32>) shift(%s : tensor<2xi32>) zero_point(%z : tensor<i32>) {low = -2147483647 : i64, high = 2147483647 : i64, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : tensor<?x8x4x4xi8>, tensor<2x8x1x1x!ternary.trit> -> tensor<?x2x4x4xi32>
  %c = tensor.constant dense<[[[70000]], [[-300000]]]> : tensor<2x1x1xi32>
  %b = tensor.add %a, %c : (tensor<?x2x4x4xi32>, tensor<2x1x1xi32>) -> tensor<?x2x4x4xi32>
  %one = tensor.constant dense<1> : tensor<i32>
  %n = tensor.constant dense<16> : tensor<i32>
  %o = tensor.constant dense<-128> : tensor<i8>
  %y = tensor.requantize %b, %one, %n, %o : (tensor<?x2x4x4xi32>, tensor<i32>, tensor<i32>, tensor<i8>) -> tensor<?x2x4x4xi8>
  func.return %y : tensor<?x2x4x4xi8>
}
// CHECK: %[[SUMS:.*]] = ternary.conv
// CHECK-SAME: -> tensor<?x2x4x4xi32>
// CHECK: %[[FLOATS:.*]] = tensor.convert %[[SUMS]]
// CHECK: tensor.mul %[[FLOATS]], {{.*}} {may_fuse}
// CHECK: %[[LINE:.*]] = tensor.add {{.*}} {may_fuse}
// CHECK: tensor.quantize %[[LINE]]
// CHECK-NOT: tensor.requantize

// More results than 256 are left alone.
// CHECK-LABEL: func.func @wide
func.func @wide(%x: tensor<?x2x4x4xi16>) -> tensor<?x2x4x4xi16> {
  %a = tensor.convert %x : (tensor<?x2x4x4xi16>) -> tensor<?x2x4x4xi32>
  %m = tensor.constant dense<3> : tensor<i32>
  %s = tensor.constant dense<3> : tensor<i32>
  %z = tensor.constant dense<0> : tensor<i16>
  %y = tensor.requantize %a, %m, %s, %z {low = -32768 : i64, high = 32767 : i64} : (tensor<?x2x4x4xi32>, tensor<i32>, tensor<i32>, tensor<i16>) -> tensor<?x2x4x4xi16>
  func.return %y : tensor<?x2x4x4xi16>
}
// CHECK: tensor.requantize
