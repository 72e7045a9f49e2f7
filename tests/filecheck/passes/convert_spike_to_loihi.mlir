// RUN: triton-opt %s -p convert-spike-to-loihi | filecheck %s

func.func @forward(%x: !spike.train<?x?x2>) -> !spike.train<?x?x1> {
  %w = tensor.constant dense<[[1.0], [-2.0]]> : tensor<2x1xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x2>, tensor<2x1xf32> -> tensor<?x?x1xf32>
  %s = spike.lif %i {beta = 0.875 : f64, threshold = 4.0 : f64, compare = "gt", reset = "to_value"}
    : (tensor<?x?x1xf32>) -> !spike.train<?x?x1>
  func.return %s : !spike.train<?x?x1>
}
// CHECK: %[[LATE:.*]] = spike.delay %x {steps = 1 : i64}
// CHECK: spike.linear %[[LATE]], %{{.*}} : !spike.train<?x?x2>, tensor<2x1xi8> -> tensor<?x?x1xi32>
// CHECK: spike.loihi_lif %{{.*}} {du = 4.095000e+03 : f64, dv = 5.120000e+02 : f64
