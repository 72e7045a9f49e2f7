// RUN: xdsl-opt %s | xdsl-opt --print-op-generic > %t && filecheck %s < %t
// RUN: not xdsl-opt %s -p no-such-pass 2>&1 | filecheck %s --check-prefix=UNKNOWN

// Plain `xdsl-opt` still works with this project installed.
func.func @identity(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  func.return %x : tensor<2x3xf32>
}

// CHECK: "func.func"() <{
// CHECK-SAME: sym_name = "identity"
// UNKNOWN: no-such-pass
