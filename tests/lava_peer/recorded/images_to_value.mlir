builtin.module @Images attributes {tensor.parameters = #tensor.store<"images_to_value.safetensors", sha256 = "10da88e645a320d7bc78b81f73558b55dacafbd33acf24400f8550bac79dc3a6">} {
  func.func @forward(%x: tensor<?x1x8x8xf32> {tensor.name = "x", tensor.dimensions = ["N", "1", "8", "8"]}) -> (tensor<?x5xf32> {tensor.name = "output", tensor.dimensions = ["N", "5"]}) {
    %conv_weight = tensor.parameter "conv.weight" : tensor<4x1x3x3xf32>
    %conv_bias = tensor.parameter "conv.bias" : tensor<4xf32>
    %0 = tensor.conv %x, %conv_weight, %conv_bias {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<?x1x8x8xf32>, tensor<4x1x3x3xf32>, tensor<4xf32>) -> tensor<?x4x8x8xf32>
    %1 = spike.encode %0 {scheme = "direct", timesteps = 6 : i64} : (tensor<?x4x8x8xf32>) -> tensor<6x?x4x8x8xf32>
    %2 = tensor.clamp %0 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x4x8x8xf32>) -> tensor<?x4x8x8xf32>
    %3 = tensor.parameter "initial" buffer : tensor<4x8x8xf32>
    %4 = tensor.add %2, %3 : (tensor<?x4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<?x4x8x8xf32>
    %5 = tensor.constant dense<[[[1.74439788]], [[0.278258741]], [[0.278258741]], [[0.278258741]]]> : tensor<4x1x1xf32>
    %6 = spike.integrate_fire %1 initial(%4 : tensor<?x4x8x8xf32>) threshold(%5 : tensor<4x1x1xf32>) {reset = "to_value"} : (tensor<6x?x4x8x8xf32>) -> !spike.train<6x?x4x8x8>
    %7 = spike.avg_pool %6 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (!spike.train<6x?x4x8x8>) -> tensor<6x?x4x4x4xf32>
    %8 = tensor.parameter "conv2_weight.fitted" buffer : tensor<6x4x3x3xf32>
    %9 = tensor.constant dense<[0.00688833464, 0.817515612, 0.435801804, 0.774523675, 0.938054204, -0.321044773]> : tensor<6xf32>
    %10 = spike.conv %7, %8 bias(%9 : tensor<6xf32>) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : tensor<6x?x4x4x4xf32>, tensor<6x4x3x3xf32> -> tensor<6x?x6x4x4xf32>
    %11 = tensor.slice %10 {starts = array<i64: 0, 0, 0, 0, 0>, ends = array<i64: 1, 9223372036854775807, 9223372036854775807, 9223372036854775807, 9223372036854775807>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<6x?x6x4x4xf32>) -> tensor<1x?x6x4x4xf32>
    %12 = tensor.squeeze %11 {axes = array<i64: 0>} : (tensor<1x?x6x4x4xf32>) -> tensor<?x6x4x4xf32>
    %13 = tensor.clamp %12 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x6x4x4xf32>) -> tensor<?x6x4x4xf32>
    %14 = tensor.parameter "initial.1" buffer : tensor<6x4x4xf32>
    %15 = tensor.add %13, %14 : (tensor<?x6x4x4xf32>, tensor<6x4x4xf32>) -> tensor<?x6x4x4xf32>
    %16 = tensor.constant dense<[[[0.553112507]], [[0.784282207]], [[0.306786656]], [[0.529036045]], [[1.66178823]], [[0.402485162]]]> : tensor<6x1x1xf32>
    %17 = spike.integrate_fire %10 initial(%15 : tensor<?x6x4x4xf32>) threshold(%16 : tensor<6x1x1xf32>) {reset = "to_value"} : (tensor<6x?x6x4x4xf32>) -> !spike.train<6x?x6x4x4>
    %18 = spike.avg_pool %17 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (!spike.train<6x?x6x4x4>) -> tensor<6x?x6x2x2xf32>
    %19 = tensor.flatten %18 {start = 2 : i64, end = 4 : i64} : (tensor<6x?x6x2x2xf32>) -> tensor<6x?x24xf32>
    %20 = tensor.parameter "fc_weight.fitted" buffer : tensor<24x12xf32>
    %21 = tensor.constant dense<[1.0525893, 2.38230896, 2.5420661, -0.642115951, 1.45109034, 0.917812347, 0.592161417, 0.719399273, -1.33634126, -1.53216076, 1.23722732, 0.409350514]> : tensor<12xf32>
    %22 = spike.linear %19, %20 bias(%21 : tensor<12xf32>) : tensor<6x?x24xf32>, tensor<24x12xf32> -> tensor<6x?x12xf32>
    %23 = tensor.slice %22 {starts = array<i64: 0, 0, 0>, ends = array<i64: 1, 9223372036854775807, 9223372036854775807>, steps = array<i64: 1, 1, 1>} : (tensor<6x?x12xf32>) -> tensor<1x?x12xf32>
    %24 = tensor.squeeze %23 {axes = array<i64: 0>} : (tensor<1x?x12xf32>) -> tensor<?x12xf32>
    %25 = tensor.clamp %24 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x12xf32>) -> tensor<?x12xf32>
    %26 = tensor.constant dense<[0.417132974, 1.10107696, 7.647310e+01, 0.220327109, 7.647310e+01, 0.385881633, 5.548180e-01, 0.570977628, 0.220327109, 0.220327109, 0.510119796, 0.302876323]> : tensor<12xf32>
    %27 = tensor.add %25, %26 : (tensor<?x12xf32>, tensor<12xf32>) -> tensor<?x12xf32>
    %28 = tensor.constant dense<[0.834265947, 2.20215392, 152.946198, 0.440654218, 152.946198, 0.771763265, 1.10963595, 1.14195526, 0.440654218, 0.440654218, 1.02023959, 0.605752647]> : tensor<12xf32>
    %29 = spike.integrate_fire %22 initial(%27 : tensor<?x12xf32>) threshold(%28 : tensor<12xf32>) {reset = "to_value"} : (tensor<6x?x12xf32>) -> !spike.train<6x?x12>
    %30 = tensor.constant dense<[[0.0521560051, -0.0515129492, 0.0474782959, 0.044661507, -0.00823021773], [0.547240555, 0.0929518491, -0.0177400615, 6.260920e-02, 0.128889263], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [-0.0220641438, -0.0203662086, 0.00142862962, -0.0760351643, 0.0686225072], [-0.0985336676, -0.117109701, -0.0856417343, -0.136925086, -0.163613692], [0.0215040036, -0.0523566827, 0.0813931897, -0.0535999276, 0.166275844], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.0580186918, -0.0521901399, -6.576290e-02, -0.075290516, 0.0291182529], [0.235788956, 0.0010911728, -0.14908281, 0.0982422382, 0.111101471]]> : tensor<12x5xf32>
    %31 = tensor.constant dense<[2.72900081, 0.972716808, -0.517807484, -1.09911788, 1.17442226]> : tensor<5xf32>
    %32 = spike.linear %29, %30 bias(%31 : tensor<5xf32>) : !spike.train<6x?x12>, tensor<12x5xf32> -> tensor<6x?x5xf32>
    %33 = spike.decode %32 {scheme = "membrane", readout = "mean"} : (tensor<6x?x5xf32>) -> tensor<?x5xf32>
    func.return %33 : tensor<?x5xf32>
  }
}
