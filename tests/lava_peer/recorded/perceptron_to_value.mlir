builtin.module @Perceptron attributes {tensor.parameters = #tensor.store<"perceptron_to_value.safetensors", sha256 = "a4dfb1129ded941f644739b43b7efe8d268168fb3d3d39c896659dc73cec23be">} {
  func.func @forward(%x: tensor<?x36xf32> {tensor.name = "x", tensor.dimensions = ["N", "36"]}) -> (tensor<?x5xf32> {tensor.name = "output", tensor.dimensions = ["N", "5"]}) {
    %fc_weight = tensor.parameter "fc.weight" : tensor<36x20xf32>
    %fc_bias = tensor.parameter "fc.bias" : tensor<20xf32>
    %0 = tensor.linear %x, %fc_weight, %fc_bias : (tensor<?x36xf32>, tensor<36x20xf32>, tensor<20xf32>) -> tensor<?x20xf32>
    %1 = spike.encode %0 {scheme = "direct", timesteps = 6 : i64} : (tensor<?x20xf32>) -> tensor<6x?x20xf32>
    %2 = tensor.clamp %0 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x20xf32>) -> tensor<?x20xf32>
    %3 = tensor.constant dense<[1.08530235, 2.63606811, 1.74995685, 0.248888582, 1.36982906, 1.16848862, 0.146360248, 0.846053481, 0.248888582, 0.248888582, 2.0927372, 0.389894545, 0.776421964, 1.81344748, 2.18889713, 0.248888582, 1.27537549, 0.90619266, 0.340065181, 1.01757479]> : tensor<20xf32>
    %4 = tensor.add %2, %3 : (tensor<?x20xf32>, tensor<20xf32>) -> tensor<?x20xf32>
    %5 = tensor.constant dense<[2.17060471, 5.27213621, 3.49991369, 0.497777164, 2.73965812, 2.33697724, 0.292720497, 1.69210696, 0.497777164, 0.497777164, 4.1854744, 0.77978909, 1.55284393, 3.62689495, 4.37779427, 0.497777164, 2.55075097, 1.81238532, 0.680130363, 2.03514957]> : tensor<20xf32>
    %6 = spike.integrate_fire %1 initial(%4 : tensor<?x20xf32>) threshold(%5 : tensor<20xf32>) {reset = "to_value"} : (tensor<6x?x20xf32>) -> !spike.train<6x?x20>
    %7 = tensor.parameter "middle_weight.fitted" buffer : tensor<20x12xf32>
    %8 = tensor.constant dense<[-0.964947581, -1.09998322, 0.858096182, 0.719418049, -0.289282292, -1.45553517, 0.230757758, -1.73196661, -0.828614533, -0.913558662, -1.08574402, 1.09286582]> : tensor<12xf32>
    %9 = spike.linear %6, %7 bias(%8 : tensor<12xf32>) : !spike.train<6x?x20>, tensor<20x12xf32> -> tensor<6x?x12xf32>
    %10 = tensor.slice %9 {starts = array<i64: 0, 0, 0>, ends = array<i64: 1, 9223372036854775807, 9223372036854775807>, steps = array<i64: 1, 1, 1>} : (tensor<6x?x12xf32>) -> tensor<1x?x12xf32>
    %11 = tensor.squeeze %10 {axes = array<i64: 0>} : (tensor<1x?x12xf32>) -> tensor<?x12xf32>
    %12 = tensor.clamp %11 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x12xf32>) -> tensor<?x12xf32>
    %13 = tensor.constant dense<[0.196847871, 1.08728063, 2.34460139, 1.10575104, 0.0764573887, 0.196847871, 0.665219247, 0.251281708, 0.522698462, 0.0620056763, 0.196847871, 2.04287648]> : tensor<12xf32>
    %14 = tensor.add %12, %13 : (tensor<?x12xf32>, tensor<12xf32>) -> tensor<?x12xf32>
    %15 = tensor.constant dense<[0.393695742, 2.17456126, 4.68920279, 2.21150208, 0.152914777, 0.393695742, 1.33043849, 0.502563417, 1.04539692, 0.124011353, 0.393695742, 4.08575296]> : tensor<12xf32>
    %16 = spike.integrate_fire %9 initial(%14 : tensor<?x12xf32>) threshold(%15 : tensor<12xf32>) {reset = "to_value"} : (tensor<6x?x12xf32>) -> !spike.train<6x?x12>
    %17 = tensor.constant dense<[[0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.44507274, -0.0717569217, -0.471189767, -0.419644505, -0.442939937], [0.428964615, -0.522252262, -0.308325171, -0.568895936, -0.149075925], [0.543632209, 0.176502809, -0.318416178, 0.0245436598, 0.156595305], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [-4.185790e-01, -0.334184885, -0.126010403, -0.319509327, -0.485956073], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.0210970063, 0.038359452, 0.00365599222, -0.0220515225, -6.652470e-02], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.960497618, -0.345422804, -8.059700e-01, 6.597190e-02, 0.0961498618]]> : tensor<12x5xf32>
    %18 = tensor.constant dense<[0.636056066, 0.655614257, 0.536400437, -0.481894314, 0.992043674]> : tensor<5xf32>
    %19 = spike.linear %16, %17 bias(%18 : tensor<5xf32>) : !spike.train<6x?x12>, tensor<12x5xf32> -> tensor<6x?x5xf32>
    %20 = spike.decode %19 {scheme = "membrane", readout = "mean"} : (tensor<6x?x5xf32>) -> tensor<?x5xf32>
    func.return %20 : tensor<?x5xf32>
  }
}
