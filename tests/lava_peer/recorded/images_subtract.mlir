builtin.module @Images attributes {tensor.parameters = #tensor.store<"images_subtract.safetensors", sha256 = "2db0c82e42e002daf5814ee7acd4d9742525f6d5ef9b09c8dbb1535c56d3170f">} {
  func.func @forward(%x: tensor<?x1x8x8xf32> {tensor.name = "x", tensor.dimensions = ["N", "1", "8", "8"]}) -> (tensor<?x5xf32> {tensor.name = "output", tensor.dimensions = ["N", "5"]}) {
    %conv_weight = tensor.parameter "conv.weight" : tensor<4x1x3x3xf32>
    %conv_bias = tensor.parameter "conv.bias" : tensor<4xf32>
    %0 = tensor.conv %x, %conv_weight, %conv_bias {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<?x1x8x8xf32>, tensor<4x1x3x3xf32>, tensor<4xf32>) -> tensor<?x4x8x8xf32>
    %1 = spike.encode %0 {scheme = "direct", timesteps = 6 : i64} : (tensor<?x4x8x8xf32>) -> tensor<6x?x4x8x8xf32>
    %2 = tensor.clamp %0 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x4x8x8xf32>) -> tensor<?x4x8x8xf32>
    %3 = tensor.parameter "initial" buffer : tensor<4x8x8xf32>
    %4 = tensor.add %2, %3 : (tensor<?x4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<?x4x8x8xf32>
    %5 = tensor.constant dense<[[[1.36651814]], [[0.278258741]], [[0.278258741]], [[0.278258741]]]> : tensor<4x1x1xf32>
    %6 = spike.integrate_fire %1 initial(%4 : tensor<?x4x8x8xf32>) threshold(%5 : tensor<4x1x1xf32>) : (tensor<6x?x4x8x8xf32>) -> !spike.train<6x?x4x8x8>
    %7 = spike.avg_pool %6 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (!spike.train<6x?x4x8x8>) -> tensor<6x?x4x4x4xf32>
    %8 = tensor.parameter "conv2_weight.fitted" buffer : tensor<6x4x3x3xf32>
    %9 = tensor.constant dense<[0.0106649045, 0.810903072, 0.437756896, 0.774554729, 0.932229638, -0.325009257]> : tensor<6xf32>
    %10 = spike.conv %7, %8 bias(%9 : tensor<6xf32>) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : tensor<6x?x4x4x4xf32>, tensor<6x4x3x3xf32> -> tensor<6x?x6x4x4xf32>
    %11 = tensor.slice %10 {starts = array<i64: 0, 0, 0, 0, 0>, ends = array<i64: 1, 9223372036854775807, 9223372036854775807, 9223372036854775807, 9223372036854775807>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<6x?x6x4x4xf32>) -> tensor<1x?x6x4x4xf32>
    %12 = tensor.squeeze %11 {axes = array<i64: 0>} : (tensor<1x?x6x4x4xf32>) -> tensor<?x6x4x4xf32>
    %13 = tensor.clamp %12 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x6x4x4xf32>) -> tensor<?x6x4x4xf32>
    %14 = tensor.parameter "initial.1" buffer : tensor<6x4x4xf32>
    %15 = tensor.add %13, %14 : (tensor<?x6x4x4xf32>, tensor<6x4x4xf32>) -> tensor<?x6x4x4xf32>
    %16 = tensor.constant dense<[[[0.339432329]], [[0.784282207]], [[0.499915659]], [[0.862075925]], [[1.0198009]], [[0.246995822]]]> : tensor<6x1x1xf32>
    %17 = spike.integrate_fire %10 initial(%15 : tensor<?x6x4x4xf32>) threshold(%16 : tensor<6x1x1xf32>) : (tensor<6x?x6x4x4xf32>) -> !spike.train<6x?x6x4x4>
    %18 = spike.avg_pool %17 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (!spike.train<6x?x6x4x4>) -> tensor<6x?x6x2x2xf32>
    %19 = tensor.flatten %18 {start = 2 : i64, end = 4 : i64} : (tensor<6x?x6x2x2xf32>) -> tensor<6x?x24xf32>
    %20 = tensor.parameter "fc_weight.fitted" buffer : tensor<24x12xf32>
    %21 = tensor.constant dense<[1.28848147, 2.32310104, 2.06143236, -0.79759711, 1.54430342, 1.03603578, 0.534340084, 0.331200868, -1.06064522, -1.63368356, 1.46617877, 0.539899945]> : tensor<12xf32>
    %22 = spike.linear %19, %20 bias(%21 : tensor<12xf32>) : tensor<6x?x24xf32>, tensor<24x12xf32> -> tensor<6x?x12xf32>
    %23 = tensor.slice %22 {starts = array<i64: 0, 0, 0>, ends = array<i64: 1, 9223372036854775807, 9223372036854775807>, steps = array<i64: 1, 1, 1>} : (tensor<6x?x12xf32>) -> tensor<1x?x12xf32>
    %24 = tensor.squeeze %23 {axes = array<i64: 0>} : (tensor<1x?x12xf32>) -> tensor<?x12xf32>
    %25 = tensor.clamp %24 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x12xf32>) -> tensor<?x12xf32>
    %26 = tensor.constant dense<[0.53248167, 1.40555489, 1.59425831, 0.220327109, 0.734237492, 0.49258849, 0.340478957, 0.350395739, 0.220327109, 0.220327109, 0.510119796, 0.237265825]> : tensor<12xf32>
    %27 = tensor.add %25, %26 : (tensor<?x12xf32>, tensor<12xf32>) -> tensor<?x12xf32>
    %28 = tensor.constant dense<[1.06496334, 2.81110978, 3.18851662, 0.440654218, 1.46847498, 9.851770e-01, 0.680957913, 0.700791478, 0.440654218, 0.440654218, 1.02023959, 0.474531651]> : tensor<12xf32>
    %29 = spike.integrate_fire %22 initial(%27 : tensor<?x12xf32>) threshold(%28 : tensor<12xf32>) : (tensor<6x?x12xf32>) -> !spike.train<6x?x12>
    %30 = tensor.constant dense<[[-0.0260339174, -0.0656558573, 0.0748344585, 0.0153240161, -0.0260119736], [0.0657717213, 6.499460e-03, 0.0380488969, 0.018766487, -0.00501984451], [-0.00975195225, -0.0203488767, -0.0560911037, 0.0183217153, -0.0501522198], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.110876806, 0.0676892847, -0.0889948308, -0.000518659886, -0.00432954356], [-0.126807779, 0.00666457368, 0.0286271945, -0.0171183236, -0.0348492675], [-0.0435113572, -0.00873939134, -0.060017284, -0.0381340794, -0.104954474], [0.09110789, -0.00437742798, -0.00195567566, 0.0185714029, 0.151764199], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.13750428, -0.0201416798, -0.0669519827, 2.98468058e-06, 0.0390295386], [0.210647643, 0.0113986339, -0.12037424, 0.0227125306, 0.10108038]]> : tensor<12x5xf32>
    %31 = tensor.constant dense<[3.07888484, 0.915559888, -0.398220479, -1.19054461, 1.38330948]> : tensor<5xf32>
    %32 = spike.linear %29, %30 bias(%31 : tensor<5xf32>) : !spike.train<6x?x12>, tensor<12x5xf32> -> tensor<6x?x5xf32>
    %33 = spike.decode %32 {scheme = "membrane", readout = "mean"} : (tensor<6x?x5xf32>) -> tensor<?x5xf32>
    func.return %33 : tensor<?x5xf32>
  }
}
