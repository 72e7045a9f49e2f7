builtin.module @Perceptron attributes {tensor.parameters = #tensor.store<"perceptron_subtract.safetensors", sha256 = "f5c4364a012a02c3842825dff43e9d0c6c7da4c6184e9e4ce1c92a1592ed41dc">} {
  func.func @forward(%x: tensor<?x36xf32> {tensor.name = "x", tensor.dimensions = ["N", "36"]}) -> (tensor<?x5xf32> {tensor.name = "output", tensor.dimensions = ["N", "5"]}) {
    %fc_weight = tensor.parameter "fc.weight" : tensor<36x20xf32>
    %fc_bias = tensor.parameter "fc.bias" : tensor<20xf32>
    %0 = tensor.linear %x, %fc_weight, %fc_bias : (tensor<?x36xf32>, tensor<36x20xf32>, tensor<20xf32>) -> tensor<?x20xf32>
    %1 = spike.encode %0 {scheme = "direct", timesteps = 6 : i64} : (tensor<?x20xf32>) -> tensor<6x?x20xf32>
    %2 = tensor.clamp %0 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x20xf32>) -> tensor<?x20xf32>
    %3 = tensor.constant dense<[0.850199044, 1.6176939, 1.07390797, 0.248888582, 1.0730902, 0.9153651, 0.238497272, 0.519203424, 0.248888582, 0.248888582, 1.28426433, 0.389894545, 0.608229816, 1.11287081, 1.34327543, 0.248888582, 0.999097645, 0.556109488, 0.434102505, 0.624462068]> : tensor<20xf32>
    %4 = tensor.add %2, %3 : (tensor<?x20xf32>, tensor<20xf32>) -> tensor<?x20xf32>
    %5 = tensor.constant dense<[1.70039809, 3.2353878, 2.14781594, 0.497777164, 2.14618039, 1.8307302, 0.476994544, 1.03840685, 0.497777164, 0.497777164, 2.56852865, 0.77978909, 1.21645963, 2.22574162, 2.68655086, 0.497777164, 1.99819529, 1.11221898, 8.682050e-01, 1.24892414]> : tensor<20xf32>
    %6 = spike.integrate_fire %1 initial(%4 : tensor<?x20xf32>) threshold(%5 : tensor<20xf32>) : (tensor<6x?x20xf32>) -> !spike.train<6x?x20>
    %7 = tensor.parameter "middle_weight.fitted" buffer : tensor<20x12xf32>
    %8 = tensor.constant dense<[-0.677125335, -0.79914695, 2.585610e-01, 0.488674581, 0.140588179, -0.401081711, -0.339133531, -1.260730e+00, 0.0721242204, -1.66292965, -1.15348125, 0.362229496]> : tensor<12xf32>
    %9 = spike.linear %6, %7 bias(%8 : tensor<12xf32>) : !spike.train<6x?x20>, tensor<20x12xf32> -> tensor<6x?x12xf32>
    %10 = tensor.slice %9 {starts = array<i64: 0, 0, 0>, ends = array<i64: 1, 9223372036854775807, 9223372036854775807>, steps = array<i64: 1, 1, 1>} : (tensor<6x?x12xf32>) -> tensor<1x?x12xf32>
    %11 = tensor.squeeze %10 {axes = array<i64: 0>} : (tensor<1x?x12xf32>) -> tensor<?x12xf32>
    %12 = tensor.clamp %11 {min = 0.000000e+00 : f64, max = 0.000000e+00 : f64} : (tensor<?x12xf32>) -> tensor<?x12xf32>
    %13 = tensor.constant dense<[0.196847871, 0.196847871, 0.882975161, 0.41642502, 0.203020528, 0.196847871, 0.521116316, 0.196847871, 0.196847871, 0.0143301478, 0.196847871, 1.60033882]> : tensor<12xf32>
    %14 = tensor.add %12, %13 : (tensor<?x12xf32>, tensor<12xf32>) -> tensor<?x12xf32>
    %15 = tensor.constant dense<[0.393695742, 0.393695742, 1.76595032, 0.832850039, 0.406041056, 0.393695742, 1.04223263, 0.393695742, 0.393695742, 0.0286602955, 0.393695742, 3.20067763]> : tensor<12xf32>
    %16 = spike.integrate_fire %9 initial(%14 : tensor<?x12xf32>) threshold(%15 : tensor<12xf32>) : (tensor<6x?x12xf32>) -> !spike.train<6x?x12>
    %17 = tensor.constant dense<[[0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.393990248, -0.0562559888, -0.399861276, -0.0423107594, -0.167317271], [0.117357567, -0.382829189, 0.0514487848, -0.471321374, -0.0904960856], [0.305596471, 0.165437743, -0.221459284, -0.0653715953, 0.0256552789], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [-0.372959912, -0.215882495, -0.140708506, -0.253798425, -0.454784364], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [0.00637412164, 0.00483076461, -8.75882324e-05, -0.0105529372, -0.0176571961], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [1.22271645, -0.158023342, -0.897864342, 0.461182117, 0.437915117]]> : tensor<12x5xf32>
    %18 = tensor.constant dense<[0.277883589, 0.796807945, 0.844764233, -0.534005523, 0.960578144]> : tensor<5xf32>
    %19 = spike.linear %16, %17 bias(%18 : tensor<5xf32>) : !spike.train<6x?x12>, tensor<12x5xf32> -> tensor<6x?x5xf32>
    %20 = spike.decode %19 {scheme = "membrane", readout = "mean"} : (tensor<6x?x5xf32>) -> tensor<?x5xf32>
    func.return %20 : tensor<?x5xf32>
  }
}
