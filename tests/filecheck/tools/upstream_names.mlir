// RUN: triton-opt %s --print-op-generic --upstream-names | filecheck %s
// RUN: triton-opt %s --upstream-names | triton-opt | filecheck %s --check-prefix=BACK
// RUN: triton-opt %s --upstream-names | mlir-opt --allow-unregistered-dialect | triton-opt | filecheck %s --check-prefix=THROUGH
// RUN: triton-opt %s --upstream-names --mlir-elide-elementsattrs-if-larger=3 | filecheck %s --check-prefix=ELIDED

builtin.module attributes {tensor.parameters = #tensor.store<"w.safetensors", sha256 = "00ff">} {
  func.func @f(%x: tensor<?x4xf32> {tensor.name = "pixels"}, %t: tensor<4x!ternary.trit>) -> tensor<?x4xf32> {
    %c = tensor.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %d = tensor.mul %c, %c {tensor.range = 2.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = tensor.softmax %x {axis = 1 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
    %y = tensor.add %s, %d : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    %n = arith.constant 3 : i32
    %o = llvm.add %n, %n overflow<nsw> : i32
    func.return %y : tensor<?x4xf32>
  }
}

// CHECK: arg_attrs = [{triton_tensor.name = "pixels"}, {}]
// CHECK-NEXT: ^bb0(%x: tensor<?x4xf32>, %t: tensor<4x!ternary.trit>):
// CHECK-NEXT: %c = "arith.constant"() <{value = {{.*}}}> : () -> tensor<4xf32>
// CHECK-NEXT: %d = "arith.mulf"(%c, %c) {triton_tensor.range = 2.000000e+00 : f64} :
// CHECK-NEXT: %s = "triton_tensor.softmax"(%x) <{axis = 1 : i64}> :
// CHECK-NEXT: %y = "triton_tensor.add"(%s, %d) :
// CHECK-NEXT: %n = "arith.constant"() <{value = 3 : i32}> : () -> i32
// CHECK-NEXT: %o = llvm.add %n, %n overflow<nsw> : i32
// CHECK: {triton_tensor.parameters = #triton_tensor.store<"w.safetensors", sha256 = "00ff">, triton_tensor.upstream_names}

// BACK: builtin.module attributes {tensor.parameters = #tensor.store<"w.safetensors", sha256 = "00ff">} {
// BACK-NEXT: func.func @f(%x: tensor<?x4xf32> {tensor.name = "pixels"}, %t: tensor<4x!ternary.trit>)
// BACK-NEXT: %c = tensor.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
// BACK-NEXT: %d = tensor.mul %c, %c {tensor.range = 2.000000e+00 : f64} :
// BACK-NEXT: %s = tensor.softmax %x {axis = 1 : i64} :
// BACK-NEXT: %y = tensor.add %s, %d :
// BACK-NEXT: %n = arith.constant 3 : i32

// THROUGH: [[C:%.*]] = tensor.constant dense<
// THROUGH-NEXT: [[D:%.*]] = tensor.mul [[C]], [[C]] {tensor.range = 2.000000e+00 : f64} :
// THROUGH-NEXT: [[S:%.*]] = tensor.softmax %arg0 {axis = 1 : i64} :
// THROUGH-NEXT: tensor.add [[S]], [[D]] :
// THROUGH-NEXT: [[N:%.*]] = arith.constant 3 : i32
// THROUGH-NEXT: llvm.add [[N]], [[N]] overflow<nsw> : i32

// ELIDED: "arith.constant"() <{value = dense_resource<__elided__> : tensor<4xf32>}> :
