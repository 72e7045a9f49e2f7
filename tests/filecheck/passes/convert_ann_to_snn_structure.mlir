// RUN: triton-opt %s --split-input-file -p 'convert-ann-to-snn{timesteps=4 threshold=2.0}' | filecheck %s

// A residual sum of trains of different thresholds, and what is not linear behind the last neurons.
func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %w = tensor.constant dense<[[1.0, -2.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %h = tensor.relu %x {spike.threshold = dense<4.0> : tensor<f64>, spike.initial = 0.0 : f64} : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %z = tensor.matmul %h, %w : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %s = tensor.add %z, %h : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %g = tensor.clamp %s {min = 0.0 : f64, max = 3.0 : f64, spike.threshold = dense<[1.0, 3.0]> : tensor<2xf64>} : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %p = tensor.softmax %g : (tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %p : tensor<?x2xf32>
}
// CHECK-LABEL: func.func @forward
// CHECK:      %h = spike.integrate_fire %{{.*}} {threshold = 4.000000e+00 : f64}
// CHECK:      %[[Z:.*]] = spike.linear %h, %{{.*}}
// CHECK-NEXT: %[[D:.*]] = spike.to_tensor %h
// CHECK-NEXT: %[[F:.*]] = tensor.constant dense<4.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[H:.*]] = tensor.mul %[[D]], %[[F]]
// CHECK-NEXT: %[[S:.*]] = tensor.add %[[Z]], %[[H]]
// CHECK:      %[[I:.*]] = tensor.constant dense<[5.000000e-01, 1.500000e+00]> : tensor<2xf32>
// CHECK-NEXT: tensor.add %{{.*}}, %[[I]]
// CHECK-NEXT: %[[T:.*]] = tensor.constant dense<[1.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: %g = spike.integrate_fire %[[S]] initial(%{{.*}} : tensor<?x2xf32>) threshold(%[[T]] : tensor<2xf32>)
// CHECK:      %[[M:.*]] = spike.decode
// CHECK-NEXT: %[[P:.*]] = tensor.softmax %[[M]]
// CHECK-NEXT: func.return %[[P]]

// -----

// Attention is another function afterwards, and a remark says so.
func.func @forward(%x: tensor<?x3x4xf32>) -> tensor<?x3x4xf32> {
  %y = tensor.scaled_dot_product_attention %x, %x, %x : (tensor<?x3x4xf32>, tensor<?x3x4xf32>, tensor<?x3x4xf32>) -> tensor<?x3x4xf32>
  func.return %y : tensor<?x3x4xf32>
}
// CHECK-LABEL: func.func @forward
// CHECK-SAME: spike.remark = ["tensor.scaled_dot_product_attention at {{.*}}: spiking attention has no softmax: train the converted program on"]
// CHECK: spike.attention %{{.*}}, %{{.*}}, %{{.*}} {scale = 5.000000e-01 : f64}
