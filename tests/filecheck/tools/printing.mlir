// RUN: triton-opt %s --verify-roundtrip | filecheck %s
// RUN: triton-opt %s --mlir-elide-elementsattrs-if-larger=3 | filecheck %s --check-prefix=ELIDED
// RUN: triton-opt %s --print-op-generic | triton-opt --verify-roundtrip | filecheck %s
// RUN: triton-opt %s --print-debuginfo | filecheck %s --check-prefix=LOCATIONS
// RUN: triton-opt %s -o %t && triton-opt %t -o %t && filecheck %s < %t

func.func @constants() -> (tensor<4xi32>, tensor<3xi32>, tensor<9xi32>) {
  %a = tensor.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %b = tensor.constant dense<[1, 2, 3]> : tensor<3xi32>
  %c = tensor.constant dense<7> : tensor<9xi32>
  func.return %a, %b, %c : tensor<4xi32>, tensor<3xi32>, tensor<9xi32>
}

// CHECK: %a = tensor.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
// ELIDED: %a = tensor.constant dense_resource<__elided__> : tensor<4xi32>
// ELIDED-NEXT: %b = tensor.constant dense<[1, 2, 3]> : tensor<3xi32>
// ELIDED-NEXT: %c = tensor.constant dense<7> : tensor<9xi32>
// LOCATIONS: %a = tensor.constant {{.*}} loc("{{.*}}printing.mlir":8:3)
