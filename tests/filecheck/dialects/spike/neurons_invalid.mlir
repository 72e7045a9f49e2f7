// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<f32>) {
  // expected-error @+1 {{'spike.lif' expects time first and rank 1 or more, got tensor<f32>}}
  %s = spike.lif %x {beta = 0.5 : f64} : (tensor<f32>) -> !spike.train<1>
  func.return
}

// -----

func.func @f(%x: tensor<8x4xi32>) {
  // expected-error @+1 {{'spike.lif' expects a current of floats, got tensor<8x4xi32>}}
  %s = spike.lif %x {beta = 0.5 : f64} : (tensor<8x4xi32>) -> !spike.train<8x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x4xi16>) {
  // expected-error @+1 {{'spike.loihi_lif' expects a current of i32, got tensor<8x4xi16>}}
  %s = spike.loihi_lif %x {du = 0.0 : f64, dv = 0.0 : f64, threshold = 1.0 : f64} : (tensor<8x4xi16>) -> !spike.train<8x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x4xi32>) {
  // expected-error @+1 {{'spike.loihi_lif' expects du as a finite number from 0.0 to 4095, got 4096.0}}
  %s = spike.loihi_lif %x {du = 4096.0 : f64, dv = 0.0 : f64, threshold = 1.0 : f64} : (tensor<8x4xi32>) -> !spike.train<8x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x4xi32>) {
  // expected-error @+1 {{'spike.loihi_lif' expects the reset 'to_value' or 'subtract', got 'none'}}
  %s = spike.loihi_lif %x {du = 0.0 : f64, dv = 0.0 : f64, threshold = 1.0 : f64, reset = "none"} : (tensor<8x4xi32>) -> !spike.train<8x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x4xi1>) {
  // expected-error @+1 {{'spike.integrate_fire' expects a current of floats or i8, i16, i32 or i64, got tensor<8x4xi1>}}
  %s = spike.integrate_fire %x : (tensor<8x4xi1>) -> !spike.train<8x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.lif' expects beta as a number or for each neuron, got neither}}
  %s = spike.lif %x : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'spike.lif' expects beta as a number or for each neuron, got both}}
  %s = spike.lif %x beta(%b : tensor<4xf32>) {beta = 0.5 : f64} : (tensor<8x?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.lif' expects beta as a finite number from 0.0 to 1.0, got 1.5}}
  %s = spike.lif %x {beta = 1.5 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.lif' expects threshold as a finite number, got inf}}
  %s = spike.lif %x {beta = 0.5 : f64, threshold = 0x7FF0000000000000 : f64} :
      (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{'spike.lif' expects beta that broadcasts to ?x4, got tensor<5xf32>}}
  %s = spike.lif %x beta(%b : tensor<5xf32>) : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{'spike.lif' expects beta of f32, got tensor<4xf64>}}
  %s = spike.lif %x beta(%b : tensor<4xf64>) : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.lif' expects compare one of gt, ge, got 'eq'}}
  %s = spike.lif %x {beta = 0.5 : f64, compare = "eq"} : (tensor<8x?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.lif' expects reset one of subtract, to_value, none, got 'zero'}}
  %s = spike.lif %x {beta = 0.5 : f64, reset = "zero"} : (tensor<8x?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.lif' expects v_reset with the reset 'to_value' alone, got 'subtract'}}
  %s = spike.lif %x {beta = 0.5 : f64, v_reset = 0.0 : f64} : (tensor<8x?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>, %v: tensor<?x5xf32>) {
  // expected-error @+1 {{'spike.lif' expects the initial state v as tensor<?x4xf32>, got tensor<?x5xf32>}}
  %s = spike.lif %x initial(%v : tensor<?x5xf32>) {beta = 0.5 : f64} : (tensor<8x?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>, %v: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.cuba_lif' expects 2 initial state(s), c, v, got 1}}
  %s = spike.cuba_lif %x initial(%v : tensor<?x4xf32>) {alpha = 0.5 : f64, beta = 0.5 : f64} :
      (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.lif' result 0 has type !spike.train<8x?x5>, expected !spike.train<8x?x4>}}
  %s = spike.lif %x {beta = 0.5 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x5>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.cuba_lif' has 2 results, expected 3}}
  %s, %v = spike.cuba_lif %x {alpha = 0.5 : f64, beta = 0.5 : f64} : (tensor<8x?x4xf32>) ->
      (!spike.train<8x?x4>, tensor<?x4xf32>)
  func.return
}

// -----

func.func @f(%x: tensor<8x4xi32>) {
  // expected-error @+1 {{'spike.integrate_fire' expects threshold as a whole number for tensor<4xi32>, got 0.5}}
  %s = spike.integrate_fire %x {threshold = 0.5 : f64} : (tensor<8x4xi32>) -> !spike.train<8x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.adaptive_lif' expects kappa as a number or for each neuron, got neither}}
  %s = spike.adaptive_lif %x {beta = 0.5 : f64, rho = 0.5 : f64} : (tensor<8x?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.leaky_integrator' expects beta as a finite number from 0.0 to 1.0, got -0.5}}
  %s = spike.leaky_integrator %x {beta = -0.5 : f64} : (tensor<8x?x4xf32>) -> tensor<8x?x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.sigma_delta' expects activation one of none, relu, got 'tanh'}}
  %d = spike.sigma_delta %x {activation = "tanh"} : (tensor<8x?x4xf32>) -> tensor<8x?x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.sigma_delta' expects compare one of gt, ge, got 'lt'}}
  %d = spike.sigma_delta %x {compare = "lt"} : (tensor<8x?x4xf32>) -> tensor<8x?x4xf32>
  func.return
}
