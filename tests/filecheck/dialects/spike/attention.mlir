// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%q: !spike.train<4x?x16x8>, %k: !spike.train<4x?x9x8>) {
  %o = spike.attention %q, %k, %k : (!spike.train<4x?x16x8>, !spike.train<4x?x9x8>,
      !spike.train<4x?x9x8>) -> !spike.train<4x?x16x8>
  func.return
}
// CHECK: %o = spike.attention %q, %k, %k : (!spike.train<4x?x16x8>, !spike.train<4x?x9x8>, !spike.train<4x?x9x8>) -> !spike.train<4x?x16x8>

func.func @f1(%q: !spike.train<4x?x16x8>, %v: tensor<?x16x8xf32>) {
  %o, %w = spike.attention %q, %q, %q, %v {heads = 8 : i64, scale = 2.5e-01 : f64, tau = 4.0 :
      f64, threshold = 1.0 : f64, compare = "gt", reset = "subtract"} : (!spike.train<4x?x16x8>,
      !spike.train<4x?x16x8>, !spike.train<4x?x16x8>, tensor<?x16x8xf32>) ->
      (!spike.train<4x?x16x8>, tensor<?x16x8xf32>)
  func.return
}
// CHECK: %o, %w = spike.attention %q, %q, %q, %v {heads = 8 : i64, scale = 2.500000e-01 : f64, tau = 4.000000e+00 : f64, threshold = 1.000000e+00 : f64, compare = "gt", reset = "subtract"} : (!spike.train<4x?x16x8>, !spike.train<4x?x16x8>, !spike.train<4x?x16x8>, tensor<?x16x8xf32>) -> (!spike.train<4x?x16x8>, tensor<?x16x8xf32>)

func.func @f2(%q: !spike.train<4x?x16x8>) {
  %o, %w = spike.attention %q, %q, %q {kind = "sdsa"} : (!spike.train<4x?x16x8>,
      !spike.train<4x?x16x8>, !spike.train<4x?x16x8>) -> (!spike.train<4x?x16x8>,
      tensor<?x1x8xf32>)
  func.return
}
// CHECK: %o, %w = spike.attention %q, %q, %q {kind = "sdsa"} : (!spike.train<4x?x16x8>, !spike.train<4x?x16x8>, !spike.train<4x?x16x8>) -> (!spike.train<4x?x16x8>, tensor<?x1x8xf32>)
