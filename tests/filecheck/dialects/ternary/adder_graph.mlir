// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<?x2xi8>) {
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes =
      array<i64: 0, 1, -1, 0>, outputs = array<i64: 2, 1, 0, 1>} : (tensor<?x2xi8>) ->
      tensor<?x2xi32>
  func.return
}
// CHECK: %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64: 0, 1, -1, 0>, outputs = array<i64: 2, 1, 0, 1>} : (tensor<?x2xi8>) -> tensor<?x2xi32>

func.func @f1(%x: tensor<?x2xi8>) {
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64>, outputs =
      array<i64: 0, -1, 0, 0>} : (tensor<?x2xi8>) -> tensor<?x2xi32>
  func.return
}
// CHECK: %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64>, outputs = array<i64: 0, -1, 0, 0>} : (tensor<?x2xi8>) -> tensor<?x2xi32>

func.func @f2(%x: tensor<2xf32>) {
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes =
      array<i64: 0, 1, 1, 3>, outputs = array<i64: 2, -1>} : (tensor<2xf32>) -> tensor<1xf32>
  func.return
}
// CHECK: %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64: 0, 1, 1, 3>, outputs = array<i64: 2, -1>} : (tensor<2xf32>) -> tensor<1xf32>
