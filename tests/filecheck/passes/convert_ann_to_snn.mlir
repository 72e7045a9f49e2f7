// RUN: triton-opt %s -p 'balance-thresholds{data="%S/Inputs/samples.npy" method=max},convert-ann-to-snn{timesteps=4}' | filecheck %s
// RUN: triton-opt %s -p 'convert-ann-to-snn{timesteps=4 threshold=2.0}' | filecheck %s --check-prefix=GIVEN
// RUN: triton-opt %s -p 'convert-ann-to-snn{timesteps=4 data="%S/Inputs/samples.npy"}' | filecheck %s --check-prefix=FITTED

func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x1xf32> {
  %w = tensor.constant dense<[[1.0, -2.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %v = tensor.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = tensor.constant dense<[3.0]> : tensor<1xf32>
  %z = tensor.linear %x, %w : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %h = tensor.relu %z : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %y = tensor.linear %h, %v, %b : (tensor<?x2xf32>, tensor<2x1xf32>, tensor<1xf32>) -> tensor<?x1xf32>
  func.return %y : tensor<?x1xf32>
}
// CHECK-LABEL: func.func @forward
// CHECK:      %z = tensor.linear %x, %w
// CHECK-NEXT: %[[I:.*]] = spike.encode %z {scheme = "direct", timesteps = 4 : i64} : (tensor<?x2xf32>) -> tensor<4x?x2xf32>
// CHECK-NEXT: %[[V:.*]] = tensor.clamp %z {min = 0.634999{{.*}} : f64, max = 0.634999{{.*}} : f64}
// CHECK-NEXT: %h = spike.integrate_fire %[[I]] initial(%[[V]] : tensor<?x2xf32>) {threshold = 1.269999{{.*}} : f64} : (tensor<4x?x2xf32>) -> !spike.train<4x?x2>
// CHECK-NEXT: %[[W:.*]] = tensor.constant dense<{{\[\[}}1.270000e+00], [2.540000e+00]]> : tensor<2x1xf32>
// CHECK-NEXT: %[[O:.*]] = spike.linear %h, %[[W]] bias(%b : tensor<1xf32>) : !spike.train<4x?x2>, tensor<2x1xf32> -> tensor<4x?x1xf32>
// CHECK-NEXT: %[[Y:.*]] = spike.decode %[[O]] {scheme = "membrane", readout = "mean"} : (tensor<4x?x1xf32>) -> tensor<?x1xf32>
// CHECK-NEXT: func.return %[[Y]] : tensor<?x1xf32>

// GIVEN: spike.integrate_fire %{{.*}} initial(%{{.*}} : tensor<?x2xf32>) {threshold = 2.000000e+00 : f64}
// GIVEN: tensor.constant dense<{{\[\[}}2.000000e+00], [4.000000e+00]]> : tensor<2x1xf32>

// The weights and the bias behind the neurons are those that fit the samples, and how much each step counts.
// FITTED:      %h = spike.integrate_fire
// FITTED-NEXT: %[[W:.*]] = tensor.constant dense<{{.*}}> : tensor<2x1xf32>
// FITTED-NEXT: %[[B:.*]] = tensor.constant dense<{{.*}}> : tensor<1xf32>
// FITTED-NEXT: %[[O:.*]] = spike.linear %h, %[[W]] bias(%[[B]] : tensor<1xf32>)
// FITTED-NEXT: %[[F:.*]] = tensor.constant dense<{{.*}}> : tensor<4x1x1xf32>
// FITTED-NEXT: %[[P:.*]] = tensor.mul %[[O]], %[[F]]
// FITTED-NEXT: %[[M:.*]] = spike.decode %[[P]] {scheme = "membrane", readout = "mean"}
// FITTED-NEXT: func.return %[[M]]
