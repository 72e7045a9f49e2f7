// RUN: triton-opt %s -p 'normalize-weights{data="%S/Inputs/samples.npy" percentile=100}' | filecheck %s

func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x1xf32> {
  %w = tensor.constant dense<[[1.0, -2.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %v = tensor.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = tensor.constant dense<[3.0]> : tensor<1xf32>
  %z = tensor.linear %x, %w : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %h = tensor.relu %z : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %y = tensor.linear %h, %v, %b : (tensor<?x2xf32>, tensor<2x1xf32>, tensor<1xf32>) -> tensor<?x1xf32>
  func.return %y : tensor<?x1xf32>
}
// Weights of the first layer over 1.27, of the second times 1.27: the same results.
// CHECK: tensor.constant dense<{{\[\[}}0.787401557, -1.57480311], [0.000000e+00, 0.787401557]]> : tensor<2x2xf32>
// CHECK: tensor.relu %z {spike.threshold = dense<1.000000e+00> : tensor<f64>, spike.initial = 5.000000e-01 : f64}
// CHECK: tensor.constant dense<{{\[\[}}1.270000e+00], [2.540000e+00]]> : tensor<2x1xf32>
// CHECK: tensor.linear %h, %{{.*}}, %b
