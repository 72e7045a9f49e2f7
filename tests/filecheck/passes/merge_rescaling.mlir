// RUN: triton-opt %s -p merge-rescaling,canonicalize,cse,dce | filecheck %s

// Two rounding shifts, a zero point that is taken off again: one rescaling to 0 … 255.
func.func @forward(%x: tensor<?x2xi8>) -> tensor<?x2xi32> {
  %w = tensor.constant dense<[[100, -50], [20, 7]]> : tensor<2x2xi32>
  %m = tensor.constant dense<1500000000> : tensor<i32>
  %first = tensor.constant dense<31> : tensor<i32>
  %zero = tensor.constant dense<0> : tensor<i32>
  %one = tensor.constant dense<1> : tensor<i32>
  %last = tensor.constant dense<6> : tensor<i32>
  %z = tensor.constant dense<-128> : tensor<i8>
  %z32 = tensor.constant dense<-128> : tensor<i32>
  %c = tensor.convert %x : (tensor<?x2xi8>) -> tensor<?x2xi32>
  %s = tensor.matmul %c, %w : (tensor<?x2xi32>, tensor<2x2xi32>) -> tensor<?x2xi32>
  %a = tensor.requantize %s, %m, %first, %zero {low = -2147483648 : i64, high = 2147483647 : i64}
     : (tensor<?x2xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<?x2xi32>
  %n = tensor.compare %a, %zero {predicate = "lt"} : (tensor<?x2xi32>, tensor<i32>) -> tensor<?x2xi1>
  %k = tensor.convert %n : (tensor<?x2xi1>) -> tensor<?x2xi32>
  %b = tensor.sub %a, %k : (tensor<?x2xi32>, tensor<?x2xi32>) -> tensor<?x2xi32>
  %q = tensor.requantize %b, %one, %last, %z
     : (tensor<?x2xi32>, tensor<i32>, tensor<i32>, tensor<i8>) -> tensor<?x2xi8>
  %d = tensor.convert %q : (tensor<?x2xi8>) -> tensor<?x2xi32>
  %y = tensor.sub %d, %z32 : (tensor<?x2xi32>, tensor<i32>) -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}
// CHECK: %[[S:.*]] = tensor.matmul
// CHECK-NOT: tensor.compare
// CHECK: %[[Y:.*]] = tensor.requantize {{.*}} {low = 0 : i64, high = {{.*}} : i64}
// CHECK-NEXT: func.return %[[Y]]
