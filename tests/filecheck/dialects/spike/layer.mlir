// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// A layer parses, prints and parses again, in both formats.

func.func @f(%x: !spike.train<32x?x784>, %w: tensor<784x10xf32>, %v: tensor<?x10xf32>) {
  %s, %l = spike.layer %x, %w, %v
      : (!spike.train<32x?x784>, tensor<784x10xf32>, tensor<?x10xf32>)
      -> (!spike.train<32x?x10>, tensor<?x10xf32>) {
  ^bb0(%a: !spike.train<32x?x784>, %b: tensor<784x10xf32>, %c: tensor<?x10xf32>):
    %i = spike.linear %a, %b
        : !spike.train<32x?x784>, tensor<784x10xf32> -> tensor<32x?x10xf32>
    %o, %e = spike.lif %i initial(%c : tensor<?x10xf32>) {beta = 0.9 : f64}
        : (tensor<32x?x10xf32>) -> (!spike.train<32x?x10>, tensor<?x10xf32>)
    spike.yield %o, %e : !spike.train<32x?x10>, tensor<?x10xf32>
  }
  func.return
}
// CHECK:      %s, %l = spike.layer %x, %w, %v : (!spike.train<32x?x784>, tensor<784x10xf32>, tensor<?x10xf32>) -> (!spike.train<32x?x10>, tensor<?x10xf32>) {
// CHECK-NEXT: ^bb0(%a: !spike.train<32x?x784>, %b: tensor<784x10xf32>, %c: tensor<?x10xf32>):
// CHECK-NEXT:   %i = spike.linear %a, %b : !spike.train<32x?x784>, tensor<784x10xf32> -> tensor<32x?x10xf32>
// CHECK-NEXT:   %o, %e = spike.lif %i initial(%c : tensor<?x10xf32>) {beta = 9.000000e-01 : f64} : (tensor<32x?x10xf32>) -> (!spike.train<32x?x10>, tensor<?x10xf32>)
// CHECK-NEXT:   spike.yield %o, %e : !spike.train<32x?x10>, tensor<?x10xf32>
// CHECK-NEXT: }
