// RUN: triton-opt %s -p 'balance-thresholds{data="%S/Inputs/samples.npy" method=max}' | filecheck %s
// RUN: triton-opt %s -p 'balance-thresholds{data="%S/Inputs/samples.npy" method=max per=channel initial=zero}' | filecheck %s --check-prefix=CHANNEL

func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x1xf32> {
  %w = tensor.constant dense<[[1.0, -2.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %v = tensor.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = tensor.constant dense<[3.0]> : tensor<1xf32>
  %z = tensor.linear %x, %w : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %h = tensor.relu %z : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %y = tensor.linear %h, %v, %b : (tensor<?x2xf32>, tensor<2x1xf32>, tensor<1xf32>) -> tensor<?x1xf32>
  func.return %y : tensor<?x1xf32>
}
// The samples are [1.27, -0.5], [0.25, -0.75] and [0, 1]: the activations reach 1.27 and 1.
// CHECK: tensor.relu %z {spike.threshold = dense<1.26999998{{.*}}> : tensor<f64>, spike.initial = 5.000000e-01 : f64}
// CHANNEL: tensor.relu %z {spike.threshold = dense<[1.26999998{{.*}}, 1.000000e+00]> : tensor<2xf64>, spike.initial = 0.000000e+00 : f64}
