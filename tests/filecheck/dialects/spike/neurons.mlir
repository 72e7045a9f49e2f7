// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// RUN: xdsl-opt %s | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<8x?x4xf32>) {
  %s = spike.lif %x {beta = 9.0e-01 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.lif %x {beta = 9.000000e-01 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>

func.func @f1(%x: tensor<8x?x4xf32>, %v: tensor<?x4xf32>, %b: tensor<4xf32>, %t: tensor<f32>, %g: tensor<4xf32>) {
  %s, %w = spike.lif %x initial(%v : tensor<?x4xf32>) beta(%b : tensor<4xf32>) gain(%g :
      tensor<4xf32>) threshold(%t : tensor<f32>) {v_leak = -1.0e-01 : f64, v_reset = 0.25 : f64,
      compare = "gt", reset = "to_value"} : (tensor<8x?x4xf32>) -> (!spike.train<8x?x4>,
      tensor<?x4xf32>)
  func.return
}
// CHECK: %s, %w = spike.lif %x initial(%v : tensor<?x4xf32>) beta(%b : tensor<4xf32>) gain(%g : tensor<4xf32>) threshold(%t : tensor<f32>) {v_leak = -1.000000e-01 : f64, v_reset = 2.500000e-01 : f64, compare = "gt", reset = "to_value"} : (tensor<8x?x4xf32>) -> (!spike.train<8x?x4>, tensor<?x4xf32>)

func.func @f2(%x: tensor<8x?x4xf32>, %l: tensor<4xf32>, %r: tensor<4xf32>) {
  %s = spike.lif %x v_leak(%l : tensor<4xf32>) v_reset(%r : tensor<4xf32>) {beta = 1.0 : f64,
      reset = "to_value"} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.lif %x v_leak(%l : tensor<4xf32>) v_reset(%r : tensor<4xf32>) {beta = 1.000000e+00 : f64, reset = "to_value"} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>

func.func @f3(%x: tensor<8x?x4xf32>) {
  %s = spike.integrate_fire %x : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.integrate_fire %x : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>

func.func @f4(%x: tensor<?xi32>, %t: tensor<i32>, %v: tensor<i32>) {
  %s, %w = spike.integrate_fire %x initial(%v : tensor<i32>) threshold(%t : tensor<i32>) {gain =
      3.0 : f64, reset = "none"} : (tensor<?xi32>) -> (!spike.train<?>, tensor<i32>)
  func.return
}
// CHECK: %s, %w = spike.integrate_fire %x initial(%v : tensor<i32>) threshold(%t : tensor<i32>) {gain = 3.000000e+00 : f64, reset = "none"} : (tensor<?xi32>) -> (!spike.train<?>, tensor<i32>)

func.func @f5(%x: tensor<8x?x4xf32>) {
  %s = spike.cuba_lif %x {alpha = 5.0e-01 : f64, beta = 9.0e-01 : f64} : (tensor<8x?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.cuba_lif %x {alpha = 5.000000e-01 : f64, beta = 9.000000e-01 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>

func.func @f6(%x: tensor<8x?x4xf32>, %c: tensor<?x4xf32>, %v: tensor<?x4xf32>, %a: tensor<4xf32>, %w: tensor<4xf32>) {
  %s, %d, %e = spike.cuba_lif %x initial(%c, %v : tensor<?x4xf32>, tensor<?x4xf32>) alpha(%a :
      tensor<4xf32>) w_in(%w : tensor<4xf32>) {beta = 9.0e-01 : f64, gain = 2.0 : f64, threshold
      = 5.0e-01 : f64} : (tensor<8x?x4xf32>) -> (!spike.train<8x?x4>, tensor<?x4xf32>,
      tensor<?x4xf32>)
  func.return
}
// CHECK: %s, %d, %e = spike.cuba_lif %x initial(%c, %v : tensor<?x4xf32>, tensor<?x4xf32>) alpha(%a : tensor<4xf32>) w_in(%w : tensor<4xf32>) {beta = 9.000000e-01 : f64, gain = 2.000000e+00 : f64, threshold = 5.000000e-01 : f64} : (tensor<8x?x4xf32>) -> (!spike.train<8x?x4>, tensor<?x4xf32>, tensor<?x4xf32>)

func.func @f7(%x: tensor<8x?x4xf32>) {
  %v = spike.leaky_integrator %x {beta = 9.0e-01 : f64, v_leak = 1.0 : f64, gain = 1.0e-01 :
      f64} : (tensor<8x?x4xf32>) -> tensor<8x?x4xf32>
  func.return
}
// CHECK: %v = spike.leaky_integrator %x {beta = 9.000000e-01 : f64, v_leak = 1.000000e+00 : f64, gain = 1.000000e-01 : f64} : (tensor<8x?x4xf32>) -> tensor<8x?x4xf32>

func.func @f8(%x: tensor<8x?x4xf32>, %i: tensor<?x4xf32>, %b: tensor<4xf32>) {
  %v, %w = spike.leaky_integrator %x initial(%i : tensor<?x4xf32>) beta(%b : tensor<4xf32>) :
      (tensor<8x?x4xf32>) -> (tensor<8x?x4xf32>, tensor<?x4xf32>)
  func.return
}
// CHECK: %v, %w = spike.leaky_integrator %x initial(%i : tensor<?x4xf32>) beta(%b : tensor<4xf32>) : (tensor<8x?x4xf32>) -> (tensor<8x?x4xf32>, tensor<?x4xf32>)

func.func @f9(%x: tensor<8x?x4xf32>) {
  %s = spike.adaptive_lif %x {beta = 9.0e-01 : f64, rho = 9.9e-01 : f64, kappa = 1.8 : f64} :
      (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.adaptive_lif %x {beta = 9.000000e-01 : f64, rho = 9.900000e-01 : f64, kappa = 1.800000e+00 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>

func.func @f10(%x: tensor<8x?x4xf32>, %v: tensor<?x4xf32>, %a: tensor<?x4xf32>, %k: tensor<4xf32>) {
  %s, %w, %b = spike.adaptive_lif %x initial(%v, %a : tensor<?x4xf32>, tensor<?x4xf32>) kappa(%k
      : tensor<4xf32>) {beta = 9.0e-01 : f64, rho = 0.0 : f64, reset = "none"} :
      (tensor<8x?x4xf32>) -> (!spike.train<8x?x4>, tensor<?x4xf32>, tensor<?x4xf32>)
  func.return
}
// CHECK: %s, %w, %b = spike.adaptive_lif %x initial(%v, %a : tensor<?x4xf32>, tensor<?x4xf32>) kappa(%k : tensor<4xf32>) {beta = 9.000000e-01 : f64, rho = 0.000000e+00 : f64, reset = "none"} : (tensor<8x?x4xf32>) -> (!spike.train<8x?x4>, tensor<?x4xf32>, tensor<?x4xf32>)

func.func @f11(%x: tensor<8x?x4xf32>) {
  %d = spike.sigma_delta %x : (tensor<8x?x4xf32>) -> tensor<8x?x4xf32>
  func.return
}
// CHECK: %d = spike.sigma_delta %x : (tensor<8x?x4xf32>) -> tensor<8x?x4xf32>

func.func @f12(%x: tensor<8x?x4xf32>, %a: tensor<?x4xf32>, %b: tensor<4xf32>) {
  %d, %e, %f, %g, %h = spike.sigma_delta %x initial(%a, %a, %a, %a : tensor<?x4xf32>,
      tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) bias(%b : tensor<4xf32>) {threshold =
      1.0e-01 : f64, compare = "gt", activation = "none", cumulative = true} :
      (tensor<8x?x4xf32>) -> (tensor<8x?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>,
      tensor<?x4xf32>, tensor<?x4xf32>)
  func.return
}
// CHECK: %d, %e, %f, %g, %h = spike.sigma_delta %x initial(%a, %a, %a, %a : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) bias(%b : tensor<4xf32>) {threshold = 1.000000e-01 : f64, compare = "gt", activation = "none", cumulative = true} : (tensor<8x?x4xf32>) -> (tensor<8x?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
