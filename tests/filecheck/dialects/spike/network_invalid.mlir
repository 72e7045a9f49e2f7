// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

// expected-error @+1 {{'spike.network' expects 'dt' as a positive number of seconds of f64, got 0.000000e+00 : f64}}
spike.network @net dt = 0.0 {
  spike.input @x {shape = array<i64: 4>}
}

// -----

// expected-error @+1 {{'spike.network' expects integration one of euler, exact, got 'heun'}}
spike.network @net dt = 1.0 attributes {integration = "heun"} {
  spike.input @x {shape = array<i64: 4>}
}

// -----

// expected-error @+1 {{'spike.network' expects inputs, populations, projections, probes and parameters, got 'tensor.relu'}}
spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1.0> : tensor<4x4xf32>
  %r = tensor.relu %w : (tensor<4x4xf32>) -> tensor<4x4xf32>
}

// -----

// expected-error @+1 {{'spike.network' Redefinition of symbol "x"}}
spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.input @x {shape = array<i64: 4>}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.input' @x expects a shape of sizes of at least 1, got []}}
  spike.input @x {shape = array<i64>}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.input' expects signal one of spikes, current, got 'light'}}
  spike.input @x {shape = array<i64: 4>, signal = "light"}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' expects model one of lif, integrate_fire, cuba_lif, adaptive_lif, leaky_integrator, cuba_integrator, integrator, sigma_delta, threshold, relay, got 'izhikevich'}}
  spike.population @n {model = "izhikevich", shape = array<i64: 4>}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' @n expects a shape of sizes of at least 1, got [0]}}
  spike.population @n {model = "relay", shape = array<i64: 0>}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' @n expects the parameter 'tau'}}
  spike.population @n {model = "lif", shape = array<i64: 4>}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' @n has a parameter 'alpha', the model 'lif' has tau, v_leak, r, v_threshold, v_reset}}
  spike.population @n {model = "lif", shape = array<i64: 4>, parameters = {tau = 0.02 : f64,
      alpha = 1.0 : f64}}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' @n expects tau as a finite f64, got 2.000000e-02 : f32}}
  spike.population @n {model = "lif", shape = array<i64: 4>, parameters = {tau = 0.02 : f32}}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' @n expects tau of at least 0.001 s, got 0.0005}}
  spike.population @n {model = "lif", shape = array<i64: 4>, parameters = {tau = 0.0005 : f64}}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' expects reset one of subtract, to_value, none, got 'zero'}}
  spike.population @n {model = "lif", shape = array<i64: 4>, parameters = {tau = 0.02 : f64},
      reset = "zero"}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' @n expects compare with lif, integrate_fire, cuba_lif, adaptive_lif, threshold alone, got 'relay'}}
  spike.population @n {model = "relay", shape = array<i64: 4>, compare = "ge"}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' @n expects reset with lif, integrate_fire, cuba_lif, adaptive_lif alone, got 'threshold'}}
  spike.population @n {model = "threshold", shape = array<i64: 4>, reset = "none"}
}

// -----

spike.network @net dt = 1.0e-03 {
  // expected-error @+1 {{'spike.population' @n expects a name in each for every operand, got 1 names and 0 operands}}
  spike.population @n {model = "lif", shape = array<i64: 4>, parameters = {tau = 0.02 : f64},
      each = ["r"]}
}

// -----

spike.network @net dt = 1.0e-03 {
  %t = tensor.constant dense<1.0> : tensor<4xf32>
  // expected-error @+1 {{'spike.population' @n expects every parameter once}}
  spike.population @n values(%t : tensor<4xf32>) {model = "lif", shape = array<i64: 4>,
      parameters = {tau = 0.02 : f64}, each = ["tau"]}
}

// -----

spike.network @net dt = 1.0e-03 {
  %t = tensor.constant dense<1.0> : tensor<5xf32>
  // expected-error @+1 {{'spike.population' @n expects tau of f32 or f64 that broadcasts to 4, got tensor<5xf32>}}
  spike.population @n values(%t : tensor<5xf32>) {model = "lif", shape = array<i64: 4>, each =
      ["tau"]}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p refers to @y, which the network does not have}}
  spike.projection @p @y -> @n {connection = "one_to_one"}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p refers to @m, which the network does not have}}
  spike.projection @p @x -> @m {connection = "one_to_one"}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p expects a population, @x is a 'spike.input'}}
  spike.projection @p @n -> @x {connection = "one_to_one", delay = 1 : i64}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' expects connection one of linear, conv, one_to_one, avg_pool, sum_pool, got 'all_to_all'}}
  spike.projection @p @x -> @n {connection = "all_to_all"}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p expects a delay of at least 0, got -1}}
  spike.projection @p @x -> @n {connection = "one_to_one", delay = -1 : i64}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p linear: expects weights}}
  spike.projection @p @x -> @n
}

// -----

spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1.0> : tensor<5x4xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p expects weights [4, out] for a source of 4, got 5x4}}
  spike.projection @p @x -> @n weights(%w : tensor<5x4xf32>)
}

// -----

spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1.0> : tensor<4x5xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p gives 5, expected 4 for @n}}
  spike.projection @p @x -> @n weights(%w : tensor<4x5xf32>)
}

// -----

spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1> : tensor<4x4xi32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p expects weights of f32, f64, i8 or trits, got tensor<4x4xi32>}}
  spike.projection @p @x -> @n weights(%w : tensor<4x4xi32>)
}

// -----

spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1.0> : tensor<4x4xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p expects bias of 4 f32 or f64, got tensor<4x4xf32>}}
  spike.projection @p @x -> @n weights(%w : tensor<4x4xf32>) bias(%w : tensor<4x4xf32>)
}

// -----

spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1.0> : tensor<4x4xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p expects scale of 4 f32 or f64 or one, got tensor<4x4xf32>}}
  spike.projection @p @x -> @n weights(%w : tensor<4x4xf32>) scale(%w : tensor<4x4xf32>)
}

// -----

spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1.0> : tensor<4x4xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p linear: expects groups for convolutions alone}}
  spike.projection @p @x -> @n weights(%w : tensor<4x4xf32>) {groups = 1 : i64}
}

// -----

spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1.0> : tensor<4x4xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p expects weights that broadcast to 4, got 4x4}}
  spike.projection @p @x -> @n weights(%w : tensor<4x4xf32>) {connection = "one_to_one"}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 2, 4, 4>}
  spike.population @n {model = "relay", shape = array<i64: 2, 2, 2>}
  // expected-error @+1 {{'spike.projection' @p avg_pool: expects kernel for pools, and only there}}
  spike.projection @p @x -> @n {connection = "avg_pool"}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 2, 4, 4>}
  spike.population @n {model = "relay", shape = array<i64: 2, 2, 2>}
  // expected-error @+1 {{'spike.projection' @p expects a kernel for the 2 axes of 2x4x4, got [2]}}
  spike.projection @p @x -> @n {connection = "avg_pool", kernel = array<i64: 2>}
}

// -----

spike.network @net dt = 1.0e-03 {
  %w = tensor.constant dense<1.0> : tensor<4x4xf32>
  spike.input @x {shape = array<i64: 2, 4, 4>}
  spike.population @n {model = "relay", shape = array<i64: 2, 2, 2>}
  // expected-error @+1 {{'spike.projection' @p sum_pool: expects no weights, scale or bias}}
  spike.projection @p @x -> @n weights(%w : tensor<4x4xf32>) {connection = "sum_pool", kernel =
      array<i64: 2, 2>}
}

// -----

spike.network @net dt = 1.0e-03 {
  %d = tensor.constant dense<1.0> : tensor<4xf32>
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.projection' @p expects delays of integers that broadcast to 4, got tensor<4xf32>}}
  spike.projection @p @x -> @n delays(%d : tensor<4xf32>) {connection = "one_to_one"}
}

// -----

// expected-error @+1 {{'spike.network' expects a delay of at least 1 in every cycle, @n -> @n has none}}
spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  spike.projection @p @n -> @n {connection = "one_to_one"}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.probe' @o refers to @m, which the network does not have}}
  spike.probe @o @m
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.probe' @o expects a population, @x is a 'spike.input'}}
  spike.probe @o @x
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.probe' expects variable one of output, v, got 'i'}}
  spike.probe @o @n {variable = "i"}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  // expected-error @+1 {{'spike.probe' @o watches 'v', the model 'relay' has none}}
  spike.probe @o @n {variable = "v"}
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  spike.probe @o @n
  // expected-error @+1 {{'spike.probe' @q watches the same as @o: 'output' of @n}}
  spike.probe @q @n
}

// -----

func.func @f() {
  // expected-error @+1 {{'spike.input' expects parent op 'spike.network'}}
  spike.input @x {shape = array<i64: 4>}
  func.return
}

// -----

func.func @f(%x: !spike.train<8x2x4>) {
  // expected-error @+1 {{'spike.simulate' finds no network @net}}
  %o = spike.simulate @net(%x) : (!spike.train<8x2x4>) -> !spike.train<8x2x4>
  func.return
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  spike.probe @o @n
}
func.func @f(%x: !spike.train<8x2x5>) {
  // expected-error @+1 {{'spike.simulate' expects !spike.train<?x?x4> for @x, got !spike.train<8x2x5>}}
  %o = spike.simulate @net(%x) : (!spike.train<8x2x5>) -> tensor<8x2x4xf32>
  func.return
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  spike.probe @o @n
}
func.func @f(%x: !spike.train<8x2x4>) {
  // expected-error @+1 {{'spike.simulate' result 0 has type !spike.train<8x2x4>, expected tensor<8x2x4xf32>}}
  %o = spike.simulate @net(%x) : (!spike.train<8x2x4>) -> !spike.train<8x2x4>
  func.return
}

// -----

spike.network @net dt = 1.0e-03 {
  spike.input @x {shape = array<i64: 4>}
  spike.population @n {model = "relay", shape = array<i64: 4>}
  spike.probe @o @n
}
func.func @f(%x: !spike.train<8x2x4>) attributes {spike.dt = 0.1 : f64} {
  // expected-error @+1 {{'spike.simulate' runs @net in steps of 0.001 s, the function states 0.1 s}}
  %o = spike.simulate @net(%x) : (!spike.train<8x2x4>) -> tensor<8x2x4xf32>
  func.return
}
